//! See graph_child.h.
#include "scheduler/frontend/graph_child.h"

#include <sys/socket.h>

#include <csignal>
#include <cstring>

#include "scheduler/frontend/output_lines.h"

namespace scheduler {

using protocol::Error;
using protocol::Fault;
using protocol::Frames;
using protocol::Result;

namespace {

//! After its exit a child's last words are read; a process it left behind may hold the link open.
constexpr std::uint64_t kLastWordsMs = 200;

std::string manner_of_end(std::int64_t status, int signal) {
  if (signal == 0) return "exit code " + std::to_string(status);
  return "signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

}  // namespace

//! Lives until libuv has let go of all handles.
struct GraphChild::State final : LinkSocket::Owner, std::enable_shared_from_this<State> {
  GraphChild* child = nullptr;
  GraphChild::Owner* owner = nullptr;  //!< null: nobody is to be told any more
  std::unique_ptr<LinkSocket> link;
  uv_process_t process;
  uv_pipe_t outputs[2];
  uv_timer_t last_words;
  OutputLines lines;
  char read_buffer[16 * 1024];
  bool exited = false;
  bool link_ended = false;
  bool gone = false;
  bool condemned = false;  //!< ended by us: its words count no more
  std::string how;
  int open_handles = 0;
  std::shared_ptr<State> self;

  void on_message(Frames frames) override {
    if (owner != nullptr && !condemned) owner->on_message(*child, std::move(frames));
  }
  void on_closed(Error reason) override;
  void on_exit(std::int64_t status, int signal);
  void maybe_gone();
  void read_output(uv_pipe_t& pipe);
  void close_handle(uv_handle_t* handle);
  void kill() {
    condemned = true;
    if (!exited) uv_process_kill(&process, SIGKILL);
  }
};

void GraphChild::State::on_closed(Error reason) {
  link_ended = true;
  if (!exited) {
    // Nothing useful can come from a child without a link. A broken stream is a lie of its own.
    if (reason.fault != Fault::closed) how = "its link broke: " + reason.text();
    if (reason.fault != Fault::closed) kill();
    uv_timer_start(
        &last_words, [](uv_timer_t* timer) { static_cast<State*>(timer->data)->kill(); },
        kLastWordsMs, 0);
  }
  maybe_gone();
}

void GraphChild::State::on_exit(std::int64_t status, int signal) {
  exited = true;
  if (how.empty()) how = manner_of_end(status, signal);
  close_handle(reinterpret_cast<uv_handle_t*>(&process));
  uv_timer_start(
      &last_words,
      [](uv_timer_t* timer) {
        auto keep = static_cast<State*>(timer->data)->shared_from_this();
        keep->link_ended = true;
        keep->maybe_gone();
      },
      kLastWordsMs, 0);
  maybe_gone();
}

void GraphChild::State::maybe_gone() {
  if (gone || !exited || !link_ended) return;
  gone = true;
  link->close();
  close_handle(reinterpret_cast<uv_handle_t*>(&last_words));
  for (uv_pipe_t& pipe : outputs) close_handle(reinterpret_cast<uv_handle_t*>(&pipe));
  if (owner != nullptr) owner->on_gone(*child, how);
}

void GraphChild::State::close_handle(uv_handle_t* handle) {
  if (uv_is_closing(handle) != 0) return;
  uv_close(handle, [](uv_handle_t* closed) {
    auto* state = static_cast<State*>(closed->data);
    if (--state->open_handles == 0) state->self.reset();
  });
}

void GraphChild::State::read_output(uv_pipe_t& pipe) {
  const auto allocate = [](uv_handle_t* handle, std::size_t, uv_buf_t* buffer) {
    auto* state = static_cast<State*>(handle->data);
    *buffer = uv_buf_init(state->read_buffer, sizeof(state->read_buffer));
  };
  const auto arrived = [](uv_stream_t* stream, ssize_t count, const uv_buf_t* buffer) {
    auto keep = static_cast<State*>(stream->data)->shared_from_this();
    if (count < 0) {
      uv_read_stop(stream);
      return;
    }
    keep->lines.feed({buffer->base, static_cast<std::size_t>(count)}, uv_now(stream->loop),
                     [&](std::string_view line) {
                       if (keep->owner != nullptr) keep->owner->on_output(*keep->child, line);
                     });
  };
  uv_read_start(reinterpret_cast<uv_stream_t*>(&pipe), allocate, arrived);
}

Result<std::unique_ptr<GraphChild>> GraphChild::spawn(uv_loop_t* loop,
                                                      const std::vector<std::string>& command,
                                                      Owner& owner) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error{Fault::io, std::strerror(errno)};
  }
  Fd ours(ends[0]);
  Fd theirs(ends[1]);
  auto state = std::make_shared<State>();
  for (uv_pipe_t& pipe : state->outputs) {
    uv_pipe_init(loop, &pipe, 0);
    pipe.data = state.get();
  }
  uv_timer_init(loop, &state->last_words);
  state->process.data = state->last_words.data = state.get();
  state->open_handles = 4;
  state->self = state;

  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  uv_stdio_container_t stdio[4] = {};
  stdio[0].flags = UV_IGNORE;
  for (int i : {1, 2}) {
    stdio[i].flags = static_cast<uv_stdio_flags>(UV_CREATE_PIPE | UV_WRITABLE_PIPE);
    stdio[i].data.stream = reinterpret_cast<uv_stream_t*>(&state->outputs[i - 1]);
  }
  stdio[3].flags = UV_INHERIT_FD;
  stdio[3].data.fd = theirs.get();
  uv_process_options_t options{};
  options.file = arguments[0];
  options.args = arguments.data();
  options.stdio = stdio;
  options.stdio_count = 4;
  options.exit_cb = [](uv_process_t* process, std::int64_t status, int signal) {
    auto keep = static_cast<State*>(process->data)->shared_from_this();
    keep->on_exit(status, signal);
  };
  if (const int failed = uv_spawn(loop, &state->process, &options); failed != 0) {
    state->close_handle(reinterpret_cast<uv_handle_t*>(&state->process));
    state->close_handle(reinterpret_cast<uv_handle_t*>(&state->last_words));
    for (uv_pipe_t& pipe : state->outputs) {
      state->close_handle(reinterpret_cast<uv_handle_t*>(&pipe));
    }
    return Error{Fault::io, command[0] + ": " + uv_strerror(failed)};
  }
  for (uv_pipe_t& pipe : state->outputs) state->read_output(pipe);
  std::unique_ptr<GraphChild> child(new GraphChild());
  state->child = child.get();
  state->owner = &owner;
  state->link = std::make_unique<LinkSocket>(loop, std::move(ours), *state);
  child->state_ = std::move(state);
  return child;
}

GraphChild::~GraphChild() {
  if (state_ == nullptr) return;
  state_->owner = nullptr;
  state_->kill();
  state_->link->close();
  state_->link_ended = true;
  state_->maybe_gone();
}

void GraphChild::send(protocol::OutMessage message, std::vector<Fd> fds) {
  state_->link->send(std::move(message), std::move(fds));
}

Fd GraphChild::take_fd() { return state_->link->take_fd(); }
void GraphChild::kill() { state_->kill(); }
int GraphChild::pid() const { return state_->process.pid; }
const std::string& GraphChild::last_line() const { return state_->lines.last(); }

}  // namespace scheduler
