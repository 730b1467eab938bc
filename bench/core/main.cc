//! The scheduler's core alone: nanoseconds and bytes per task with no socket and no Python.
//!
//! Feeds Core::step as the shell does (slices of 4096 records, Turn when the core wants one), answers
//! every SendCompute at once with TaskFinished, then releases everything. Three shapes: `map`
//! (independent tasks), `tree` (each task needs two), `stencil` (each needs three of the step
//! before). What it prints is what the core takes of a task's budget.
//!
//! usage: bench_core SHAPE TASKS WORKERS [NTHREADS]
#include <malloc.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "scheduler/core/core.h"

namespace {

using namespace scheduler;  // NOLINT: a program about the core

constexpr std::size_t kSlice = 4096;
constexpr std::size_t kWidth = 500;  // cells of the stencil

//! CPU time of this process: the machine may be busy with others.
double cpu_now() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

std::size_t heap_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

//! Dependencies of task `i` as task numbers.
struct Shape {
  std::string_view name;
  std::size_t tasks;

  std::vector<std::uint32_t> dependencies(std::size_t i) const {
    std::vector<std::uint32_t> found;
    if (name == "tree") {
      const std::size_t leaves = (tasks + 1) / 2;
      if (i >= leaves) {
        const std::size_t left = 2 * (i - leaves);
        found = {static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(left + 1)};
      }
    } else if (name == "stencil") {
      const std::size_t cell = i % kWidth;
      for (int step = -1; i >= kWidth && step <= 1; ++step) {
        if ((step < 0 && cell == 0) || (step > 0 && cell == kWidth - 1)) continue;
        found.push_back(static_cast<std::uint32_t>(static_cast<long>(i - kWidth) + step));
      }
    }
    return found;
  }
};

class Drive {
 public:
  Drive(Shape shape, std::uint32_t workers, std::uint32_t nthreads)
      : shape_(shape), core_(Config{}) {
    step(ClientAdded{client_, "Client-bench"});
    for (std::uint32_t i = 0; i < workers; ++i) {
      const std::string address = "tcp://127.0.0.1:" + std::to_string(10'000 + i);
      WorkerAdded added;
      added.worker = WorkerId(i);
      added.address = address;
      added.host = "127.0.0.1";
      added.name = protocol::string_key(address);
      added.nthreads = nthreads;
      added.memory_limit = 8ull << 30;
      step(added);
      step(WorkerStatusChanged{WorkerId(i), WorkerStatus::running});
    }
    for (std::size_t i = 0; i < shape_.tasks; ++i) {
      keys_.push_back(protocol::string_key("inc-5c2a9e0f4be14b6f8d3f0a1b2c3d4e5f-" +
                                           std::to_string(i)));
    }
    for (const auto& key : keys_) views_.push_back(key.view());
  }

  void submit() {
    const SubmissionId id(0);
    GraphOpened opened;
    opened.submission = id;
    opened.client = client_;
    opened.append = shape_.name == "map";
    step(opened);
    const auto tail = Slice::copy_of(std::string(80, 't'));
    std::vector<std::vector<std::uint32_t>> dependencies;
    for (std::size_t first = 0; first < shape_.tasks; first += kSlice) {
      const std::size_t count = std::min(kSlice, shape_.tasks - first);
      const std::span<const KeyView> slice(views_.data() + first, count);
      step(GraphKeys{id, slice, false, {}});
      if (shape_.name == "map") step(GraphWants{id, slice});
      GraphRecords records{id, {}};
      dependencies.assign(count, {});
      auto* block = new SpecBlock;  // as the link delivers them
      block->own = Slice::own(std::string(count * 42, 'x'));
      for (std::size_t i = 1; i <= count; ++i) block->ends.push_back(static_cast<std::uint32_t>(i * 42));
      block->blobs = {tail};
      block->tail = 0;
      for (std::size_t i = 0; i < count; ++i) {
        dependencies[i] = shape_.dependencies(first + i);
        GraphTask task;
        task.key = static_cast<std::uint32_t>(first + i);
        task.dependencies = dependencies[i];
        task.spec = i == 0 ? SpecRef(block) : records.tasks[0].spec.at(static_cast<std::uint32_t>(i));
        task.priority = static_cast<std::int64_t>(first + i);
        records.tasks.push_back(std::move(task));
      }
      step(records);
    }
    if (shape_.name != "map") {
      const std::size_t last = shape_.name == "tree" ? 1 : std::min(shape_.tasks, kWidth);
      step(GraphWants{id, std::span(views_).last(last)});
    }
    step(GraphCommitted{id});
  }

  //! Answers computes until none is left; returns how many ran.
  std::size_t run() {
    std::size_t ran = 0;
    while (!computes_.empty()) {
      const SendCompute compute = computes_.front();
      computes_.pop_front();
      const StartStop done{StartStop::Kind::compute, clock_, clock_ + 1e-6};
      TaskFinished finished{};
      finished.worker = compute.worker;
      const std::string key(core_.task(compute.task).key().bytes);
      finished.key = KeyView{key};
      finished.run = compute.run;
      finished.nbytes = 28;
      finished.type = type_;
      finished.type_name = "int";
      finished.startstops = {&done, 1};
      step(finished);
      ++ran;
    }
    return ran;
  }

  void release() {
    for (std::size_t first = 0; first < shape_.tasks; first += kSlice) {
      step(KeysReleased{client_, {views_.data() + first, std::min(kSlice, shape_.tasks - first)}});
    }
    step(Tick{});  // what a step forgets is freed when the next one begins
  }

  //! Tasks the core still knows.
  std::size_t known() const {
    std::size_t count = 0;
    for (const KeyView key : views_) count += core_.find(key).has_value();
    return count;
  }

 private:
  void step(const Event& event) {
    advance(event);
    while (turn_wanted_) {
      turn_wanted_ = false;
      advance(Turn{});
    }
  }

  void advance(const Event& event) {
    clock_ += 1e-6;
    actions_.clear();
    core_.step(event, "bench", Now{protocol::Duration::seconds(clock_), clock_}, actions_);
    for (const auto& action : actions_) {
      if (const auto* compute = std::get_if<SendCompute>(&action)) computes_.push_back(*compute);
      if (std::holds_alternative<WantsTurn>(action)) turn_wanted_ = true;
    }
  }

  Shape shape_;
  Core core_;
  ClientId client_{0};
  std::vector<Key> keys_;
  std::vector<KeyView> views_;
  Slice type_ = Slice::copy_of(std::string(31, 'i'));
  Actions actions_;
  std::deque<SendCompute> computes_;
  bool turn_wanted_ = false;
  double clock_ = 1e6;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s map|tree|stencil TASKS WORKERS [NTHREADS]\n", argv[0]);
    return 2;
  }
  const Shape shape{argv[1], std::strtoull(argv[2], nullptr, 10)};
  const auto workers = static_cast<std::uint32_t>(std::atoi(argv[3]));
  const auto nthreads = static_cast<std::uint32_t>(argc > 4 ? std::atoi(argv[4]) : 1);
  Drive drive(shape, workers, nthreads);
  const std::size_t heap = heap_bytes();
  double t0 = cpu_now();
  const auto lap = [&] {
    const double t1 = cpu_now();
    const double ns = 1e9 * (t1 - t0) / static_cast<double>(shape.tasks);
    t0 = t1;
    return ns;
  };
  drive.submit();
  const double submit_ns = lap();
  const double peak = static_cast<double>(heap_bytes() - heap) / static_cast<double>(shape.tasks);
  const std::size_t ran = drive.run();
  const double run_ns = lap();
  const double done = static_cast<double>(heap_bytes() - heap) / static_cast<double>(shape.tasks);
  drive.release();
  const double release_ns = lap();
  const double kept = (static_cast<double>(heap_bytes()) - static_cast<double>(heap)) /
                      static_cast<double>(shape.tasks);
  std::printf("{\"shape\": \"%s\", \"tasks\": %zu, \"workers\": %u, \"ran\": %zu, "
              "\"submit_ns\": %.0f, \"run_ns\": %.0f, \"release_ns\": %.0f, "
              "\"submitted_bytes\": %.0f, \"done_bytes\": %.0f, \"kept_bytes\": %.0f, \"known\": %zu}\n",
              argv[1], shape.tasks, workers, ran, submit_ns, run_ns, release_ns, peak, done, kept,
              drive.known());
  return 0;
}
