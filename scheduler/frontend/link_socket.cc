//! See link_socket.h.
#include "scheduler/frontend/link_socket.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace scheduler {

using protocol::Error;
using protocol::Fault;
using protocol::Frames;
using protocol::FrameReader;
using protocol::Slice;

namespace {

constexpr std::uint64_t kTurnBudgetNs = 3'000'000;
constexpr std::size_t kIovMax = 64;
constexpr std::size_t kFdsPerCall = 64;
constexpr std::size_t kFdsHeldMax = 1024;

}  // namespace

//! Lives until libuv has let go of both handles.
struct LinkSocket::State : std::enable_shared_from_this<LinkSocket::State> {
  struct Piece {
    Slice bytes;
    std::vector<Fd> fds;
  };

  uv_poll_t poll;
  uv_idle_t backlog;  //!< runs while received messages wait for the next turn
  Fd fd;
  Owner* owner;
  FrameReader reader{FrameReader::Profile::established};
  std::deque<Fd> received;
  std::deque<Piece> queue;
  std::size_t queued = 0;
  bool closed = false;
  bool waiting = false;  //!< messages wait in the reader
  int closing_handles = 0;
  std::shared_ptr<State> self;

  void start(uv_loop_t* loop);
  void watch();
  void on_ready(int status, int events);
  bool read_some();
  void deliver();
  void write_some();
  ssize_t send_front();
  void keep_fds(msghdr& header);
  void fail(Error reason);
  void close();
};

void LinkSocket::State::start(uv_loop_t* loop) {
  self = shared_from_this();
  uv_poll_init(loop, &poll, fd.get());
  uv_idle_init(loop, &backlog);
  poll.data = backlog.data = this;
  watch();
}

void LinkSocket::State::watch() {
  if (closed) return;
  const int events = (waiting ? 0 : UV_READABLE) | (queue.empty() ? 0 : UV_WRITABLE);
  if (events == 0) {
    uv_poll_stop(&poll);
  } else {
    uv_poll_start(&poll, events | UV_DISCONNECT, [](uv_poll_t* handle, int status, int ready) {
      static_cast<State*>(handle->data)->on_ready(status, ready);
    });
  }
}

void LinkSocket::State::on_ready(int status, int events) {
  auto keep = shared_from_this();
  // libuv says EBADF for any error of the socket; there is one: the peer ended with something unread.
  if (status == UV_EBADF) return fail(Error{Fault::closed, "by the peer"});
  if (status < 0) return fail(Error{Fault::io, uv_strerror(status)});
  if ((events & UV_WRITABLE) != 0) write_some();
  if (closed || (events & (UV_READABLE | UV_DISCONNECT)) == 0) return;
  if (read_some()) deliver();
}

//! One call; false if there was nothing or the stream is over.
bool LinkSocket::State::read_some() {
  const FrameReader::Space space = reader.prepare();
  if (space.size == 0) {
    fail(Error{Fault::too_large, "out of memory"});
    return false;
  }
  iovec io{space.data, space.size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFdsPerCall)];
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t count = ::recvmsg(fd.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) {
    if (errno != EAGAIN && errno != EINTR) fail(Error{Fault::io, std::strerror(errno)});
    return false;
  }
  keep_fds(header);
  if (count == 0) {
    fail(Error{Fault::closed, "end of stream"});
    return false;
  }
  reader.commit(static_cast<std::size_t>(count));
  return true;
}

void LinkSocket::State::keep_fds(msghdr& header) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int received_fd;
      std::memcpy(&received_fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      Fd owned(received_fd);
      if (received.size() < kFdsHeldMax) received.push_back(std::move(owned));
    }
  }
}

void LinkSocket::State::deliver() {
  const std::uint64_t deadline = uv_hrtime() + kTurnBudgetNs;
  bool more = true;
  while (!closed && more) {
    if (uv_hrtime() > deadline) break;
    Frames frames;
    auto next = reader.next(frames);
    if (!next) return fail(next.error());
    more = *next;
    if (more) owner->on_message(std::move(frames));
  }
  if (closed || waiting == more) return;
  waiting = more;
  watch();
  if (more) {
    uv_idle_start(&backlog, [](uv_idle_t* handle) {
      auto keep = static_cast<State*>(handle->data)->shared_from_this();
      keep->deliver();
    });
  } else {
    uv_idle_stop(&backlog);
  }
}

//! Sends from the head of the queue; a piece with descriptors begins a call of its own.
ssize_t LinkSocket::State::send_front() {
  iovec io[kIovMax];
  std::size_t count = 0;
  for (const Piece& piece : queue) {
    if (count == kIovMax || (count > 0 && !piece.fds.empty())) break;
    io[count++] = iovec{const_cast<char*>(piece.bytes.data()), piece.bytes.size()};
  }
  msghdr header{};
  header.msg_iov = io;
  header.msg_iovlen = count;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFdsPerCall)] = {};
  const std::vector<Fd>& fds = queue.front().fds;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    for (std::size_t i = 0; i < fds.size(); ++i) {
      const int number = fds[i].get();
      std::memcpy(CMSG_DATA(c) + i * sizeof(int), &number, sizeof(int));
    }
  }
  return ::sendmsg(fd.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void LinkSocket::State::write_some() {
  while (!queue.empty()) {
    const ssize_t sent = send_front();
    if (sent < 0) {
      if (errno == EAGAIN || errno == EINTR) break;
      // The child is gone; what it said before it went is read first.
      queue.clear();
      queued = 0;
      break;
    }
    queue.front().fds.clear();
    auto left = static_cast<std::size_t>(sent);
    queued -= left;
    while (left > 0 || (!queue.empty() && queue.front().bytes.empty())) {
      Slice& bytes = queue.front().bytes;
      if (bytes.size() > left) {
        bytes = bytes.sub(left, bytes.size() - left);
        break;
      }
      left -= bytes.size();
      queue.pop_front();
    }
  }
  watch();
}

void LinkSocket::State::fail(Error reason) {
  if (closed) return;
  close();
  owner->on_closed(std::move(reason));
}

void LinkSocket::State::close() {
  if (closed) return;
  closed = true;
  queue.clear();
  received.clear();
  closing_handles = 2;
  const auto gone = [](uv_handle_t* handle) {
    auto* state = static_cast<State*>(handle->data);
    if (--state->closing_handles == 0) state->self.reset();
  };
  uv_close(reinterpret_cast<uv_handle_t*>(&poll), gone);
  uv_close(reinterpret_cast<uv_handle_t*>(&backlog), gone);
}

LinkSocket::LinkSocket(uv_loop_t* loop, Fd fd, Owner& owner) : state_(std::make_shared<State>()) {
  state_->fd = std::move(fd);
  state_->owner = &owner;
  state_->start(loop);
}

LinkSocket::~LinkSocket() { state_->close(); }

void LinkSocket::send(protocol::OutMessage message, std::vector<Fd> fds) {
  if (state_->closed) return;
  bool first = true;
  for (Slice& piece : message.pieces) {
    if (piece.empty()) continue;
    state_->queued += piece.size();
    state_->queue.push_back({std::move(piece), first ? std::move(fds) : std::vector<Fd>{}});
    first = false;
  }
  state_->write_some();
}

Fd LinkSocket::take_fd() {
  if (state_->received.empty()) return Fd();
  Fd fd = std::move(state_->received.front());
  state_->received.pop_front();
  return fd;
}

std::size_t LinkSocket::unsent_bytes() const { return state_->queued; }

void LinkSocket::close() { state_->close(); }

}  // namespace scheduler
