//! Actors: spread over workers, never queued, never made again.
#include "tests/scheduler/world.h"

using namespace scheduler;

namespace {
Node actor(const std::string& key) { return Node{.key = key, .actor = true}; }
}  // namespace

TEST_CASE("actors are spread by their number, whatever the load", "[scheduler][actor]") {
  World w;
  const WorkerId alice = w.worker({.threads = 4, .resources = {{"A", 1}}});
  const WorkerId bob = w.worker({.threads = 4, .resources = {{"A", 1}}});
  Node one = actor("one"), two = actor("two");
  one.annotations.resources = two.annotations.resources = {{"A", 1}};
  w.graph({one});
  w.finish("one");
  w.graph({two});
  CHECK(w.processing_on("two") == (w.task("one").on(alice) ? bob : alice));
}

TEST_CASE("the loss of an actor's worker is an error, not a recomputation", "[scheduler][actor]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({actor("act")});
  w.finish("act");
  w.worker();
  w.forget_sent();
  w.lose(alice);
  CHECK(w.state("act") == TaskState::erred);
  CHECK(w.task("act").error()->own.kind == OwnError::Kind::lost_actor);
  CHECK(w.sent() == Actions{ReportErred{w.me(), w.id("act")}, AnnounceWorkerGone{alice}});
}

TEST_CASE("an actor that is still being made moves when its worker is lost", "[scheduler][actor]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({actor("act")});
  const WorkerId bob = w.worker();
  w.lose(alice);
  CHECK(w.processing_on("act") == bob);
  CHECK(w.core.worker(bob).actors.size() == 1);
}

TEST_CASE("an actor lives as long as it is wanted", "[scheduler][actor]") {
  World w;
  const WorkerId alice = w.worker();
  w.graph({actor("act")});
  w.finish("act");
  w.release({"act"});
  CHECK(w.core.worker(alice).actors.empty());
  CHECK(w.inner().tasks.size() == 0);
}
