//! The machine a worker runs on, and binding threads to parts of it.
//!
//! Read once by hwloc at start; shown in the worker's info (`extra.topology`). Binding is off unless
//! asked for: `core` gives each executor a core of its own, `numa` spreads executors over NUMA nodes,
//! both in turn, within what the process is allowed to use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "protocol/base/bytes.h"
#include "protocol/base/result.h"

namespace worker {

class Topology {
 public:
  //! Reads the machine. On failure everything is one core on one node and pin() does nothing.
  Topology();
  ~Topology();
  Topology(const Topology&) = delete;
  Topology& operator=(const Topology&) = delete;

  std::uint32_t cores() const { return cores_; }
  std::uint32_t threads() const { return threads_; }  //!< hardware threads
  std::uint32_t numa_nodes() const { return numa_nodes_; }

  //! Binds the calling thread, the `index`-th of its kind; mode is none, core or numa.
  protocol::Status pin(const std::string& mode, std::uint32_t index) const;

  //! {"topology": {"cores": …, "threads": …, "numa_nodes": …, "pin": mode}} as msgpack.
  protocol::Slice describe(const std::string& mode) const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
  std::uint32_t cores_ = 1;
  std::uint32_t threads_ = 1;
  std::uint32_t numa_nodes_ = 1;
};

}  // namespace worker
