//! Admission without annotations: what rask workers are given once sizes have been learned, and
//! before.
#include "tests/scheduler/admission_bed.h"

using namespace scheduler;

namespace {

WorkerOptions rask_worker(std::uint32_t threads) {
  return {.threads = threads, .memory_limit = 1000 * MB, .rask = true};
}

}  // namespace

TEST_CASE("root-ish tasks of unknown size fill the threads, no more", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("load", 40);
  CHECK(w.processing_count(bob) == 4);  // stock: 5
  w.finish("load-0", 8);
  CHECK(w.processing_count(bob) == 5);
}

TEST_CASE("where threads have little room, half of them try loads of unknown size",
          "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(8));  // 75 MB for each thread
  w.map("load", 40);
  CHECK(w.processing_count(bob) == 4);
  CHECK(waits(w, "load-4"));
  w.finish("load-0", 10 * MB);
  CHECK(w.processing_count(bob) == 9);
}

TEST_CASE("loads that are never measured fill the threads in time", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(8));
  w.map("load", 40);
  w.tick(1);
  CHECK(w.processing_count(bob) == 4);
  w.tick(5);
  CHECK(w.processing_count(bob) == 5);
  for (int i = 0; i < 10; ++i) w.tick(6);
  CHECK(w.processing_count(bob) == 8);  // and no more
}

TEST_CASE("root-ish tasks wait once what is expected passes the target", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("load", 40);
  w.finish("load-0", 100 * MB);
  CHECK(w.processing_count(bob) == 5);  // 100 held + 5 * 100 expected = 600
  w.finish("load-1", 100 * MB);
  CHECK(w.processing_count(bob) == 4);
  CHECK(waits(w, "load-6"));
  w.release({"load-0"});
  CHECK(w.processing_count(bob) == 5);
  w.release({"load-1"});
  CHECK(w.processing_count(bob) == 5);  // no slot
}

TEST_CASE("stock workers are given what stock gives them", "[scheduler][admission]") {
  World w;
  const WorkerId alice = w.worker(roomy());
  w.map("load", 40);
  CHECK(w.processing_count(alice) == 5);
  w.finish("load-0", 900 * MB);
  CHECK(w.processing_count(alice) == 5);
}

TEST_CASE("small results never wait", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("tiny", 40);
  w.scatter("data", {bob}, 900 * MB);
  w.finish("tiny-0", 1000);
  CHECK(w.processing_count(bob) == 5);
}

TEST_CASE("a load leaves room for what is made of it", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(2));
  std::vector<Node> nodes;
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    nodes.push_back({"load-" + n});
    nodes.push_back({"map-" + n, {"load-" + n}});
  }
  w.graph(nodes);
  w.finish("load-0", 100 * MB);
  CHECK(runs(w, "map-0"));
  w.finish("map-0", 200 * MB);
  // 200 held, load-1 and load-2 under way: 2 * (100 + 200); nothing more.
  CHECK(use_of(w, bob).total() == 800 * MB);
  CHECK(waits(w, "load-3"));
}

TEST_CASE("what is made of a load is expected to be as large, until one is there",
          "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  std::vector<Node> nodes;
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    nodes.push_back({"load-" + n});
    nodes.push_back({"map-" + n, {"load-" + n}});
  }
  w.graph(nodes);
  CHECK(w.processing_count(bob) == 4);
  w.finish("load-0", 100 * MB);
  // 100 held, 100 for map-0 and 3 * (100 + 100): more than 600.
  CHECK(use_of(w, bob).total() == 800 * MB);
  CHECK(runs(w, "map-0"));
  CHECK(waits(w, "load-4"));
  w.finish("map-0", 8);
  CHECK(use_of(w, bob).total() == 8 + 5 * (100 * MB + 8));  // a slot each, 3 and 2 more
  CHECK(runs(w, "load-5"));
}

TEST_CASE("free threads keep room for what they will make of results held here",
          "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(8));
  for (const char* key : {"x0", "x1", "x2", "x3", "x4"}) w.scatter(key, {bob}, 50 * MB);
  w.submit("made", {"x0"});
  w.finish("made", 100 * MB);
  w.release({"made"});
  w.graph({load("a", 100), load("b", 100), load("c", 100), load("d", 100)});
  CHECK(runs(w, "a"));  // nothing else runs, so one may
  CHECK(waits(w, "b"));  // 250 held + 2 * 100 + five times what was last made of one
  w.release({"x1", "x2", "x3", "x4"});
  CHECK(runs(w, "d"));  // 50 held + 4 * 100 + once that

  // Results that were large long ago are no reason to wait.
  w.release({"x0"});
  for (const char* key : {"a", "b", "c", "d"}) w.finish(key, 100 * MB);
  w.submit("busy");
  w.graph({load("e", 100)});
  CHECK(waits(w, "e"));
  for (int i = 0; i < 40; ++i) {
    const std::string key = "small-" + std::to_string(i);
    w.submit(key, {"a"});
    w.finish(key, 8);
  }
  CHECK(runs(w, "e"));
}

TEST_CASE("waiting that frees nothing gives more and more leeway", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("load", 40);
  int done = 0;
  const auto finish_all = [&] {
    for (int left = w.processing_count(bob); left > 0; --left) {
      w.finish("load-" + std::to_string(done++), 200 * MB);
    }
  };
  // Results that stay, as of persist: the first ones run on all threads, then alone, ...
  finish_all();
  CHECK(w.processing_count(bob) == 1);
  w.finish("load-4", 200 * MB);
  done = 5;
  CHECK(w.processing_count(bob) == 2);
  w.finish("load-5", 200 * MB);
  CHECK(w.processing_count(bob) == 2);  // another one takes its place
  done = 6;
  // ... until it frees memory: alone again.
  w.release({"load-0", "load-1"});
  finish_all();
  CHECK(w.processing_count(bob) == 1);
}

TEST_CASE("a long task does not hold up root-ish ones for ever", "[scheduler][admission]") {
  World w;
  const WorkerId bob = w.worker(rask_worker(4));
  w.scatter("data", {bob}, 590 * MB);
  w.submit("long", {"data"});
  w.map("load", 40);
  w.finish("load-0", 100 * MB);
  w.finish("load-1", 100 * MB);
  w.finish("load-2", 100 * MB);
  w.finish("load-3", 100 * MB);
  CHECK(w.processing_count(bob) == 1);
  w.tick(1);
  CHECK(w.processing_count(bob) == 1);
  w.tick(61);
  CHECK(w.processing_count(bob) == 2);
}

TEST_CASE("learning can be turned off", "[scheduler][admission]") {
  Config config;
  config.memory_learned = false;
  World w(config);
  const WorkerId bob = w.worker(rask_worker(4));
  w.map("load", 40);
  CHECK(w.processing_count(bob) == 5);
  w.finish("load-0", 900 * MB);
  CHECK(w.processing_count(bob) == 5);
}
