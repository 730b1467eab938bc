//! `rask_memory`: what workers hold and reserve, what waits for memory. An operation of ours.
//!
//! With `budget` it first sets the fraction of the workers' memory that admission may fill.
#include "scheduler/core/admission.h"
#include "scheduler/shell/rpc.h"
#include "scheduler/shell/server.h"

namespace scheduler {

using protocol::MessageWriter;

namespace {

constexpr std::uint32_t kUseFields = 3, kDelayedFields = 2;

void write_use(MessageWriter& out, const MemoryUse& use) {
  out.field("managed");
  out.uinteger(use.managed);
  out.field("reserved");
  out.uinteger(use.reserved);
  out.field("in_flight");
  out.uinteger(use.in_flight);
}

void write_delayed(MessageWriter& out, std::uint64_t tasks, std::uint64_t bytes) {
  out.field("delayed_tasks");
  out.uinteger(tasks);
  out.field("delayed_bytes");
  out.uinteger(bytes);
}

void write_worker(MessageWriter& out, const MemoryReport::Line& line) {
  out.map(kUseFields + kDelayedFields + 2);
  out.field("memory_limit");
  out.uinteger(line.limit);
  out.field("budget");
  if (line.budget == kNoBudget) {
    out.nil();
  } else {
    out.uinteger(line.budget);
  }
  write_use(out, line.use);
  write_delayed(out, line.delayed_tasks, line.delayed_bytes);
}

void write_counts(MessageWriter& out, const MemoryCounts& counts) {
  out.field("ever_delayed");
  out.uinteger(counts.delayed);
  out.field("started_over_budget");
  out.uinteger(counts.started_over_budget);
  out.field("too_large");
  out.uinteger(counts.too_large);
}

}  // namespace

Reply rpc_rask_memory(Server& server, const Request& request) {
  if (const Value budget = request.get("budget"); budget.exists() && !budget.is_nil()) {
    const auto fraction = budget.as_double();
    if (!fraction || !(*fraction > 0)) {
      return Reply::raise(protocol::Error{protocol::Fault::bad_type, "budget"});
    }
    server.step(MemoryBudgetSet{*fraction}, Server::stimulus("memory-budget"));
  }
  const State& state = server.core.state();
  const MemoryReport report = memory_report(state);
  return Reply::written([&](MessageWriter& out) {
    out.map(kUseFields + kDelayedFields + 5);
    out.field("fraction");
    out.real(state.config.memory_budget);
    write_use(out, report.total);
    write_delayed(out, report.delayed_tasks, report.delayed_bytes);
    write_counts(out, state.memory_counts);
    out.field("workers");
    out.map(static_cast<std::uint32_t>(report.workers.size()));
    for (const MemoryReport::Line& line : report.workers) {
      out.str(server.core.worker(line.worker).address);
      write_worker(out, line);
    }
  });
}

}  // namespace scheduler
