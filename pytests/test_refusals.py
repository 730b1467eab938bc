"""What rask does not do yet says so: an error that names the operation and the page that lists it.

surface.py holds the lists; a row leaves them when its operation works. Nothing here may hang, end
the connection, or be dropped without a word.
"""

from __future__ import annotations

import os

import distributed
import pytest
from conftest import SCHEDULER
from programs import inc
from surface import REFUSED_CALLS, REFUSED_RPC, REFUSED_STREAM

pytestmark = pytest.mark.skipif(SCHEDULER != "rask", reason="a stock scheduler does these")


@pytest.mark.refused(*REFUSED_RPC)
@pytest.mark.parametrize("op", REFUSED_RPC)
def test_an_operation_that_is_missing_is_refused_by_name(rask_client, op):
    with pytest.raises(NotImplementedError) as caught:
        rask_client.sync(getattr(rask_client.scheduler, op))
    assert f"'{op}'" in str(caught.value) and "docs/COMPATIBILITY.md" in str(caught.value)
    assert rask_client.sync(rask_client.scheduler.echo, data=7) == 7


@pytest.mark.refused(*REFUSED_STREAM)
@pytest.mark.parametrize("op", REFUSED_STREAM)
def test_a_stream_operation_that_is_missing_is_logged_by_name(rask_cluster, rask_client, op):
    rask_client._send_to_scheduler({"op": op})
    said = rf"'{op}' is not supported yet.*docs/COMPATIBILITY.md"
    rask_cluster.scheduler.wait_for(said)
    assert rask_client.submit(inc, 1, pure=False).result() == 2


class OnScheduler(distributed.SchedulerPlugin):
    name = "on-scheduler"


CALLS = {
    "Client.amm": lambda client: client.amm.start(),
    "Client.benchmark_hardware": lambda client: client.benchmark_hardware(),
    "Client.dump_cluster_state": lambda client: client.dump_cluster_state(os.devnull),
    "Client.get_dataset": lambda client: client.get_dataset("absent"),
    "Client.get_task_stream": lambda client: client.get_task_stream(),
    "Client.list_datasets": lambda client: client.list_datasets(),
    "Client.profile": lambda client: client.profile(),
    "Client.publish_dataset": lambda client: client.publish_dataset(x=client.submit(inc, 1)),
    "Client.rebalance": lambda client: client.rebalance(client.map(inc, range(4))),
    "Client.replicate": lambda client: client.replicate(client.map(inc, range(4))),
    "Client.run_on_scheduler": lambda client: client.run_on_scheduler(lambda: 1),
    "Client.unpublish_dataset": lambda client: client.unpublish_dataset("absent"),
    "Event": lambda client: distributed.Event("e", client=client).wait(timeout=30),
    "MultiLock": lambda client: distributed.MultiLock(["m"], client=client).acquire(timeout=30),
    "Queue": lambda client: distributed.Queue("q", client=client).put(1),
    "Variable": lambda client: distributed.Variable("v", client=client).set(1),
    "get_task_metadata": lambda client: distributed.get_task_metadata().__enter__(),
    "get_task_stream": lambda client: distributed.get_task_stream(client).__enter__(),
    "performance_report": lambda client: distributed.performance_report().__enter__(),
}


@pytest.mark.refused(*REFUSED_CALLS)
@pytest.mark.parametrize("call", REFUSED_CALLS)
def test_a_call_that_is_missing_is_refused_by_name(rask_client, call):
    with pytest.raises(NotImplementedError, match="docs/COMPATIBILITY.md"):
        CALLS[call](rask_client)
    assert rask_client.submit(inc, 1, pure=False).result() == 2


def test_a_plugin_of_the_scheduler_is_refused_by_name(rask_client):
    with pytest.raises(NotImplementedError, match="scheduler plugins are not supported.*COMPATIBILITY"):
        rask_client.register_plugin(OnScheduler())
    with pytest.raises(ValueError, match="Could not find plugin 'on-scheduler'"):
        rask_client.unregister_scheduler_plugin("on-scheduler")


@pytest.mark.refused("progress")
def test_a_progress_bar_fails_at_once_and_the_log_says_why(rask_cluster, rask_client):
    """The stock bar takes the refusal for news of its tasks and raises what it finds missing in it."""
    futures = rask_client.map(inc, range(3), pure=False)
    with pytest.raises(TypeError):
        distributed.progress(futures, notebook=False)
    rask_cluster.scheduler.wait_for(r"'feed' is not supported yet; see docs/COMPATIBILITY.md")
    assert rask_client.gather(futures) == [1, 2, 3]
