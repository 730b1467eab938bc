//! See graph_link.h. Children come and go here; what they say is read by GraphDecoder.
#include "scheduler/frontend/graph_link.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "protocol/wire/message.h"
#include "protocol/wire/writer.h"
#include "scheduler/frontend/graph_child.h"
#include "scheduler/frontend/graph_errors.h"
#include "scheduler/frontend/graph_request.h"
#include "scheduler/frontend/records.h"
#include "scheduler/frontend/submissions.h"
#include "scheduler/frontend/uploads.h"

namespace scheduler {

using protocol::Frames;
using protocol::Slice;
using protocol::Status;
using protocol::Value;

namespace {

constexpr std::uint64_t kTickMs = 50;
constexpr std::uint64_t kBackOffFirstMs = 100;
constexpr std::uint64_t kBackOffMaxMs = 10'000;
constexpr std::uint32_t kStartsMax = 3;  //!< failed starts in a row before submissions are refused
constexpr std::uint64_t kSpareIdleMs = 60'000;
constexpr std::uint64_t kStartMaxMs = 120'000;  //!< a child that is silent for so long is hung

//! A new directory that nobody else can write to; empty if there can be none.
std::string make_directory(std::string parent) {
  std::error_code failed;
  if (parent.empty()) parent = std::filesystem::temp_directory_path(failed).string();
  std::string path = parent + "/rask-uploads-XXXXXX";
  return ::mkdtemp(path.data()) == nullptr ? "" : path;
}

}  // namespace

class GraphLink::Impl final : public GraphChild::Owner, public std::enable_shared_from_this<Impl> {
 public:
  Impl(uv_loop_t* loop, Options options, Sink& sink)
      : loop_(loop), options_(std::move(options)), sink_(&sink) {
    if (options_.processes_max == 0) {
      options_.processes_max = std::max(1u, std::thread::hardware_concurrency());
    }
  }

  void start();
  void submit(Request request);
  void drop(SubmissionId id);
  void load(Upload upload);
  void forget(UploadId id) {
    uploads_.forget(id);
    dispatch();  // to whom nothing but this was missing
  }
  void close();

  void on_message(GraphChild& child, Frames frames) override;
  void on_gone(GraphChild& child, std::string how) override;
  void on_output(GraphChild& child, std::string_view line) override {
    sink_->on_log("graph process " + std::to_string(child.pid()) + ": " + std::string(line));
  }

 private:
  struct Child {
    std::unique_ptr<GraphChild> process;
    bool ready = false;            //!< has said hello
    std::uint64_t since_ms = 0;    //!< busy or idle since
    std::uint64_t kill_at_ms = 0;  //!< 0: not to be killed
  };

  void spawn();
  void dispatch();
  void send(ChildId id, GraphSubmission& submission);
  void give_uploads();
  void end_stuck_uploads(std::uint64_t now);
  void lose_upload(ChildId id, const std::string& how);
  Status hear_of_upload(ChildId id, UploadId upload, std::string_view op, Value header);
  void tick();
  void schedule_tick();
  void grow_or_shrink(std::uint64_t now);
  bool may_grow() const { return children_.size() < options_.processes_max; }
  bool another_would_help() const;
  ChildId id_of(const GraphChild& child) const;
  Status handle(ChildId id, const protocol::Message& message);
  Status answer(ChildId id, GraphSubmission& submission, std::string_view op,
                const protocol::Message& message);
  Status hear_hello(ChildId id, Value header);
  Status tell_homes(ChildId id, GraphSubmission& submission, const protocol::Message& message);
  Status map_memfds(GraphChild& child, Frames& frames);
  void finish(ChildId id);
  void refuse_all(const std::string& why);
  void start_failed(const std::string& why);

  uv_loop_t* loop_;
  Options options_;
  Sink* sink_;
  Submissions submissions_;
  std::map<ChildId, Child> children_;
  Uploads uploads_;
  std::string directory_;  //!< of uploaded files, a child's under its process id; removed with us
  ChildId next_child_ = 0;
  uv_timer_t timer_;
  bool closed_ = false;
  std::uint32_t failed_starts_ = 0;
  std::uint64_t start_at_ms_ = 0;  //!< not before this moment (back-off)
  protocol::Message message_;
  std::shared_ptr<Impl> self_;  //!< until the timer is closed
};

// ---- life of children -------------------------------------------------------------------------

void GraphLink::Impl::start() {
  self_ = shared_from_this();
  uv_timer_init(loop_, &timer_);
  timer_.data = this;
  schedule_tick();
}

void GraphLink::Impl::schedule_tick() {
  uv_timer_start(
      &timer_,
      [](uv_timer_t* timer) {
        auto keep = static_cast<Impl*>(timer->data)->self_;
        if (keep != nullptr) keep->tick();
      },
      children_.empty() ? 0 : kTickMs, 0);
}

void GraphLink::Impl::tick() {
  const std::uint64_t now = uv_now(loop_);
  for (auto& [id, child] : children_) {
    const bool hung = !child.ready && now - child.since_ms >= kStartMaxMs;
    const bool due = child.kill_at_ms != 0 && now >= child.kill_at_ms;
    if (hung || due) child.process->kill();
  }
  end_stuck_uploads(now);
  grow_or_shrink(now);
  dispatch();
  // An idle link sleeps: the timer runs only while there is something to wait for.
  bool busy = children_.empty() || submissions_.waiting() || children_.size() > 1;
  for (const auto& [id, child] : children_) busy |= !submissions_.idle(id);
  if (busy && !closed_) {
    uv_timer_start(&timer_, timer_.timer_cb, kTickMs, 0);
  }
}

void GraphLink::Impl::grow_or_shrink(std::uint64_t now) {
  if (now < start_at_ms_) return;
  bool starting = false;
  bool long_busy = false;
  for (const auto& [id, child] : children_) {
    starting |= !child.ready;
    long_busy |= child.ready && !submissions_.idle(id) && now - child.since_ms >= options_.busy_ms;
  }
  if (children_.empty()) {
    spawn();
  } else if (!starting && !submissions_.any_idle() && long_busy && may_grow() &&
             another_would_help()) {
    spawn();
  } else if (children_.size() > 1 && !starting) {
    auto last = std::prev(children_.end());
    if (submissions_.idle(last->first) && now - last->second.since_ms >= kSpareIdleMs) {
      submissions_.remove_child(last->first);
      uploads_.remove_child(last->first);
      children_.erase(last);
    }
  }
}

bool GraphLink::Impl::another_would_help() const {
  return !options_.clients || options_.clients() > 1 || submissions_.stranded();
}

void GraphLink::Impl::spawn() {
  std::vector<std::string> command{options_.python};
  command.insert(command.end(), options_.arguments.begin(), options_.arguments.end());
  auto process = GraphChild::spawn(loop_, command, *this);
  if (!process) {
    start_failed(process.error().text());
    return;
  }
  Child& child = children_[next_child_++];
  child.process = std::move(*process);
  child.since_ms = uv_now(loop_);
}

void GraphLink::Impl::start_failed(const std::string& why) {
  ++failed_starts_;
  const std::uint64_t wait = kBackOffFirstMs << std::min(failed_starts_, 10u);
  start_at_ms_ = uv_now(loop_) + std::min(wait, kBackOffMaxMs);
  sink_->on_log("a graph process could not start: " + why);
  if (failed_starts_ >= kStartsMax && children_.empty()) {
    refuse_all("The scheduler cannot start a process to read graphs: " + why);
  }
}

void GraphLink::Impl::refuse_all(const std::string& why) {
  for (auto& submission : submissions_.take_waiting()) {
    sink_->on_error(submission->id, runtime_error(why));
  }
  for (const Upload& upload : uploads_.take_waiting()) {
    sink_->on_load_error(upload.id, runtime_error(why));
  }
}

ChildId GraphLink::Impl::id_of(const GraphChild& child) const {
  for (const auto& [id, known] : children_) {
    if (known.process.get() == &child) return id;
  }
  return next_child_;
}

void GraphLink::Impl::on_gone(GraphChild& process, std::string how) {
  const ChildId id = id_of(process);
  const bool ready = children_.at(id).ready;
  const std::string last_line = process.last_line();
  const int pid = process.pid();
  sink_->on_log("graph process " + std::to_string(pid) + " ended: " + how);
  Submissions::Held held;
  if (ready) held = submissions_.remove_child(id);
  children_.erase(id);
  if (closed_) return;
  if (!directory_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(directory_ + "/" + std::to_string(pid), ignored);
  }
  if (ready) lose_upload(id, how);
  if (!ready) {
    start_failed(how + (last_line.empty() ? "" : "; " + last_line));
  }
  std::unique_ptr<GraphSubmission> current;
  if (!held.empty()) {
    current = std::move(held.front());
    held.pop_front();
  }
  // The others were not begun: another child takes them, and nobody notices.
  std::erase_if(held, [](const auto& submission) { return submission->dropped; });
  submissions_.put_back(std::move(held));
  if (current != nullptr && !current->dropped) {
    sink_->on_error(
        current->id,
        runtime_error("The process that read this graph on the scheduler died: " + how));
  }
  if (!closed_) schedule_tick();
}

// ---- submissions ------------------------------------------------------------------------------

void GraphLink::Impl::submit(Request request) {
  auto submission = std::make_unique<GraphSubmission>();
  submission->id = request.id;
  submission->client = request.client;
  submission->order = request.order;
  submission->expr = std::move(request.expr);
  submission->annotations = std::move(request.annotations);
  submission->fifo_timeout = std::move(request.fifo_timeout);
  submission->wanted = std::move(request.wanted);
  submission->settings = std::move(request.settings);
  submission->workers = request.workers;
  submissions_.add(std::move(submission));
  dispatch();
  if (!closed_ && uv_is_active(reinterpret_cast<uv_handle_t*>(&timer_)) == 0) schedule_tick();
}

void GraphLink::Impl::dispatch() {
  if (uploads_.used()) give_uploads();
  while (!closed_) {
    auto assignment = submissions_.assign(may_grow());
    if (!assignment) return;
    send(assignment->child, *assignment->submission);
  }
}

void GraphLink::Impl::send(ChildId id, GraphSubmission& submission) {
  Child& child = children_.at(id);
  if (submissions_.current(id) == &submission) child.since_ms = uv_now(loop_);
  GraphRequest request = graph_request(submission);
  submission.decoder = std::make_unique<GraphDecoder>(std::move(request.frames));
  child.process->send(std::move(request.message), std::move(request.fds));
}

void GraphLink::Impl::drop(SubmissionId id) {
  const auto [where, child] = submissions_.drop(id);
  if (where != Submissions::Where::sent && where != Submissions::Where::current) return;
  children_.at(child).process->send(drop_request(id), {});
  if (where == Submissions::Where::current) {
    children_.at(child).kill_at_ms = uv_now(loop_) + options_.drop_grace_ms;
  }
}

void GraphLink::Impl::finish(ChildId id) {
  submissions_.finish_current(id);
  Child& child = children_.at(id);
  child.since_ms = uv_now(loop_);
  child.kill_at_ms = 0;
  const GraphSubmission* next = submissions_.current(id);
  if (next != nullptr && next->dropped) child.kill_at_ms = child.since_ms + options_.drop_grace_ms;
  dispatch();
}

// ---- uploads ----------------------------------------------------------------------------------

void GraphLink::Impl::load(Upload upload) {
  if (directory_.empty()) directory_ = make_directory(options_.temporary);
  uploads_.add(std::move(upload));
  dispatch();
  if (!closed_ && uv_is_active(reinterpret_cast<uv_handle_t*>(&timer_)) == 0) schedule_tick();
}

//! A child is either at graphs or at uploads, so that it is plain which of them it died of.
void GraphLink::Impl::give_uploads() {
  for (auto& [id, child] : children_) {
    if (!child.ready || !submissions_.holds_nothing(id)) continue;
    Upload* upload = uploads_.next(id);
    if (upload == nullptr) continue;
    GraphRequest request = upload_request(*upload, directory_);
    child.since_ms = uv_now(loop_);
    child.process->send(std::move(request.message), std::move(request.fds));
  }
  for (const auto& [id, child] : children_) {
    if (child.ready) submissions_.set_closed(id, uploads_.keeps(id));
  }
}

void GraphLink::Impl::end_stuck_uploads(std::uint64_t now) {
  for (auto& [id, child] : children_) {
    const bool again = uploads_.loading(id) && !uploads_.on_trial(id);
    if (again && now - child.since_ms >= kStartMaxMs) child.process->kill();
  }
  if (const auto stuck = uploads_.abandoned()) {
    Child& child = children_.at(*stuck);
    if (child.kill_at_ms == 0) child.kill_at_ms = now + options_.drop_grace_ms;
  }
}

Status GraphLink::Impl::hear_of_upload(ChildId id, UploadId upload, std::string_view op,
                                       Value header) {
  const bool loaded = op == "loaded";
  if ((!loaded && op != "error") || header.find("id").as_uint() != upload) {
    return protocol::Error{protocol::Fault::bad_type, "an answer to nothing that was asked"};
  }
  Child& child = children_.at(id);
  child.kill_at_ms = 0;
  child.since_ms = uv_now(loop_);
  const bool trial = uploads_.finish(id, loaded);
  if (trial && loaded) {
    sink_->on_loaded(upload, header.find("name").as_str().value_or(""));
  } else if (trial) {
    sink_->on_load_error(upload, reported_error(header));
  } else if (!loaded) {
    sink_->on_log("graph process " + std::to_string(child.process->pid()) +
                  " could not load what another one had: " + reported_error(header).exception_text);
  }
  dispatch();
  return protocol::Done{};
}

void GraphLink::Impl::lose_upload(ChildId id, const std::string& how) {
  const auto lost = uploads_.remove_child(id);
  if (!lost) return;
  if (lost->trial) {
    sink_->on_load_error(
        lost->id,
        runtime_error("The process that loaded this plugin on the scheduler died: " + how));
  } else if (lost->forgotten) {
    sink_->on_log("An uploaded file ended " + std::to_string(Uploads::kDeathsMax) +
                  " graph processes and is forgotten");
  }
}

// ---- what children say ------------------------------------------------------------------------

void GraphLink::Impl::on_message(GraphChild& process, Frames frames) {
  const ChildId id = id_of(process);
  Status status = message_.reset(std::move(frames));
  if (status) status = handle(id, message_);
  if (status || closed_) return;
  sink_->on_log("graph process " + std::to_string(process.pid()) +
                " broke the format and is ended: " + status.error().text());
  process.kill();
}

Status GraphLink::Impl::handle(ChildId id, const protocol::Message& message) {
  const Value header = message.root();
  const auto op = header.find("op").as_str();
  if (!op) return protocol::Error{protocol::Fault::bad_type, "no op"};
  if (*op == "hello") return hear_hello(id, header);
  if (!children_.at(id).ready) return protocol::Error{protocol::Fault::bad_type, "no hello"};
  if (const auto upload = uploads_.loading(id)) return hear_of_upload(id, *upload, *op, header);
  GraphSubmission* submission = submissions_.current(id);
  const auto told = header.find("id").as_uint();
  if (submission == nullptr || !told || *told != submission->id.value) {
    return protocol::Error{protocol::Fault::bad_type, "an answer to nothing that was asked"};
  }
  if (*op == "homes") return tell_homes(id, *submission, message);
  if (!submission->dropped) return answer(id, *submission, *op, message);
  if (*op == "commit" || *op == "error") finish(id);
  return protocol::Done{};
}

Status GraphLink::Impl::hear_hello(ChildId id, Value header) {
  Child& child = children_.at(id);
  const Value versions = header.find("versions");
  if (child.ready || !versions.is_map()) {
    return protocol::Error{protocol::Fault::bad_type, "hello"};
  }
  child.ready = true;
  child.since_ms = uv_now(loop_);
  failed_starts_ = 0;
  submissions_.add_child(id);
  uploads_.add_child(id);
  sink_->on_hello(versions.raw());
  dispatch();
  return protocol::Done{};
}

//! The child waits for this answer, so a dropped submission gets one too: that nobody holds
//! anything.
Status GraphLink::Impl::tell_homes(ChildId id, GraphSubmission& submission,
                                   const protocol::Message& message) {
  Frames frames = message.frames();
  GraphChild& process = *children_.at(id).process;
  if (auto mapped = map_memfds(process, frames); !mapped) return mapped;
  if (submission.asked || submission.opened || frames.size() != 2) {
    return protocol::Error{protocol::Fault::bad_type, "homes"};
  }
  submission.asked = true;
  auto keys = submission.decoder->asked(frames[1].view());
  if (!keys) return keys.error();
  std::vector<std::uint32_t> homes;
  if (!submission.dropped) homes = sink_->on_homes(submission.id, *keys);
  process.send(homes_answer(submission.id, homes), {});
  return protocol::Done{};
}

Status GraphLink::Impl::answer(ChildId id, GraphSubmission& submission, std::string_view op,
                               const protocol::Message& message) {
  const Value header = message.root();
  Frames frames = message.frames();
  if (auto mapped = map_memfds(*children_.at(id).process, frames); !mapped) return mapped;
  const std::span<const Slice> rest = std::span<const Slice>(frames).subspan(1);
  GraphDecoder& decoder = *submission.decoder;
  if (op == "error") {
    const SubmissionId told = submission.id;
    finish(id);
    sink_->on_error(told, reported_error(header));
    return protocol::Done{};
  }
  if (op == "open" && !submission.opened) {
    submission.opened = true;
    sink_->on_open(submission.id, header.find("append").as_bool().value_or(false),
                   header.find("tasks").as_uint(), header.find("fifo_timeout").as_double());
    return protocol::Done{};
  }
  if (!submission.opened) return protocol::Error{protocol::Fault::bad_type, "not open"};
  if (op == "keys") {
    const bool outside = header.find("outside").as_bool().value_or(false);
    if (rest.size() != 1) return protocol::Error{protocol::Fault::bad_type, "keys"};
    auto keys = decoder.keys(rest[0].view(), outside);
    if (!keys) return keys.error();
    sink_->on_keys(submission.id, *keys, outside);
  } else if (op == "blobs") {
    return decoder.blobs(rest, header.find("refs"));
  } else if (op == "annotations") {
    return decoder.annotations(header.find("sets"));
  } else if (op == "records") {
    auto tasks = decoder.records(header, rest);
    if (!tasks) return tasks.error();
    sink_->on_records(submission.id, std::move(*tasks));
  } else if (op == "barriers") {
    auto barriers = decoder.barriers(header.find("barriers"));
    if (!barriers) return barriers.error();
    sink_->on_barriers(submission.id, std::move(*barriers));
  } else if (op == "commit") {
    if (auto complete = decoder.complete(); !complete) return complete;
    const SubmissionId told = submission.id;
    finish(id);
    sink_->on_commit(told);
  } else {
    return protocol::Error{protocol::Fault::unknown_op, std::string(op)};
  }
  return protocol::Done{};
}

Status GraphLink::Impl::map_memfds(GraphChild& child, Frames& frames) {
  for (Value entry : message_.root().find("fds").elements()) {
    if (!entry.is_array() || entry.size() != 2) {
      return protocol::Error{protocol::Fault::bad_type, "fds"};
    }
    auto element = entry.elements().begin();
    const auto frame = (*element).as_uint();
    const auto size = (*++element).as_uint();
    const Fd fd = child.take_fd();
    if (!frame || *frame == 0 || *frame >= frames.size() || !size || !fd.valid()) {
      return protocol::Error{protocol::Fault::bad_type, "fds"};
    }
    auto mapped = map_received(fd, *size);
    if (!mapped) return mapped.error();
    frames[*frame] = *mapped;
  }
  return protocol::Done{};
}

void GraphLink::Impl::close() {
  if (closed_) return;
  closed_ = true;
  children_.clear();
  std::error_code ignored;
  if (!directory_.empty()) std::filesystem::remove_all(directory_, ignored);
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_),
           [](uv_handle_t* timer) { static_cast<Impl*>(timer->data)->self_.reset(); });
}

// ---- the public face --------------------------------------------------------------------------

GraphLink::GraphLink(uv_loop_t* loop, Options options, Sink& sink)
    : impl_(std::make_shared<Impl>(loop, std::move(options), sink)) {
  impl_->start();
}

GraphLink::~GraphLink() { impl_->close(); }

void GraphLink::submit(Request request) { impl_->submit(std::move(request)); }
void GraphLink::drop(SubmissionId id) { impl_->drop(id); }
void GraphLink::load(UploadId id, protocol::Slice plugin, std::function<bool()> abandoned) {
  impl_->load({id, std::move(plugin), std::move(abandoned)});
}
void GraphLink::forget(UploadId id) { impl_->forget(id); }
void GraphLink::close() { impl_->close(); }

}  // namespace scheduler
