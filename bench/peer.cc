//! See peer.h.
#include "bench/peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace bench {

namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

int check(int result, const char* what) {
  if (result < 0) die(what);
  return result;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

OutMessage hello() {
  MessageWriter w;
  w.map(3);
  w.field("compression");
  w.nil();
  w.field("python");
  w.array(3);
  for (const int part : {3, 11, 0}) w.integer(part);
  w.field("pickle-protocol");
  w.integer(5);
  return w.finish();
}

constexpr std::size_t kKeepFrom = 64 * 1024;  // pieces of this size are not copied
constexpr std::size_t kPiecesPerWrite = 64;

}  // namespace

double wall_now() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

std::uint16_t loopback_port(std::string_view address) {
  const auto colon = address.rfind(':');
  const int port = colon == std::string_view::npos
                       ? 0
                       : std::atoi(std::string(address.substr(colon + 1)).c_str());
  if (port <= 0 || port > 65535 || address.find("127.0.0.1") == std::string_view::npos) {
    std::fprintf(stderr, "not an address on loopback: %.*s\n", static_cast<int>(address.size()),
                 address.data());
    std::exit(2);
  }
  return static_cast<std::uint16_t>(port);
}

Peer::~Peer() { ::close(fd_); }

void Peer::enlist() {
  if (queued_) return;
  queued_ = true;
  peers_.unsent_.push_back(fd_);
}

void Peer::close() {
  closing_ = true;
  enlist();
}

void Peer::send(const OutMessage& message) {
  enlist();
  for (const auto& piece : message.pieces) {
    if (piece.size() < kKeepFrom) {
      tail_.append(piece.view());
      continue;
    }
    if (!tail_.empty()) queue_.push_back(protocol::Slice::own(std::exchange(tail_, {})));
    queue_.push_back(piece);
  }
}

void Peer::on_readable() {
  const auto space = reader_.prepare();
  const ssize_t count = ::read(fd_, space.data, space.size);
  ++peers_.kernel_calls;
  if (count <= 0) {
    if (count < 0 && errno == EAGAIN) return;
    closing_ = true;
    return;
  }
  reader_.commit(static_cast<std::size_t>(count));
  protocol::Frames frames;
  while (!closing_) {
    auto more = reader_.next(frames);
    if (!more) {
      std::fprintf(stderr, "bad message: %s\n", more.error().text().c_str());
      closing_ = true;
    } else if (!*more) {
      break;
    } else if (!greeted_) {
      greeted_ = true;
      reader_.set_profile(protocol::FrameReader::Profile::established);
    } else if (auto parsed = message_.reset(std::move(frames)); !parsed) {
      std::fprintf(stderr, "bad message: %s\n", parsed.error().text().c_str());
      closing_ = true;
    } else if (on_message) {
      on_message(*this, message_);
    }
  }
}

void Peer::flush() {
  if (!tail_.empty()) queue_.push_back(protocol::Slice::own(std::exchange(tail_, {})));
  while (!queue_.empty()) {
    iovec pieces[kPiecesPerWrite];
    std::size_t count = 0;
    for (const auto& piece : queue_) {
      const std::size_t skip = count == 0 ? sent_ : 0;
      pieces[count++] = {const_cast<char*>(piece.data()) + skip, piece.size() - skip};
      if (count == kPiecesPerWrite) break;
    }
    const ssize_t written = ::writev(fd_, pieces, static_cast<int>(count));
    ++peers_.kernel_calls;
    if (written < 0) {
      if (errno != EAGAIN) {
        closing_ = true;
      } else if (!writable_wanted_) {
        peers_.watch(*this, writable_wanted_ = true, false);
      }
      return;
    }
    sent_ += static_cast<std::size_t>(written);
    while (!queue_.empty() && sent_ >= queue_.front().size()) {
      sent_ -= queue_.front().size();
      queue_.pop_front();
    }
  }
  if (writable_wanted_) peers_.watch(*this, writable_wanted_ = false, false);
}

Peers::Peers() : epoll_(check(epoll_create1(0), "epoll_create1")) {}

Peers::~Peers() {
  for (auto& listener : listeners_) {
    if (listener) ::close(listener->fd);
  }
  ::close(epoll_);
}

Peer& Peers::adopt(int fd) {
  const int one = 1;
  check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), "TCP_NODELAY");
  const auto slot = static_cast<std::size_t>(fd);
  if (peers_.size() <= slot) peers_.resize(slot + 1);
  peers_[slot] = std::make_unique<Peer>(*this, fd);
  Peer& peer = *peers_[slot];
  watch(peer, false, true);
  peer.send(hello());
  return peer;
}

void Peers::watch(Peer& peer, bool writable, bool fresh) {
  epoll_event event{};
  event.events = EPOLLIN | (writable ? EPOLLOUT : 0u);
  event.data.fd = peer.fd_;
  check(epoll_ctl(epoll_, fresh ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, peer.fd_, &event), "epoll_ctl");
}

void Peers::drop(Peer& peer) {
  const auto slot = static_cast<std::size_t>(peer.fd_);
  const auto owned = std::move(peers_[slot]);
  if (owned->on_closed) owned->on_closed(*owned);
}

std::uint16_t Peers::listen(std::function<void(Peer&)> accepted) {
  const int fd = check(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
  sockaddr_in address = loopback(0);
  check(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  check(::listen(fd, 1024), "listen");
  socklen_t length = sizeof address;
  check(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  const auto slot = static_cast<std::size_t>(fd);
  if (listeners_.size() <= slot) listeners_.resize(slot + 1);
  listeners_[slot] = std::make_unique<Listener>(Listener{fd, std::move(accepted)});
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  check(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  return ntohs(address.sin_port);
}

Peer& Peers::connect(std::uint16_t port) {
  const int fd = check(socket(AF_INET, SOCK_STREAM, 0), "socket");
  const sockaddr_in address = loopback(port);
  check(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect");
  check(fcntl(fd, F_SETFL, O_NONBLOCK), "O_NONBLOCK");
  return adopt(fd);
}

void Peers::every(double seconds, std::function<void()> fire) {
  alarms_.push_back({seconds, wall_now() + seconds, std::move(fire)});
}

//! Fires what is due and returns the milliseconds until the next alarm.
int Peers::fire_alarms() {
  double next = 1e9;
  const double now = wall_now();
  for (auto& alarm : alarms_) {
    if (alarm.due <= now) {
      alarm.due = now + alarm.period;
      alarm.fire();
    }
    next = alarm.due - now < next ? alarm.due - now : next;
  }
  return alarms_.empty() ? -1 : static_cast<int>(next * 1e3) + 1;
}

//! Writes what was queued outside of the peer's own events; closes those that asked for it.
void Peers::flush_unsent() {
  for (const int fd : std::exchange(unsent_, {})) {
    const auto slot = static_cast<std::size_t>(fd);
    if (!peers_[slot]) continue;
    peers_[slot]->queued_ = false;
    if (peers_[slot]->unsent() && !peers_[slot]->writable_wanted_) peers_[slot]->flush();
    if (peers_[slot]->closing_) drop(*peers_[slot]);
  }
}

void Peers::run() {
  std::vector<epoll_event> events(512);
  while (!stopped_) {
    const int wait_ms = fire_alarms();
    flush_unsent();
    const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), wait_ms);
    ++kernel_calls;
    for (int i = 0; i < ready; ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      const auto slot = static_cast<std::size_t>(event.data.fd);
      if (slot < listeners_.size() && listeners_[slot]) {
        const int fd = accept4(event.data.fd, nullptr, nullptr, SOCK_NONBLOCK);
        if (fd >= 0) listeners_[slot]->accepted(adopt(fd));
        continue;
      }
      if (slot >= peers_.size() || !peers_[slot]) continue;
      Peer& peer = *peers_[slot];
      if (event.events & (EPOLLIN | EPOLLHUP | EPOLLERR)) peer.on_readable();
      if (peer.unsent()) peer.flush();
      if (peer.closing_) drop(peer);
    }
  }
}

}  // namespace bench
