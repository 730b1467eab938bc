//! The worker's Runtime with executors that are plain threads: no Python, real sockets.
//!
//! Values are numbers on the heap, shared as Python objects would be. Also run under TSan, where it
//! shows that the loop's thread and those who borrow its turn never touch a thing at once.
#include <catch2/catch.hpp>

#include <poll.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/wire/message.h"
#include "tests/worker/fake_scheduler.h"
#include "worker/shell/runtime.h"

using namespace worker;

namespace {

//! A worker whose tasks give their own key as their value.
class FakeWorker {
 public:
  explicit FakeWorker(FakeScheduler& scheduler, std::uint32_t nthreads) : runtime(with(scheduler.address())) {
    REQUIRE(runtime.listen(0));
    runtime.start();
    REQUIRE(registered());
    runtime.run();
    for (std::uint32_t i = 0; i < nthreads; ++i) threads_.emplace_back([this] { execute(); });
    threads_.emplace_back([this] { pack(); });
  }
  ~FakeWorker() { stop(); }

  void stop() {
    runtime.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  LiveRef value() {
    ++alive;
    return LiveRef(new int(1), [this](void* held) {
      delete static_cast<int*>(held);
      --alive;
    });
  }

  std::atomic<int> alive = 0;  //!< values that somebody still shares
  Runtime runtime;

  static Options with(const std::string& scheduler) {
    Options options;
    options.id = "Worker-test";
    options.scheduler_address = scheduler;
    options.listen_host = "127.0.0.1";
    options.nthreads = 2;
    options.local_directory = "/tmp";
    return options;
  }

 private:
  bool registered() {
    pollfd ready{runtime.service_fd(), POLLIN, 0};
    while (::poll(&ready, 1, 60'000) > 0) {
      for (const ServiceEvent& event : runtime.take_service_events()) {
        if (event.kind == ServiceEvent::Kind::registered) return true;
      }
    }
    return false;
  }

  void execute() {
    const auto type = std::make_shared<const TypeInfo>(TypeInfo{"int", Slice()});
    while (std::optional<Job> job = runtime.next_job()) {
      // Every second value is packed already, the others are packed when somebody asks.
      const bool packed = job->key.bytes.back() % 2 == 0;
      Value result{value(), packed ? protocol::str_payload(key_text(job->key)) : nullptr, 8};
      runtime.finished(*job, Finished{std::move(result), type, {}});
    }
  }

  void pack() {
    while (auto requests = runtime.next_packs([] { return false; })) {
      std::vector<PackAnswer> answers;
      for (const PackRequest& request : *requests) {
        if (request.kind != PackRequest::Kind::pack) continue;
        answers.push_back({request.id, protocol::str_payload(key_text(request.key)), ""});
      }
      runtime.packed(std::move(answers));
    }
  }

  std::vector<std::thread> threads_;
};

std::string name(int i) { return "task-" + std::to_string(i); }

}  // namespace

TEST_CASE("a worker runs tasks, serves their values and lets go of what is freed") {
  constexpr int kTasks = 300;
  FakeScheduler scheduler;
  FakeWorker worker(scheduler, 2);
  const std::string address = worker.runtime.address();
  std::vector<std::string> keys;
  for (int i = 0; i < kTasks; ++i) {
    keys.push_back(name(i));
    scheduler.compute(name(i), {}, address);
  }
  REQUIRE(scheduler.wait_finished(kTasks));
  for (int i = 0; i < kTasks; ++i) scheduler.compute("next-" + name(i), {name(i)}, address);
  REQUIRE(scheduler.wait_finished(2 * kTasks));
  CHECK(worker.runtime.keys().size() == 2 * kTasks);
  CHECK(worker.alive == 2 * kTasks);

  const auto found = scheduler.get_data(address, {name(0), name(1), "nothing"});
  CHECK(found.size() == 2);
  CHECK(found.at(name(1)).find("task-1") != std::string::npos);

  scheduler.free_keys(keys);
  while (worker.runtime.holds(protocol::string_key(name(kTasks - 1)))) std::this_thread::yield();
  CHECK(worker.alive == kTasks);
  worker.stop();
}

TEST_CASE("whoever asks a worker while it works does not disturb it") {
  constexpr int kTasks = 500;
  FakeScheduler scheduler;
  FakeWorker worker(scheduler, 2);
  std::atomic<bool> over = false;
  std::thread curious([&] {
    int i = 0;
    while (!over) {
      worker.runtime.counts();
      worker.runtime.metrics();
      worker.runtime.story();
      worker.runtime.task(protocol::string_key(name(i)));
      if (auto input = worker.runtime.value(protocol::string_key(name(i)))) {
        worker.runtime.set_live(input->id, worker.value(), true);
      }
      worker.runtime.put(protocol::string_key("put-" + std::to_string(i % 7)),
                         Value{worker.value(), nullptr, 8}, nullptr);
      worker.runtime.take_service_events();
      i = (i + 1) % kTasks;
    }
  });
  for (int i = 0; i < kTasks; ++i) scheduler.compute(name(i), {}, worker.runtime.address());
  CHECK(scheduler.wait_finished(kTasks));
  CHECK(scheduler.wait_heartbeats(2));
  CHECK(scheduler.get_data(worker.runtime.address(), {name(2), name(3)}).size() == 2);
  over = true;
  curious.join();
  worker.stop();
}

TEST_CASE("a worker ends while its executors wait and its scheduler is gone") {
  std::optional<FakeScheduler> scheduler(std::in_place);
  FakeWorker worker(*scheduler, 2);
  scheduler->compute("one", {}, worker.runtime.address());
  CHECK(scheduler->wait_finished(1));
  scheduler.reset();
  worker.stop();
}

TEST_CASE("a worker ends while it still looks for its scheduler") {
  for (const char* nobody : {"tcp://localhost:1", "tcp://127.0.0.1:1", "tcp://10.255.255.1:1"}) {
    Runtime runtime(FakeWorker::with(nobody));
    REQUIRE(runtime.listen(0));
    runtime.start();
    runtime.stop();
  }
}
