"""What a client can ask the scheduler about, and the calls that change the set of workers."""

from __future__ import annotations

import tempfile

import pytest
from programs import Gate, inc, until, workers_of


def shape(value):
    """Nested types and keys, for answers whose numbers differ from run to run."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in sorted(value.items())}
    return type(value).__name__


@pytest.mark.api("Client.scheduler_info")
@pytest.mark.op("identity")
def test_scheduler_info_has_stocks_fields(same):
    def prog(client):
        # What the client asks by itself now and then, a short form without workers, may come between.
        info = until(lambda: (found := client.scheduler_info(n_workers=-1))["workers"] and found, "workers")
        skipped = ("metrics", "services", "topology")  # rask workers tell of their machine
        workers = [{k: shape(v) for k, v in sorted(w.items()) if k not in skipped}
                   for w in info.pop("workers").values()]
        names = sorted(w["name"] for w in workers_of(client).values())
        kept = {key: info[key] for key in ("type", "n_workers", "total_threads", "total_memory")}
        return kept, sorted(info), workers, len(names)

    assert same(prog)[0]["n_workers"] == 2


@pytest.mark.api("Client.nthreads")
@pytest.mark.op("ncores", "ncores_running")
def test_nthreads(same):
    assert same(lambda client: sorted(client.nthreads().values())) == [1, 1]


@pytest.mark.smoke
@pytest.mark.api("Client.who_has", "Client.has_what")
@pytest.mark.op("who_has", "has_what")
def test_who_has_and_has_what_agree(same):
    def prog(client):
        futures = client.map(inc, range(6), key=[f"held-{i}" for i in range(6)])
        client.gather(futures)
        who = client.who_has(futures)
        what = client.has_what()
        agree = all(key in what[worker] for key, workers in who.items() for worker in workers)
        return agree, sorted(who), [len(workers) for workers in who.values()], \
            sum(key in who for keys in what.values() for key in keys), type(who).__name__

    assert same(prog)[0] is True


@pytest.mark.api("Client.nbytes")
@pytest.mark.op("nbytes")
def test_nbytes_by_key_and_by_prefix(same):
    def prog(client):
        futures = [client.submit(bytes, 1000, key=f"blob-{i}") for i in range(3)]
        client.gather(futures)
        every, keys = client.nbytes(summary=False), [future.key for future in futures]
        return client.nbytes(keys, summary=False), client.nbytes(), every == client.nbytes(
            keys, summary=False)

    assert list(same(prog)[0]) == ["blob-0", "blob-1", "blob-2"]


@pytest.mark.op("nbytes", "who_has")
def test_all_keys_are_named_in_the_order_of_their_making(same):
    def prog(client):
        first = client.map(inc, range(12), key=[f"made-{i}" for i in range(12)])
        client.gather(first)
        for i in range(0, 12, 2):  # leaves gaps among the records
            first[i].release()
        until(lambda: len(client.who_has()) == 6, "half of the keys to leave")
        second = client.map(inc, range(12), key=[f"made-later-{i}" for i in range(12)])
        client.gather(second)
        return list(client.nbytes(summary=False)), list(client.who_has())

    found = same(prog)
    assert len(found[0]) == 18 and set(found[0]) == set(found[1])


@pytest.mark.api("Client.processing")
@pytest.mark.op("processing")
def test_processing_names_the_running_task(same):
    def prog(client):
        with tempfile.TemporaryDirectory() as directory:
            gate = Gate(directory)
            future = client.submit(gate, 1, key="running")
            gate.wait_started()
            found = sorted(key for keys in client.processing().values() for key in keys)
            gate.open()
            future.result()
            return found

    assert same(prog) == ["running"]


@pytest.mark.api("Client.get_versions")
@pytest.mark.op("versions")
def test_versions_match_and_nobody_warns(same):
    def prog(client):
        import warnings

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            versions = client.get_versions(check=True)
        packages = versions["scheduler"]["packages"]
        return sorted(versions), sorted(versions["scheduler"]), packages["distributed"], \
            packages["dask"], [str(w.message) for w in caught if "Mismatch" in str(w.message)]

    assert same(prog)[-1] == []


def test_connecting_warns_of_no_mismatch(rask_cluster, recwarn):
    with rask_cluster.client():
        pass
    assert not [w for w in recwarn if "ersion" in str(w.message)]


@pytest.mark.api("Client.get_metadata", "Client.set_metadata")
@pytest.mark.op("get_metadata", "set_metadata")
def test_metadata_is_kept(same):
    def prog(client):
        client.set_metadata("a", 1)
        client.set_metadata(["b", "c"], {"deep": [1, "two", None]})
        with pytest.raises(KeyError):
            client.get_metadata("no such key")
        return client.get_metadata("a"), client.get_metadata(["b", "c"]), \
            client.get_metadata(["b"]), client.get_metadata("absent", default=7)

    deep = {"deep": (1, "two", None)}  # msgpack gives lists back as tuples
    assert same(prog) == (1, deep, {"c": deep}, 7)


@pytest.mark.smoke
@pytest.mark.api("Client.run")
@pytest.mark.op("broadcast")
def test_run_reaches_every_worker(same):
    def prog(client):
        everywhere = client.run(lambda: 41 + 1)
        one = sorted(everywhere)[:1]
        return sorted(everywhere.values()), list(client.run(inc, 1, workers=one).values())

    assert same(prog) == ([42, 42], [2])


@pytest.mark.api("Client.run")
@pytest.mark.op("broadcast")
def test_an_error_in_run_is_raised(same):
    with pytest.raises(ZeroDivisionError):
        same(lambda client: client.run(lambda: 1 / 0))


@pytest.mark.smoke
@pytest.mark.op("add-keys")
@pytest.mark.api("Client.retire_workers")
@pytest.mark.op("retire_workers")
def test_a_retired_workers_data_moves_first(same):
    def prog(client, cluster):
        data = client.map(inc, range(20))
        scattered = client.scatter(list(range(100, 110)))
        client.gather(data)
        (leaving, *_) = sorted(workers_of(client))
        process = cluster.worker_process(leaving)
        retired = client.retire_workers([leaving])
        until(lambda: not process.alive(), "the worker to end")
        return list(retired) == [leaving], sum(client.gather(data)), \
            sum(client.gather(scattered)), len(workers_of(client))

    assert same(prog) == (True, sum(range(1, 21)), sum(range(100, 110)), 1)


@pytest.mark.api("Client.wait_for_workers")
def test_wait_for_workers(same):
    def prog(client):
        client.wait_for_workers(2, timeout=120)
        client.wait_for_workers(3, timeout="100ms")

    with pytest.raises(TimeoutError):
        same(prog)


@pytest.mark.api("Client.shutdown")
@pytest.mark.op("terminate")
def test_shutdown_ends_scheduler_and_workers(fresh):
    def exit_codes(cluster):
        with cluster.client() as client:
            client.submit(inc, 1).result()
            client.shutdown()
        processes = [cluster.scheduler, *cluster.workers.values()]
        return [process.popen.wait(timeout=60) for process in processes]

    assert exit_codes(fresh()) == exit_codes(fresh("stock", "stock")) == [0, 0, 0]
