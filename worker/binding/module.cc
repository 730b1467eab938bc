//! rask._native._worker: the worker's Runtime as Python sees it.
//!
//! Every call gives up the GIL before it may wait, for a queue or for the loop's turn; nothing on
//! the native side ever asks for it. python/rask/worker/ is the only user.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/binding/convert.h"
#include "worker/binding/job.h"
#include "worker/binding/live.h"
#include "worker/binding/options.h"
#include "worker/binding/stacks.h"
#include "worker/shell/heap.h"
#include "worker/shell/runtime.h"
#include "worker/shell/topology.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace worker {

namespace {

constexpr std::uint64_t kKeepPackedBelow = 1u << 20;
constexpr int kLeaveMs = 2000;

void throw_if_failed(const protocol::Status& status) {
  if (!status) throw std::runtime_error(status.error().text());
}

Slice copied(const nb::bytes& bytes) {
  return bytes.size() == 0 ? Slice() : Slice::copy_of(ByteView(bytes.c_str(), bytes.size()));
}

nb::list key_list(const std::vector<Key>& keys) {
  nb::list out;
  for (const Key& key : keys) out.append(key_object(key));
  return out;
}

//! (key, start, finish, stimulus, time)
nb::tuple transition_object(const Transition& t) {
  return nb::make_tuple(key_object(t.key), task_state_name(t.start), task_state_name(t.finish),
                        t.stimulus, t.time);
}

//! Bytes of the frames that the value made of them does not hold on to.
std::uint64_t unshared_bytes(const nb::list& frames) {
  std::uint64_t bytes = 0;
  for (const nb::handle frame : frames) {
    // The list has one reference; the loop's handle has none.
    if (Py_REFCNT(frame.ptr()) <= 1) bytes += nb::len(frame);
  }
  return bytes;
}

class PyRuntime {
 public:
  explicit PyRuntime(const nb::dict& options)
      : drops_(std::make_shared<DropQueue>()),
        runtime_(std::make_unique<Runtime>(options_of(options))) {
    drops_->on_work([runtime = runtime_.get()] { runtime->wake_pack(); });
  }
  ~PyRuntime() { drops_->close(); }

  void listen(std::uint16_t port) { throw_if_failed(without_gil(&Runtime::listen, port)); }
  void start() { without_gil(&Runtime::start); }
  void run() { without_gil(&Runtime::run); }
  void set_status(std::string status) { without_gil(&Runtime::set_status, std::move(status)); }
  void set_memory(std::uint64_t limit, double target, double spill, double pause) {
    without_gil(&Runtime::set_memory, MemoryBounds{limit, target, spill, pause});
  }
  void set_resources(std::vector<std::pair<std::string, double>> totals) {
    without_gil(&Runtime::set_resources, std::move(totals));
  }
  void stop() {
    if (runtime_) without_gil(&Runtime::stop);
  }
  //! At interpreter exit. Stops, and waits until no thread is left without the GIL in native code:
  //! a thread that asks for it while the interpreter ends is torn down where it stands.
  void leave() {
    if (!runtime_) return;
    stop();
    leaving_ = true;
    const nb::gil_scoped_release unlocked;
    for (int i = 0; i < kLeaveMs && away_ > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void before_fork() { native().before_fork(); }
  void after_fork_in_parent() { native().after_fork_in_parent(); }
  void after_fork_in_child() {
    drops_->abandon();
    native().after_fork_in_child();
    runtime_.reset();
  }

  // ---- executors ----------------------------------------------------------------------------
  void pin_executor() { throw_if_failed(native().pin_executor()); }
  std::optional<PyJob> next_job() {
    std::optional<Job> job = without_gil(&Runtime::next_job);
    drops_->drain();
    if (!job) return std::nullopt;
    return PyJob(std::move(*job));
  }
  bool read_inputs(PyJob& job) { return without_gil(&Runtime::read_inputs, job.job()); }

  void finished(const PyJob& job, nb::handle value, std::uint64_t nbytes, nb::handle packed,
                const PyTypeInfo& type, double start, double stop, std::uint64_t thread) {
    without_gil(&Runtime::finished, job.job(),
         Finished{{drops_->hold(value.ptr()), payload_of(packed, *drops_), nbytes},
                  type.type,
                  {start, stop, thread}});
  }
  void failed(const PyJob& job, nb::handle exception, nb::handle traceback,
              std::string exception_text, std::string traceback_text, double start, double stop,
              std::uint64_t thread) {
    without_gil(&Runtime::failed, job.job(),
         Failed{payload_of(exception, *drops_), payload_of(traceback, *drops_),
                std::move(exception_text), std::move(traceback_text), {start, stop, thread}});
  }
  void rescheduled(const PyJob& job) { without_gil(&Runtime::rescheduled, job.job()); }
  void seceded(nb::handle key, double seconds) { without_gil(&Runtime::seceded, key_of(key), seconds); }
  //! `frames`: of the payload the value was made of.
  void set_live(std::uint64_t id, nb::handle value, const nb::list& frames) {
    without_gil(&Runtime::set_live, ValueId(id), drops_->hold(value.ptr()),
         unshared_bytes(frames) <= kKeepPackedBelow);
  }
  void set_live_if_room(std::uint64_t id, nb::handle value, const nb::list& frames) {
    without_gil(&Runtime::set_live_if_room, ValueId(id), drops_->hold(value.ptr()),
                unshared_bytes(frames) <= kKeepPackedBelow);
  }
  //! (value id, is live, live object or payload, is actor, came from disk), or None if it is lost.
  nb::object read_input(PyJob& job, std::size_t number) {
    const auto found = without_gil(&Runtime::read_input, job.job(), number);
    if (!found) return nb::none();
    const auto& [input, from_disk] = *found;
    return nb::make_tuple(input.id.value) + value_object(input.value) +
           nb::make_tuple(input.actor, from_disk);
  }
  //! (the live object,), or None: ask read_input.
  nb::object live_input(const PyJob& job, std::size_t number) const {
    const LiveRef live = native().live_input(job.job(), number);
    return live ? nb::object(nb::make_tuple(live_object(live))) : nb::object(nb::none());
  }
  void interrupt_executor() { native().interrupt_executor(); }

  // ---- pack thread --------------------------------------------------------------------------
  //! [(kind, value id, key, is live, live object or payload, is actor)]; [] after a wake-up for
  //! drops; None when the worker closes.
  nb::object next_packs() {
    const auto requests =
        without_gil(&Runtime::next_packs, [drops = drops_.get()] { return !drops->empty(); });
    drops_->drain();
    if (!requests) return nb::none();
    nb::list out;
    for (const PackRequest& request : *requests) {
      const bool pack = request.kind == PackRequest::Kind::pack;
      out.append(nb::make_tuple(pack ? "pack" : "describe", request.id.value,
                                key_object(request.key)) +
                 value_object(request.value) + nb::make_tuple(request.actor));
    }
    return out;
  }
  //! [(value id, payload, failure)]
  void packed(const nb::list& answers) {
    std::vector<PackAnswer> all;
    for (const nb::handle answer : answers) {
      all.push_back({ValueId(nb::cast<std::uint64_t>(answer[0])), payload_of(answer[1], *drops_),
                     nb::cast<std::string>(answer[2])});
    }
    without_gil(&Runtime::packed, std::move(all));
  }
  void described(std::uint64_t id, const PyTypeInfo& type) {
    without_gil(&Runtime::described, ValueId(id), type.type);
  }

  // ---- service loop -------------------------------------------------------------------------
  int service_fd() const { return native().service_fd(); }
  nb::list take_service_events();
  void reply(std::uint64_t token, nb::handle frames, bool close) {
    without_gil(&Runtime::reply, token, slices_of(frames, *drops_), close);
  }
  void send_to_scheduler(nb::handle frames) {
    without_gil(&Runtime::send_to_scheduler, slices_of(frames, *drops_));
  }
  void claim_op(std::string op) { without_gil(&Runtime::claim_op, std::move(op)); }
  void offer_heartbeat(const nb::bytes& extensions, const nb::bytes& digests,
                       const nb::bytes& metrics, std::pair<double, double> net,
                       std::pair<double, double> disk) {
    without_gil(&Runtime::offer_heartbeat,
         HeartbeatOffer{copied(extensions), copied(digests), copied(metrics), net.first, net.second,
                        disk.first, disk.second});
  }
  void watch_transitions(bool on) { without_gil(&Runtime::watch_transitions, on); }

  // ---- what the worker holds and does -------------------------------------------------------
  nb::list keys() const { return key_list(without_gil(&Runtime::keys)); }
  bool holds(nb::handle key) const { return without_gil(&Runtime::holds, key_of(key)); }
  //! (value id, is live, live object or payload), or None if the worker does not hold the key.
  nb::object value(nb::handle key) const {
    const std::optional<Input> found = without_gil(&Runtime::value, key_of(key));
    if (!found) return nb::none();
    return nb::make_tuple(found->id.value) + value_object(found->value);
  }
  void put(nb::handle key, nb::handle value, std::uint64_t nbytes, const PyTypeInfo& type) {
    without_gil(&Runtime::put, key_of(key), Value{drops_->hold(value.ptr()), nullptr, nbytes}, type.type);
  }

  //! [(span, family, what, seconds)]
  nb::list take_spent() {
    nb::list out;
    for (const Spent& s : without_gil(&Runtime::take_spent)) {
      out.append(nb::make_tuple(s.span, s.family, std::string(s.what), s.seconds));
    }
    return out;
  }
  static void skip_cpu() { Runtime::skip_cpu(); }
  static void told_seconds(double seconds) { Runtime::told_seconds(seconds); }

  nb::bytes metrics() const { return bytes_object(without_gil(&Runtime::metrics).view()); }
  nb::dict counts() const {
    nb::dict out;
    for (const auto& [name, count] : without_gil(&Runtime::counts)) {
      out[nb::str(name.data(), name.size())] = count;
    }
    return out;
  }
  nb::dict levels() const {
    nb::dict out;
    for (const auto& [name, level] : without_gil(&Runtime::levels)) {
      out[nb::str(name.data(), name.size())] = level;
    }
    return out;
  }
  std::vector<std::pair<std::string, double>> available_resources() const {
    return without_gil(&Runtime::available_resources);
  }
  nb::list tasks() const { return key_list(without_gil(&Runtime::tasks)); }
  nb::object task(nb::handle key) const;
  nb::list story() const {
    nb::list out;
    for (const Transition& t : without_gil(&Runtime::story)) out.append(transition_object(t));
    return out;
  }
  std::string address() const { return native().address(); }

 private:
  Runtime& native() const {
    if (!runtime_) throw std::runtime_error("the worker lives in the parent of this process");
    return *runtime_;
  }
  //! Counts the threads that will ask for the GIL again.
  struct Away {
    explicit Away(std::atomic<int>& count) : count_(count) { ++count_; }
    ~Away() { --count_; }
    std::atomic<int>& count_;
  };
  template <class Call, class Self, class... Args>
  auto released(Call call, Self& self, Args&&... args) const {
    if (leaving_) return (self.*call)(std::forward<Args>(args)...);
    const Away away(away_);
    const nb::gil_scoped_release unlocked;
    return (self.*call)(std::forward<Args>(args)...);
  }
  //! Calls without the GIL.
  template <class Result, class... Params, class... Args>
  Result without_gil(Result (Runtime::*call)(Params...), Args&&... args) const {
    return released(call, native(), std::forward<Args>(args)...);
  }
  template <class Result, class... Params, class... Args>
  Result without_gil(Result (Runtime::*call)(Params...) const, Args&&... args) const {
    return released(call, native(), std::forward<Args>(args)...);
  }

  mutable std::atomic<int> away_ = 0;
  std::atomic<bool> leaving_ = false;
  std::shared_ptr<DropQueue> drops_;
  std::unique_ptr<Runtime> runtime_;
};

//! [(kind, token, content)], kind by name; content is what the kind needs (service.py).
nb::list PyRuntime::take_service_events() {
  using Kind = ServiceEvent::Kind;
  static constexpr const char* kKinds[] = {
      "registered", "refused", "unreachable", "request",   "stream",      "job",
      "log",        "status",  "heartbeat",   "transitions", "actor_gone", "close"};
  nb::list out;
  for (ServiceEvent& event : native().take_service_events()) {
    nb::object content = nb::cast(event.text);
    if (event.kind == Kind::job) content = nb::cast(PyJob(std::move(*event.job)));
    if (event.kind == Kind::heartbeat) content = nb::cast(event.seconds);
    if (event.kind == Kind::actor_gone) content = key_object(event.key);
    if (event.kind == Kind::request || event.kind == Kind::stream ||
        event.kind == Kind::registered) {
      content = nb::make_tuple(frame_list(event.message), event.text);
    }
    if (event.kind == Kind::transitions) {
      nb::list seen;
      for (const Transition& t : event.transitions) seen.append(transition_object(t));
      content = seen;
    }
    out.append(nb::make_tuple(kKinds[static_cast<int>(event.kind)], event.token, content));
  }
  return out;
}

//! The task as a dict of plain values, or None.
nb::object PyRuntime::task(nb::handle key) const {
  const std::optional<TaskView> view = without_gil(&Runtime::task, key_of(key));
  if (!view) return nb::none();
  nb::dict out;
  out["key"] = key_object(view->key);
  out["state"] = task_state_name(view->state);
  out["run_id"] = view->run.valid() ? static_cast<std::int64_t>(view->run.value) : -1;
  out["priority"] = nb::tuple(nb::cast(view->priority));
  out["nbytes"] = view->nbytes < 0 ? nb::object(nb::none()) : nb::cast(view->nbytes);
  out["actor"] = view->actor;
  out["dependencies"] = key_list(view->dependencies);
  out["dependents"] = key_list(view->dependents);
  out["waiting_for_data"] = key_list(view->waiting_for);
  out["who_has"] = nb::cast(view->who_has);
  out["resource_restrictions"] = nb::cast(view->resources);
  out["annotations"] = payload_object(view->annotations);
  return out;
}

void bind_runtime(nb::module_& module) {
  nb::class_<PyRuntime>(module, "Runtime", nb::is_weak_referenceable())
      .def(nb::init<const nb::dict&>())
      .def("listen", &PyRuntime::listen)
      .def("start", &PyRuntime::start)
      .def("run", &PyRuntime::run)
      .def("set_status", &PyRuntime::set_status)
      .def("set_memory", &PyRuntime::set_memory, "limit"_a, "target"_a, "spill"_a, "pause"_a)
      .def("set_resources", &PyRuntime::set_resources)
      .def("stop", &PyRuntime::stop)
      .def("leave", &PyRuntime::leave)
      .def("before_fork", &PyRuntime::before_fork)
      .def("after_fork_in_parent", &PyRuntime::after_fork_in_parent)
      .def("after_fork_in_child", &PyRuntime::after_fork_in_child)
      .def("pin_executor", &PyRuntime::pin_executor)
      .def("next_job", &PyRuntime::next_job)
      .def("read_inputs", &PyRuntime::read_inputs)
      .def("finished", &PyRuntime::finished, "job"_a, "value"_a.none(), "nbytes"_a,
           "packed"_a.none(), "type"_a, "start"_a, "stop"_a, "thread"_a)
      .def("failed", &PyRuntime::failed, "job"_a, "exception"_a.none(), "traceback"_a.none(),
           "exception_text"_a, "traceback_text"_a, "start"_a, "stop"_a, "thread"_a)
      .def("rescheduled", &PyRuntime::rescheduled)
      .def("seceded", &PyRuntime::seceded)
      .def("set_live", &PyRuntime::set_live, "id"_a, "value"_a.none(), "frames"_a)
      .def("set_live_if_room", &PyRuntime::set_live_if_room, "id"_a, "value"_a.none(), "frames"_a)
      .def("read_input", &PyRuntime::read_input)
      .def("live_input", &PyRuntime::live_input)
      .def("interrupt_executor", &PyRuntime::interrupt_executor)
      .def("next_packs", &PyRuntime::next_packs)
      .def("packed", &PyRuntime::packed)
      .def("described", &PyRuntime::described)
      .def("service_fd", &PyRuntime::service_fd)
      .def("take_service_events", &PyRuntime::take_service_events)
      .def("reply", &PyRuntime::reply, "token"_a, "frames"_a, "close"_a = false)
      .def("send_to_scheduler", &PyRuntime::send_to_scheduler)
      .def("claim_op", &PyRuntime::claim_op)
      .def("offer_heartbeat", &PyRuntime::offer_heartbeat)
      .def("watch_transitions", &PyRuntime::watch_transitions)
      .def("keys", &PyRuntime::keys)
      .def("holds", &PyRuntime::holds)
      .def("value", &PyRuntime::value)
      .def("put", &PyRuntime::put, "key"_a, "value"_a.none(), "nbytes"_a, "type"_a)
      .def("take_spent", &PyRuntime::take_spent)
      .def_static("skip_cpu", &PyRuntime::skip_cpu)
      .def_static("told_seconds", &PyRuntime::told_seconds)
      .def("metrics", &PyRuntime::metrics)
      .def("counts", &PyRuntime::counts)
      .def("levels", &PyRuntime::levels)
      .def("available_resources", &PyRuntime::available_resources)
      .def("tasks", &PyRuntime::tasks)
      .def("task", &PyRuntime::task)
      .def("story", &PyRuntime::story)
      .def_prop_ro("address", &PyRuntime::address);
}

}  // namespace

}  // namespace worker

NB_MODULE(_worker, module) {
  module.doc() = "The native half of a rask worker.";
  // The runtime lives until the process ends; that is no leak.
  nb::set_leak_warnings(false);
  worker::bind_frame(module);
  worker::bind_jobs(module);
  worker::bind_runtime(module);
  module.attr("PICKLE_HEADER") = worker::bytes_object(worker::pickle_header().view());
  module.def("keep_freed_memory", &worker::keep_freed_memory,
             "For processes that are a worker: malloc keeps memory for the next task.");
  module.def("stacks", &worker::stacks_of, "idents"_a, "most"_a,
             "{ident: [frames, innermost first]} of these threads.");
  module.def("topology", [](const std::string& pin) {
    return worker::bytes_object(worker::Topology().describe(pin).view());
  }, "pin"_a, "The machine as a msgpack map.");
}
