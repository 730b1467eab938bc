//! Steps per second of the worker's core, for the paths a busy worker takes all day.
//!
//! Each row lives through many tasks in rounds, so that slots, keys and queues are used again as in
//! a long-lived worker, and prints nanoseconds of CPU time per event. Target: at most 1000 for plain
//! compute -> finish. Run: worker_core_bench [rounds]
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "worker/core/core.h"

namespace {

using worker::Core;
using worker::Key;
using worker::KeyView;
using worker::RunId;
using worker::TaskId;
using worker::ValueId;

constexpr int kTasks = 1000;  //!< per round
constexpr std::string_view kPeers[] = {"tcp://10.0.0.2:1", "tcp://10.0.0.3:1", "tcp://10.0.0.4:1"};

std::vector<Key> make_keys(const char* prefix) {
  std::vector<Key> keys;
  for (int i = 0; i < kTasks; ++i) {
    keys.push_back(protocol::string_key(std::string(prefix) + "-0123456789abcdef0123456789abcdef-" +
                                        std::to_string(i)));
  }
  return keys;
}

const std::vector<Key> kKeys = make_keys("inc");
const std::vector<Key> kInputs = make_keys("load");

//! A core and what it asked for; counts the events it was given.
class Bench {
 public:
  explicit Bench(std::uint32_t nthreads)
      : core_({.address = "tcp://10.0.0.1:1", .nthreads = nthreads}) {}

  void step(const worker::Event& event) {
    ++events_;
    core_.step(event, "bench", protocol::Now{}, actions_);
  }

  void compute(const Key& key, std::span<const worker::Replica> needs) {
    step(worker::ComputeTask{.key = key,
                             .run = RunId(++run_),
                             .priority = {0, 1, static_cast<double>(run_ % kTasks)},
                             .dependencies = needs,
                             .resources = {},
                             .actor = false,
                             .work = work_});
  }

  //! Answers everything the core asked for, until it asks for nothing more.
  void serve() {
    while (!actions_.empty()) {
      taken_.swap(actions_);
      actions_.clear();
      for (const worker::Action& action : taken_) {
        if (const auto* execute = std::get_if<worker::Execute>(&action)) {
          step(worker::ExecuteSuccess{execute->task, execute->run, ValueId(++value_), 28});
        } else if (const auto* gather = std::get_if<worker::GatherDep>(&action)) {
          data_.clear();
          for (TaskId id : gather->to_gather) {
            data_.push_back({core_.task(id).key, ValueId(++value_), 28});
          }
          step(worker::GatherDepSuccess{gather->peer, data_});
        }
      }
    }
  }

  void free(const std::vector<Key>& keys) {
    for (const Key& key : keys) {
      const KeyView view = key;
      step(worker::FreeKeys{std::span(&view, 1)});
    }
    actions_.clear();
  }

  std::uint64_t events() const { return events_; }

 private:
  Core core_;
  worker::Actions actions_;
  worker::Actions taken_;
  std::vector<worker::Gathered> data_;
  worker::WorkRef work_ = std::make_shared<int>(0);
  std::uint64_t run_ = 0;
  std::uint64_t value_ = 0;
  std::uint64_t events_ = 0;
};

//! compute, finish, compute, finish…; freed at the end of the round.
void plain(Bench& bench) {
  for (const Key& key : kKeys) {
    bench.compute(key, {});
    bench.serve();
  }
  bench.free(kKeys);
}

//! A thousand tasks wait for threads, then run.
void queued(Bench& bench) {
  for (const Key& key : kKeys) bench.compute(key, {});
  bench.serve();
  bench.free(kKeys);
}

//! Each task fetches an input of its own from one of three peers.
void fetched(Bench& bench) {
  for (int i = 0; i < kTasks; ++i) {
    const worker::Replica input{kInputs[i], 28, std::span(&kPeers[i % 3], 1)};
    bench.compute(kKeys[i], std::span(&input, 1));
    bench.serve();
  }
  bench.free(kKeys);
  bench.free(kInputs);
}

//! A thousand tasks share one input that lies here.
void shared(Bench& bench) {
  const worker::Replica input{kInputs[0], 28, std::span(&kPeers[0], 1)};
  for (const Key& key : kKeys) bench.compute(key, std::span(&input, 1));
  bench.serve();
  bench.free(kKeys);
  bench.free(kInputs);
}

void run(const char* name, void (*round)(Bench&), std::uint32_t nthreads, int rounds) {
  Bench bench(nthreads);
  round(bench);  // Warm: slots and buffers exist.
  const std::uint64_t before = bench.events();
  const std::clock_t start = std::clock();
  for (int i = 0; i < rounds; ++i) round(bench);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const double events = static_cast<double>(bench.events() - before);
  std::printf("%-8s %9.0f events  %7.1f ns/event  %10.0f events/s\n", name, events,
              seconds * 1e9 / events, events / seconds);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 300;
  run("plain", plain, 1, rounds);
  run("queued", queued, 2, rounds);
  run("fetched", fetched, 2, rounds);
  run("shared", shared, 2, rounds);
  return 0;
}
