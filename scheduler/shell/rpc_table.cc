//! The table of RPC ops: which handler answers what, and what is still missing.
//!
//! An op that stock has and that is in neither list is a hole in this table; ops of workers and
//! nannies, and names nobody knows, are answered with nil as stock answers them.
#include "scheduler/shell/rpc.h"

namespace scheduler {

using protocol::Op;

namespace {

Handler semaphore_handler(Op op) {
  switch (op) {
    case Op::semaphore_register: return {rpc_semaphore_register, nullptr};
    case Op::semaphore_acquire: return {nullptr, rpc_semaphore_acquire};
    case Op::semaphore_release: return {rpc_semaphore_release, nullptr};
    case Op::semaphore_refresh_leases: return {rpc_semaphore_refresh_leases, nullptr};
    case Op::semaphore_close: return {rpc_semaphore_close, nullptr};
    case Op::semaphore_value: return {rpc_semaphore_value, nullptr};
    default: return {};
  }
}

//! Operations that stock has not.
Handler own_handler(Op op) {
  switch (op) {
    case Op::rask_memory: return {rpc_rask_memory, nullptr};
    case Op::rask_holders: return {rpc_rask_holders, nullptr};
    default: return semaphore_handler(op);
  }
}

}  // namespace

Handler handler_of(Op op) {
  switch (op) {
    case Op::identity: return {rpc_identity, nullptr};
    case Op::echo: return {rpc_echo, nullptr};
    case Op::ping: return {rpc_ping, nullptr};
    case Op::register_client: return {nullptr, rpc_register_client};
    case Op::register_worker: return {nullptr, rpc_register_worker};
    case Op::register_nanny: return {nullptr, rpc_register_nanny};
    case Op::subscribe_worker_status: return {nullptr, rpc_subscribe_worker_status};
    case Op::heartbeat_worker: return {rpc_heartbeat_worker, nullptr};
    case Op::unregister: return {rpc_unregister, nullptr};

    case Op::ncores: return {rpc_ncores, nullptr};
    case Op::ncores_running: return {rpc_ncores, nullptr};
    case Op::who_has: return {rpc_who_has, nullptr};
    case Op::has_what: return {rpc_has_what, nullptr};
    case Op::processing: return {rpc_processing, nullptr};
    case Op::nbytes: return {rpc_nbytes, nullptr};
    case Op::versions: return {nullptr, rpc_versions};
    case Op::get_logs: return {rpc_get_logs, nullptr};
    case Op::logs: return {rpc_get_logs, nullptr};
    case Op::check_idle: return {rpc_check_idle, nullptr};

    case Op::get_task_status: return {rpc_get_task_status, nullptr};
    case Op::get_task_prefix_states: return {rpc_get_task_prefix_states, nullptr};
    case Op::get_story: return {rpc_get_story, nullptr};
    case Op::get_runspec: return {rpc_get_runspec, nullptr};
    case Op::get_error_cause: return {rpc_get_error_cause, nullptr};
    case Op::retry: return {nullptr, rpc_retry};
    case Op::set_restrictions: return {rpc_set_restrictions, nullptr};

    case Op::gather: return {nullptr, rpc_gather};
    case Op::scatter: return {nullptr, rpc_scatter};
    case Op::update_data_rpc: return {rpc_update_data, nullptr};
    case Op::add_keys_rpc: return {rpc_add_keys, nullptr};

    case Op::broadcast: return {nullptr, rpc_broadcast};
    case Op::proxy: return {nullptr, rpc_proxy};
    case Op::call_stack: return {nullptr, rpc_call_stack};
    case Op::worker_logs: return {nullptr, rpc_worker_logs};

    case Op::shuffle_get: return {rpc_shuffle_get, nullptr};
    case Op::shuffle_get_or_create: return {rpc_shuffle_get_or_create, nullptr};
    case Op::shuffle_restrict_task: return {rpc_shuffle_restrict_task, nullptr};
    case Op::shuffle_barrier: return {nullptr, rpc_shuffle_barrier};

    case Op::log_event_rpc: return {rpc_log_event, nullptr};
    case Op::events: return {rpc_events, nullptr};
    case Op::get_metadata: return {rpc_get_metadata, nullptr};
    case Op::set_metadata: return {rpc_set_metadata, nullptr};

    case Op::register_worker_plugin: return {nullptr, rpc_register_worker_plugin};
    case Op::unregister_worker_plugin: return {nullptr, rpc_unregister_worker_plugin};
    case Op::register_nanny_plugin: return {nullptr, rpc_register_nanny_plugin};
    case Op::unregister_nanny_plugin: return {nullptr, rpc_unregister_nanny_plugin};

    case Op::register_scheduler_plugin: return {nullptr, rpc_register_scheduler_plugin};
    case Op::unregister_scheduler_plugin: return {rpc_unregister_scheduler_plugin, nullptr};

    case Op::set_resources: return {rpc_set_resources, nullptr};
    case Op::workers_to_close: return {rpc_workers_to_close, nullptr};
    case Op::adaptive_target: return {rpc_adaptive_target, nullptr};
    case Op::retire_workers: return {nullptr, rpc_retire_workers};
    case Op::restart: return {nullptr, rpc_restart};
    case Op::restart_workers: return {nullptr, rpc_restart_workers};
    case Op::terminate: return {rpc_terminate, nullptr};
    default: return own_handler(op);
  }
}

bool known_but_missing(Op op) {
  switch (op) {
    case Op::connection_stream:
    case Op::dump_state:
    case Op::profile:
    case Op::performance_report:
    case Op::rebalance:
    case Op::replicate:
    case Op::run_function:
    case Op::feed:
    case Op::get_task_stream:
    case Op::get_task_stream_index:
    case Op::start_task_metadata:
    case Op::stop_task_metadata:
    case Op::get_cluster_state:
    case Op::dump_cluster_state_to_url:
    case Op::benchmark_hardware:
    case Op::multi_lock_acquire:
    case Op::multi_lock_release:
    case Op::queue_create:
    case Op::queue_put:
    case Op::queue_get:
    case Op::queue_qsize:
    case Op::variable_set:
    case Op::variable_get:
    case Op::event_wait:
    case Op::event_set:
    case Op::event_clear:
    case Op::event_is_set:
    case Op::publish_list:
    case Op::publish_put:
    case Op::publish_get:
    case Op::publish_delete:
    case Op::publish_wait_flush:
    case Op::amm_handler:
    case Op::memory_sampler_start:
    case Op::memory_sampler_stop: return true;
    default: return false;
  }
}

}  // namespace scheduler
