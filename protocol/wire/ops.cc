#include "protocol/wire/ops.h"

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <iterator>

namespace protocol {
namespace {

//! In the order of the enumerators.
constexpr std::string_view kNames[] = {
    "",
    // every server
    "identity", "echo", "dump_state", "connection_stream", "close",
    // registration and heartbeats
    "register-client", "register-worker", "register_nanny", "unregister", "heartbeat_worker",
    // worker stream, scheduler to worker
    "compute-task", "free-keys", "remove-replicas", "acquire-replicas", "steal-request",
    "refresh-who-has", "worker-status-change", "remove-worker", "cancel-compute", "shuffle-fail",
    "rask-compute", "rask-forget",
    // worker stream, worker to scheduler
    "task-finished", "task-erred", "release-worker-data", "add-keys", "request-refresh-who-has",
    "steal-response", "long-running", "reschedule", "log-event", "keep-alive",
    "rask-finished",
    // client stream, client to scheduler
    "update-graph", "client-desires-keys", "client-releases-keys", "cancel-keys", "report-key",
    "update-data", "heartbeat-client", "subscribe-topic", "unsubscribe-topic", "close-client",
    "close-stream", "queue-future-release", "queue_release", "variable-future-received-confirm",
    "variable_delete", "publish_flush_batched_send",
    // client stream, scheduler to client
    "stream-start", "key-in-memory", "lost-data", "task-retried", "cancelled-keys", "restart",
    "event", "adjust-heartbeat-interval", "error", "stream-closed",
    // scheduler RPC
    "gather", "scatter", "update_data", "retry", "restart_workers", "terminate", "broadcast",
    "proxy", "ncores", "ncores_running", "has_what", "who_has", "processing", "nbytes",
    "call_stack", "profile", "performance_report", "get_logs", "logs", "worker_logs",
    "log_event", "events", "versions", "add_keys", "rebalance", "replicate", "run_function",
    "feed", "set_resources", "retire_workers", "workers_to_close", "adaptive_target",
    "get_metadata", "set_metadata", "set_restrictions", "get_task_status", "get_task_stream",
    "get_task_stream_index", "get_task_prefix_states", "start_task_metadata",
    "stop_task_metadata", "register_scheduler_plugin", "unregister_scheduler_plugin",
    "register_worker_plugin", "unregister_worker_plugin", "register_nanny_plugin",
    "unregister_nanny_plugin", "subscribe_worker_status", "get_cluster_state",
    "dump_cluster_state_to_url", "benchmark_hardware", "get_story", "check_idle",
    "rask_memory", "rask_holders",
    // extensions of the scheduler
    "multi_lock_acquire", "multi_lock_release", "queue_create", "queue_put", "queue_get",
    "queue_qsize", "variable_set", "variable_get", "event_wait", "event_set", "event_clear",
    "event_is_set", "semaphore_register", "semaphore_acquire", "semaphore_release",
    "semaphore_close", "semaphore_refresh_leases", "semaphore_value", "publish_list",
    "publish_put", "publish_get", "publish_delete", "publish_wait_flush", "get_runspec",
    "get_error_cause", "amm_handler", "memory_sampler_start", "memory_sampler_stop",
    "shuffle_barrier", "shuffle_get", "shuffle_get_or_create", "shuffle_restrict_task",
    // worker and nanny RPC
    "get_data", "free_keys", "run", "run_coroutine", "actor_execute", "actor_attribute",
    "plugin-add", "plugin-remove", "upload_file", "profile_metadata", "keys", "get_monitor_info",
    "benchmark_disk", "benchmark_memory", "benchmark_network", "ping", "shuffle_receive",
    "shuffle_inputs_done", "kill", "instantiate", "close_gracefully", "plugin_add",
    "plugin_remove",
};
static_assert(std::size(kNames) == static_cast<std::size_t>(Op::nanny_plugin_remove) + 1);

absl::flat_hash_map<std::string_view, Op> make_table() {
  absl::flat_hash_map<std::string_view, Op> table;
  for (std::size_t k = 1; k < std::size(kNames); ++k) table[kNames[k]] = static_cast<Op>(k);
  return table;
}

}  // namespace

Op op_of(std::string_view name) {
  static const absl::flat_hash_map<std::string_view, Op> table = make_table();
  const auto found = table.find(name);
  return found == table.end() ? Op::unknown : found->second;
}

std::string_view op_name(Op op) { return kNames[static_cast<std::size_t>(op)]; }

}  // namespace protocol
