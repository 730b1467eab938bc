//! Making exceptions by hand; see own_errors.h.
#include "scheduler/shell/own_errors.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "protocol/wire/message.h"
#include "protocol/wire/pickles.h"

namespace scheduler {
namespace {

//! Answers to: dask.utils.format_bytes.
std::string format_bytes(std::uint64_t bytes) {
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"PiB", 0x1p50}, {"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20}, {"kiB", 0x1p10}};
  for (const auto& [unit, size] : kUnits) {
    if (static_cast<double>(bytes) >= size * 0.9) {
      return fmt::format("{:.2f} {}", static_cast<double>(bytes) / size, unit);
    }
  }
  return fmt::format("{} B", bytes);
}

std::string memory_error(KeyView failed, const OwnError& own) {
  std::string text = fmt::format(
      "Task {} has {} worth of input dependencies, but worker {} has memory_limit set to {}.",
      protocol::key_repr(failed), format_bytes(own.input_bytes), own.worker,
      format_bytes(own.memory_limit));
  if (own.is_final) {
    text += " It seems like you called client.compute() on a huge collection. "
            "Consider writing to distributed storage or slicing/reducing first.";
  }
  return protocol::pickle_exception({"MemoryError", text});
}

std::string request_error(KeyView failed, const OwnError& own) {
  return protocol::pickle_exception(
      {"MemoryError",
       fmt::format("Task {} is annotated to need {} of memory, but the largest worker, {}, has "
                   "memory_limit set to {}.",
                   protocol::key_repr(failed), format_bytes(own.input_bytes), own.worker,
                   format_bytes(own.memory_limit))});
}

//! `task` is the one that failed if it is still there; its restrictions are shown.
std::string no_valid_worker(const Task& task, KeyView failed, const OwnError& own) {
  std::vector<std::string> hosts;
  std::vector<std::string> workers;
  Resources resources;
  if (const Restrictions* restrictions = task.restrictions()) {
    for (const Key& host : restrictions->hosts) hosts.push_back(protocol::key_text(host));
    workers = restrictions->workers;
    resources = restrictions->resources;
  }
  return protocol::pickle_no_valid_worker(failed, hosts, workers, resources, own.timeout);
}

std::string pickle_of(const Task& task, KeyView failed, const OwnError& own) {
  switch (own.kind) {
    case OwnError::Kind::killed_worker:
      return protocol::pickle_killed_worker(failed, own.worker, own.allowed_failures);
    case OwnError::Kind::lost_actor:
      return protocol::pickle_exception({"RuntimeError", "Worker holding Actor was lost"});
    case OwnError::Kind::memory_limit: return memory_error(failed, own);
    case OwnError::Kind::no_valid_worker: return no_valid_worker(task, failed, own);
    case OwnError::Kind::no_worker: return protocol::pickle_no_worker(failed, own.timeout);
    case OwnError::Kind::memory_request: return request_error(failed, own);
    case OwnError::Kind::none: break;
  }
  return protocol::pickle_exception({"RuntimeError", "the task failed for an unknown reason"});
}

}  // namespace

ErrorPayloads error_payloads(const Task& erred) {
  const TaskError* error = erred.error();
  if (error == nullptr) return {protocol::bin_payload(pickle_of(erred, erred.key(), {})), nullptr};
  if (error->exception) return {error->exception, error->traceback};
  return {protocol::bin_payload(pickle_of(erred, error->failed.view(), error->own)), nullptr};
}

}  // namespace scheduler
