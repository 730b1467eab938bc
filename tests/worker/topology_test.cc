//! The machine and binding threads to it.
#include <catch2/catch.hpp>
#include <sched.h>

#include <thread>

#include "protocol/wire/document.h"
#include "worker/shell/topology.h"

using namespace worker;

TEST_CASE("the machine has at least one core, thread and node", "[worker][topology]") {
  const Topology topology;
  CHECK(topology.cores() >= 1);
  CHECK(topology.threads() >= topology.cores());
  CHECK(topology.numa_nodes() >= 1);
}

TEST_CASE("a thread bound to a core may run on no other", "[worker][topology]") {
  const Topology topology;
  int allowed = 0;
  std::thread([&] {
    if (!topology.pin("core", 1)) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    allowed = CPU_COUNT(&set);
  }).join();
  CHECK(allowed >= 1);
  CHECK(static_cast<unsigned>(allowed) <= topology.threads() / topology.cores());
}

TEST_CASE("no binding leaves threads alone, an unknown mode is refused", "[worker][topology]") {
  const Topology topology;
  CHECK(topology.pin("none", 0).ok());
  CHECK_FALSE(topology.pin("sideways", 0).ok());
}

TEST_CASE("the description is a map the worker's info can carry", "[worker][topology]") {
  const Topology topology;
  const protocol::Slice map = topology.describe("core");
  protocol::Document document;
  REQUIRE(document.parse(map.view()).ok());
  const protocol::Value inner = document.root().find("topology");
  CHECK(inner.find("cores").as_uint() == topology.cores());
  CHECK(inner.find("pin").equals("core"));
}
