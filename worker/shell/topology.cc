#include "worker/shell/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "protocol/wire/writer.h"

namespace worker {

using protocol::Done;
using protocol::Error;
using protocol::Fault;

struct Topology::Handle {
  hwloc_topology_t value = nullptr;
  ~Handle() {
    if (value) hwloc_topology_destroy(value);
  }
};

namespace {

std::uint32_t count(hwloc_topology_t topology, hwloc_obj_type_t type) {
  return static_cast<std::uint32_t>(std::max(1, hwloc_get_nbobjs_by_type(topology, type)));
}

}  // namespace

Topology::Topology() : handle_(std::make_unique<Handle>()) {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return;
  handle_->value = topology;
  if (hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    handle_->value = nullptr;
    return;
  }
  cores_ = count(topology, HWLOC_OBJ_CORE);
  threads_ = count(topology, HWLOC_OBJ_PU);
  numa_nodes_ = count(topology, HWLOC_OBJ_NUMANODE);
}

Topology::~Topology() = default;

protocol::Status Topology::pin(const std::string& mode, std::uint32_t index) const {
  if (mode.empty() || mode == "none" || !handle_->value) return Done{};
  if (mode != "core" && mode != "numa") return Error{Fault::bad_type, "unknown pin mode " + mode};
  const bool by_core = mode == "core";
  const hwloc_obj_t place =
      hwloc_get_obj_by_type(handle_->value, by_core ? HWLOC_OBJ_CORE : HWLOC_OBJ_NUMANODE,
                            index % (by_core ? cores_ : numa_nodes_));
  if (!place || hwloc_set_cpubind(handle_->value, place->cpuset, HWLOC_CPUBIND_THREAD) != 0) {
    return Error{Fault::io, "cannot bind thread " + std::to_string(index) + " to a " + mode + ": " +
                                std::strerror(errno)};
  }
  return Done{};
}

protocol::Slice Topology::describe(const std::string& mode) const {
  protocol::MessageWriter writer;
  writer.map(1);
  writer.field("topology");
  writer.map(4);
  writer.field("cores");
  writer.uinteger(cores_);
  writer.field("threads");
  writer.uinteger(threads_);
  writer.field("numa_nodes");
  writer.uinteger(numa_nodes_);
  writer.field("pin");
  writer.str(mode.empty() ? "none" : mode);
  return writer.take_payload()->header;
}

}  // namespace worker
