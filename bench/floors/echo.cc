//! F8, the kernel's floor: a plain epoll echo between two processes on loopback.
//!
//! Plays the traffic of a scheduler and its workers with no user code at all: the "worker" side
//! holds `connections` sockets with `depth` requests in flight on each and answers every reply at
//! once; the "scheduler" side answers a task-finished-sized request with a compute-task-sized
//! reply. What it prints per round trip is what the kernel charges each side for carrying the
//! bytes, so no scheduler at that depth can be cheaper.
//!
//! usage: bench_echo CONNECTIONS DEPTH ROUND_TRIPS REQUEST_BYTES REPLY_BYTES
//! Messages are told apart by size alone; both sides read what there is and answer in one write.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

struct Plan {
  int connections;
  int depth;
  std::int64_t round_trips;
  int request_bytes;
  int reply_bytes;
};

struct Usage {
  double user_s = 0;
  double kernel_s = 0;
  std::int64_t kernel_calls = 0;
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

void check(int result, const char* what) {
  if (result < 0) die(what);
}

Usage usage_now(std::int64_t kernel_calls) {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(u.ru_utime), seconds(u.ru_stime), kernel_calls};
}

void no_delay(int fd) {
  const int one = 1;
  check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one), "TCP_NODELAY");
}

//! One side: answers every `in_bytes` received on a socket with `out_bytes`.
class Side {
 public:
  Side(std::vector<int> sockets, int in_bytes, int out_bytes)
      : sockets_(std::move(sockets)), in_bytes_(in_bytes), out_bytes_(out_bytes) {
    int top = 0;
    for (int fd : sockets_) top = fd > top ? fd : top;
    pending_.resize(static_cast<std::size_t>(top) + 1);
    out_.resize(static_cast<std::size_t>(out_bytes) * kAnswersPerWriteMax, 'x');
    epoll_ = epoll_create1(0);
    check(epoll_, "epoll_create1");
    for (int fd : sockets_) {
      epoll_event e{};
      e.events = EPOLLIN;
      e.data.fd = fd;
      check(epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &e), "epoll_ctl");
    }
  }

  void send(int fd, std::int64_t messages) {
    while (messages > 0) {
      const std::int64_t now = messages < kAnswersPerWriteMax ? messages : kAnswersPerWriteMax;
      std::int64_t left = now * out_bytes_;
      while (left > 0) {
        const ssize_t n = write(fd, out_.data(), static_cast<std::size_t>(left));
        ++kernel_calls_;
        if (n < 0) die("write");
        left -= n;
      }
      messages -= now;
    }
  }

  //! Serves until `messages` have been received (or every peer has closed, for messages < 0).
  //! Answers at most `answers` of them.
  void serve(std::int64_t messages, std::int64_t answers) {
    std::vector<epoll_event> events(512);
    std::vector<char> in(1 << 16);
    std::int64_t received = 0;
    std::size_t open = sockets_.size();
    while (open > 0 && (messages < 0 || received < messages)) {
      const int ready = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      ++kernel_calls_;
      for (int i = 0; i < ready; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        const ssize_t n = read(fd, in.data(), in.size());
        ++kernel_calls_;
        if (n <= 0) {
          check(epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr), "epoll_ctl");
          --open;
          continue;
        }
        auto& have = pending_[static_cast<std::size_t>(fd)];
        have += n;
        std::int64_t whole = have / in_bytes_;
        have -= whole * in_bytes_;
        received += whole;
        if (answers >= 0 && whole > answers) whole = answers;
        if (answers >= 0) answers -= whole;
        send(fd, whole);
      }
    }
  }

  std::int64_t kernel_calls() const { return kernel_calls_; }

 private:
  static constexpr std::int64_t kAnswersPerWriteMax = 64;
  std::vector<int> sockets_;
  int in_bytes_;
  int out_bytes_;
  int epoll_ = -1;
  std::vector<std::int64_t> pending_;  // bytes of an unfinished message, by descriptor
  std::vector<char> out_;
  std::int64_t kernel_calls_ = 0;
};

//! The load: `depth` requests per connection, then one more for each reply.
Usage run_load(const Plan& plan, const sockaddr_in& address) {
  std::vector<int> sockets;
  for (int i = 0; i < plan.connections; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    check(fd, "socket");
    check(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect");
    no_delay(fd);
    sockets.push_back(fd);
  }
  Side side(sockets, plan.reply_bytes, plan.request_bytes);
  const Usage start = usage_now(side.kernel_calls());
  for (int fd : sockets) side.send(fd, plan.depth);
  const std::int64_t first = static_cast<std::int64_t>(plan.connections) * plan.depth;
  side.serve(plan.round_trips, plan.round_trips - first);
  const Usage end = usage_now(side.kernel_calls());
  for (int fd : sockets) close(fd);
  return {end.user_s - start.user_s, end.kernel_s - start.kernel_s,
          end.kernel_calls - start.kernel_calls};
}

void print_side(const char* name, const Usage& usage, const Plan& plan) {
  const auto per = [&](double s) { return 1e6 * s / static_cast<double>(plan.round_trips); };
  std::printf("\"%s\": {\"user_us\": %.3f, \"kernel_us\": %.3f, \"cpu_us\": %.3f, "
              "\"kernel_calls\": %.3f}",
              name, per(usage.user_s), per(usage.kernel_s), per(usage.user_s + usage.kernel_s),
              static_cast<double>(usage.kernel_calls) / static_cast<double>(plan.round_trips));
}

int listen_on_loopback(sockaddr_in& address) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  check(fd, "socket");
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  check(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  check(listen(fd, 1024), "listen");
  socklen_t length = sizeof address;
  check(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: %s CONNECTIONS DEPTH ROUND_TRIPS REQUEST_BYTES REPLY_BYTES\n",
                 argv[0]);
    return 2;
  }
  const Plan plan{std::atoi(argv[1]), std::atoi(argv[2]), std::atoll(argv[3]), std::atoi(argv[4]),
                  std::atoi(argv[5])};
  const std::int64_t first = static_cast<std::int64_t>(plan.connections) * plan.depth;
  if (plan.connections < 1 || plan.depth < 1 || plan.round_trips < first ||
      plan.request_bytes < 1 || plan.reply_bytes < 1) {
    std::fprintf(stderr, "all numbers must be positive, ROUND_TRIPS >= CONNECTIONS * DEPTH\n");
    return 2;
  }
  sockaddr_in address{};
  const int listener = listen_on_loopback(address);
  int report[2];
  check(pipe(report), "pipe");
  const pid_t child = fork();
  check(child, "fork");
  if (child == 0) {
    const Usage load = run_load(plan, address);
    if (write(report[1], &load, sizeof load) != sizeof load) die("report");
    std::_Exit(0);
  }
  std::vector<int> sockets;
  for (int i = 0; i < plan.connections; ++i) {
    const int fd = accept(listener, nullptr, nullptr);
    check(fd, "accept");
    no_delay(fd);
    sockets.push_back(fd);
  }
  Side side(sockets, plan.request_bytes, plan.reply_bytes);
  const Usage start = usage_now(0);
  const auto began = std::chrono::steady_clock::now();
  side.serve(-1, -1);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
  const Usage end = usage_now(side.kernel_calls());
  Usage load{};
  if (read(report[0], &load, sizeof load) != sizeof load) die("report");
  waitpid(child, nullptr, 0);

  std::printf("{\"connections\": %d, \"depth\": %d, \"round_trips\": %lld, \"request_bytes\": %d, "
              "\"reply_bytes\": %d, \"wall_us\": %.3f, ",
              plan.connections, plan.depth, static_cast<long long>(plan.round_trips),
              plan.request_bytes, plan.reply_bytes,
              1e6 * wall.count() / static_cast<double>(plan.round_trips));
  print_side("scheduler",
             {end.user_s - start.user_s, end.kernel_s - start.kernel_s, end.kernel_calls}, plan);
  std::printf(", ");
  print_side("workers", load, plan);
  std::printf("}\n");
  return 0;
}
