//! Many zero workers in one process: a load generator for any scheduler, stock or rask.
//!
//! usage: bench_zero_worker tcp://127.0.0.1:PORT [--workers N] [--nthreads T] [--versions FILE]
//! Prints a line when all have registered, and on SIGTERM what they did. SIGUSR1 kills every tenth
//! worker at once, for rows that lose workers in the middle.
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "bench/zero_worker/zero_worker.h"

namespace {

volatile std::sig_atomic_t stop_asked = 0;
volatile std::sig_atomic_t kill_asked = 0;

struct Arguments {
  bench::ZeroOptions options;
  int workers = 24;
};

[[noreturn]] void usage(const char* program) {
  std::fprintf(stderr, "usage: %s ADDRESS [--workers N] [--nthreads T] [--versions FILE]\n",
               program);
  std::exit(2);
}

Arguments parse(int argc, char** argv) {
  if (argc < 2) usage(argv[0]);
  Arguments arguments;
  arguments.options.scheduler_port = bench::loopback_port(argv[1]);
  arguments.options.versions = "\x80";  // an empty map
  for (int i = 2; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (i + 1 == argc) usage(argv[0]);
    if (name == "--workers") {
      arguments.workers = std::atoi(argv[i + 1]);
    } else if (name == "--nthreads") {
      arguments.options.nthreads = std::atoi(argv[i + 1]);
    } else if (name == "--versions") {
      std::ifstream file(argv[i + 1], std::ios::binary);
      arguments.options.versions.assign(std::istreambuf_iterator<char>(file), {});
    } else {
      usage(argv[0]);
    }
  }
  return arguments;
}

//! Each worker needs a listener, a stream, an RPC connection and room for visitors.
void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

//! As stock schedulers ask: by the number of workers.
double heartbeat_seconds(int workers) {
  if (workers <= 10) return 0.5;
  if (workers < 50) return 1;
  if (workers < 200) return 2;
  return workers / 200.0 + 1;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  raise_descriptor_limit();
  std::signal(SIGTERM, [](int) { stop_asked = 1; });
  std::signal(SIGINT, [](int) { stop_asked = 1; });
  std::signal(SIGUSR1, [](int) { kill_asked = 1; });
  std::signal(SIGPIPE, SIG_IGN);

  bench::Peers peers;
  bench::ZeroCounts counts;
  std::vector<std::unique_ptr<bench::ZeroWorker>> workers;
  const double started = bench::wall_now();
  for (int i = 0; i < arguments.workers; ++i) {
    workers.push_back(
        std::make_unique<bench::ZeroWorker>(peers, arguments.options, counts, i));
  }
  bool announced = false;
  peers.every(0.01, [&] {
    if (!announced && counts.registered == workers.size()) {
      announced = true;
      std::printf("%zu zero workers registered in %.4f s\n", workers.size(),
                  bench::wall_now() - started);
      std::fflush(stdout);
    }
    if (kill_asked != 0) {
      kill_asked = 0;
      for (std::size_t i = 0; i < workers.size(); i += 10) workers[i]->die();
    }
    if (stop_asked != 0 || counts.lost == workers.size()) peers.stop();
  });
  // One heartbeat at a time, spread over the interval as those of real workers are.
  std::size_t turn = 0;
  peers.every(heartbeat_seconds(arguments.workers) / arguments.workers, [&] {
    workers[turn]->heartbeat();
    turn = (turn + 1) % workers.size();
  });
  peers.run();
  std::printf("{\"tasks\": %llu, \"batches\": %llu, \"batch_max\": %llu, \"kernel_calls\": %llu}\n",
              static_cast<unsigned long long>(counts.tasks),
              static_cast<unsigned long long>(counts.batches),
              static_cast<unsigned long long>(counts.batch_max),
              static_cast<unsigned long long>(peers.kernel_calls));
  return 0;
}
