"""The surface of Dask that a client or worker can touch: operations and public calls.

docs/COMPATIBILITY.md is made from this list and from the markers `op` and `api` on the tests: what
a test proves is supported, what none proves is not. PYTHON names what is done by a Python process
of the scheduler rather than by the native program. test_surface.py checks the lists against the
installed distributed, so that a new release cannot add an operation unnoticed.
"""

from __future__ import annotations

RPC_OPS = """
    adaptive_target add_keys amm_handler benchmark_hardware broadcast call_stack check_idle
    connection_stream dump_cluster_state_to_url dump_state echo event_clear event_is_set
    event_set event_wait events feed gather get_cluster_state get_error_cause get_logs
    get_metadata get_runspec get_story get_task_prefix_states get_task_status get_task_stream
    get_task_stream_index has_what heartbeat_worker identity log_event logs memory_sampler_start
    memory_sampler_stop multi_lock_acquire multi_lock_release nbytes ncores ncores_running
    performance_report processing profile proxy publish_delete publish_get publish_list
    publish_put queue_create queue_get queue_put queue_qsize rebalance register-client
    register-worker register_nanny register_nanny_plugin register_scheduler_plugin
    register_worker_plugin replicate restart restart_workers retire_workers retry run_function
    scatter semaphore_acquire semaphore_close semaphore_refresh_leases semaphore_register
    semaphore_release semaphore_value set_metadata set_resources set_restrictions
    shuffle_barrier shuffle_get shuffle_get_or_create shuffle_restrict_task start_task_metadata
    stop_task_metadata subscribe_worker_status terminate unregister unregister_nanny_plugin
    unregister_scheduler_plugin unregister_worker_plugin update_data variable_get variable_set
    versions who_has worker_logs workers_to_close
""".split()

STREAM_OPS = """
    add-keys cancel-keys client-desires-keys client-releases-keys close-client heartbeat-client
    keep-alive log-event long-running publish_flush_batched_send queue-future-release
    queue_release release-worker-data report-key request-refresh-who-has reschedule
    steal-response subscribe-topic task-erred task-finished unsubscribe-topic update-data
    update-graph variable-future-received-confirm variable_delete worker-status-change
""".split()

CALLS = """
    Client Client.amm Client.benchmark_hardware Client.call_stack Client.cancel Client.close Client.compute
    Client.dump_cluster_state Client.forward_logging Client.gather Client.get
    Client.get_dataset Client.get_events Client.get_executor Client.get_metadata
    Client.get_scheduler_logs Client.get_task_stream Client.get_versions Client.get_worker_logs
    Client.has_what Client.list_datasets Client.log_event Client.map Client.nbytes
    Client.nthreads Client.persist Client.processing Client.profile Client.publish_dataset
    Client.rebalance Client.recreate_error_locally Client.recreate_task_locally
    Client.register_plugin Client.register_worker_callbacks Client.replicate Client.restart
    Client.restart_workers Client.retire_workers Client.retry Client.run
    Client.run_on_scheduler Client.scatter Client.scheduler_info Client.set_metadata
    Client.shutdown Client.story Client.submit Client.subscribe_topic
    Client.unforward_logging Client.unpublish_dataset Client.unregister_scheduler_plugin
    Client.unregister_worker_plugin Client.unsubscribe_topic Client.upload_file
    Client.wait_for_workers Client.who_has Client.write_scheduler_file
    Future Future.add_done_callback Future.cancel Future.cancelled Future.done Future.exception
    Future.release Future.result Future.retry Future.status Future.traceback Future.type
    Actor Event Lock MultiLock Queue Semaphore Variable as_completed fire_and_forget
    get_client get_task_metadata get_task_stream get_worker performance_report print progress
    rejoin Reschedule secede span wait warn worker_client
    dask.annotate dask.array dask.bag dask.compute dask.dataframe dask.delayed dask.persist
""".split()

# Public names of Client that ask nothing of a cluster.
LOCAL = """
    as_current asynchronous current dashboard_link futures_of loop ncores normalize_collection
    start sync
""".split()

PYTHON = {"register_scheduler_plugin", "update-graph"}

# What the rask scheduler refuses: an error, or for a stream a line in its log, that names the
# operation and docs/COMPATIBILITY.md. Proved by test_refusals.py.
REFUSED_RPC = """
    amm_handler benchmark_hardware connection_stream dump_cluster_state_to_url dump_state
    event_clear event_is_set event_set event_wait feed get_cluster_state get_task_stream
    get_task_stream_index memory_sampler_start memory_sampler_stop multi_lock_acquire
    multi_lock_release performance_report profile publish_delete publish_get publish_list
    publish_put queue_create queue_get queue_put queue_qsize rebalance
    replicate run_function start_task_metadata stop_task_metadata variable_get variable_set
""".split()

REFUSED_STREAM = """
    publish_flush_batched_send queue-future-release queue_release
    variable-future-received-confirm variable_delete
""".split()

REFUSED_CALLS = """
    Client.amm Client.benchmark_hardware Client.dump_cluster_state Client.get_dataset
    Client.get_task_stream Client.list_datasets Client.profile Client.publish_dataset
    Client.rebalance Client.replicate Client.run_on_scheduler Client.unpublish_dataset
    Event MultiLock Queue Variable get_task_metadata get_task_stream performance_report
""".split()
