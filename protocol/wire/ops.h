//! Every operation of Dask's protocol by number.
//!
//! A message names its op by a string; it is looked up once, here. Which side may send which op is
//! not known here: each session answers only for the ops of its peer's role. Where Dask spells an op
//! both with dashes (stream) and underscores (RPC), the second carries a suffix.
#pragma once

#include <cstdint>
#include <string_view>

namespace protocol {

enum class Op : std::uint8_t {
  unknown,
  // every server
  identity, echo, dump_state, connection_stream, close,
  // registration and heartbeats
  register_client, register_worker, register_nanny, unregister, heartbeat_worker,
  // worker stream, scheduler to worker
  compute_task, free_keys, remove_replicas, acquire_replicas, steal_request, refresh_who_has,
  worker_status_change, remove_worker, cancel_compute, shuffle_fail, rask_compute, rask_forget,
  // worker stream, worker to scheduler
  task_finished, task_erred, release_worker_data, add_keys, request_refresh_who_has,
  steal_response, long_running, reschedule, log_event, keep_alive, rask_finished,
  // client stream, client to scheduler
  update_graph, client_desires_keys, client_releases_keys, cancel_keys, report_key, update_data,
  heartbeat_client, subscribe_topic, unsubscribe_topic, close_client, close_stream,
  queue_future_release, queue_release, variable_future_received_confirm, variable_delete,
  publish_flush_batched_send,
  // client stream, scheduler to client
  stream_start, key_in_memory, lost_data, task_retried, cancelled_keys, restart, event,
  adjust_heartbeat_interval, error, stream_closed,
  // scheduler RPC
  gather, scatter, update_data_rpc, retry, restart_workers, terminate, broadcast, proxy, ncores,
  ncores_running, has_what, who_has, processing, nbytes, call_stack, profile, performance_report,
  get_logs, logs, worker_logs, log_event_rpc, events, versions, add_keys_rpc, rebalance,
  replicate, run_function, feed, set_resources, retire_workers, workers_to_close,
  adaptive_target, get_metadata, set_metadata, set_restrictions, get_task_status,
  get_task_stream, get_task_stream_index, get_task_prefix_states, start_task_metadata,
  stop_task_metadata, register_scheduler_plugin, unregister_scheduler_plugin,
  register_worker_plugin, unregister_worker_plugin, register_nanny_plugin,
  unregister_nanny_plugin, subscribe_worker_status, get_cluster_state, dump_cluster_state_to_url,
  benchmark_hardware, get_story, check_idle, rask_memory, rask_holders,
  // extensions of the scheduler
  multi_lock_acquire, multi_lock_release, queue_create, queue_put, queue_get, queue_qsize,
  variable_set, variable_get, event_wait, event_set, event_clear, event_is_set,
  semaphore_register, semaphore_acquire, semaphore_release, semaphore_close,
  semaphore_refresh_leases, semaphore_value, publish_list, publish_put, publish_get,
  publish_delete, publish_wait_flush, get_runspec, get_error_cause, amm_handler,
  memory_sampler_start, memory_sampler_stop, shuffle_barrier, shuffle_get, shuffle_get_or_create,
  shuffle_restrict_task,
  // worker and nanny RPC
  get_data, free_keys_rpc, run, run_coroutine, actor_execute, actor_attribute, plugin_add,
  plugin_remove, upload_file, profile_metadata, keys, get_monitor_info, benchmark_disk,
  benchmark_memory, benchmark_network, ping, shuffle_receive, shuffle_inputs_done, kill,
  instantiate, close_gracefully, nanny_plugin_add, nanny_plugin_remove,
};

//! Op::unknown for a name that is none. O(1).
Op op_of(std::string_view name);
//! The name on the wire; empty for Op::unknown.
std::string_view op_name(Op op);

}  // namespace protocol
