//! The plain life of tasks: submitted, run, reported, released, forgotten.
#include "tests/scheduler/world.h"

using namespace scheduler;

TEST_CASE("a task runs, its client is told, and it is forgotten when released", "[scheduler][run]") {
  World w;
  const WorkerId alice = w.worker();
  const TaskId x = w.submit("x");
  CHECK(w.sent() == Actions{SendCompute{alice, x, RunId(0)}});

  w.finish("x");
  CHECK(w.sent() == Actions{ReportInMemory{w.me(), x, Slice()}});
  CHECK(w.state("x") == TaskState::memory);

  w.release({"x"});
  CHECK(w.sent() == Actions{SendFree{alice, x}});
  CHECK(!w.knows("x"));
  CHECK(w.inner().tasks.size() == 0);
  CHECK(w.nothing_else_sent());
}
