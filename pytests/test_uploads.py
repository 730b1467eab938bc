"""Files that a client uploads: modules for tasks on the workers and for graphs on the scheduler."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
import zipfile
from pathlib import Path

import dask
import pytest
from conftest import SCHEDULER
from distributed.diagnostics.plugin import SchedulerUploadFile
from programs import inc, until

ours = pytest.mark.skipif(SCHEDULER != "rask", reason="of the rask scheduler")

POINT = """
class Point:
    made_by = {version!r}

    def __init__(self, x):
        self.x = x

    def __dask_tokenize__(self):
        return self.x, self.made_by

    def shown(self):
        return self.made_by, self.x
"""


def fresh_name() -> str:
    """A module name that no process has loaded yet."""
    return f"brought_{uuid.uuid4().hex[:8]}"


def call(name, attribute, *args):
    return getattr(__import__(name), attribute)(*args)


def imported_here(directory: Path, name: str, monkeypatch):
    monkeypatch.syspath_prepend(str(directory))
    sys.modules.pop(name, None)
    return __import__(name)


@pytest.mark.smoke
@pytest.mark.op("register_scheduler_plugin")
@pytest.mark.api("Client.upload_file")
def test_an_uploaded_module_is_imported_by_tasks(same, tmp_path):
    def prog(client):
        name = fresh_name()
        (tmp_path / f"{name}.py").write_text("def answer(x):\n    return x + 41\n")
        told = client.upload_file(str(tmp_path / f"{name}.py"))
        found = client.submit(call, name, "answer", 1).result()
        return found, sorted({str(answer["status"]) for answer in told.values()})

    assert same(prog) == (42, ["OK"])


def test_a_changed_module_takes_the_place_of_the_old(same, tmp_path):
    def prog(client):
        name = fresh_name()
        path = tmp_path / f"{name}.py"
        found = []
        for version in ("first", "second", "third"):
            path.write_text(f"def answer():\n    return {version!r}\n")
            client.upload_file(str(path))
            found.append(client.submit(call, name, "answer", pure=False).result())
        return found

    assert same(prog) == ["first", "second", "third"]


@pytest.mark.api("Client.upload_file")
def test_a_graph_that_names_an_uploaded_class_is_opened(same, tmp_path, monkeypatch):
    """The class is pickled by reference: whoever opens the graph has to import its module."""
    def prog(client):
        name = fresh_name()
        path = tmp_path / f"{name}.py"
        found = []
        for version in ("first", "second"):
            path.write_text(POINT.format(version=version))
            point = imported_here(tmp_path, name, monkeypatch).Point
            client.upload_file(str(path))
            shown = dask.delayed(lambda p: p.shown(), pure=False)
            found.append(client.compute(shown(point(3))).result())
            found.append(client.submit(point.shown, point(4), pure=False).result())
            found += client.gather(client.map(point.shown, [point(5), point(6)], pure=False))
        return found

    assert same(prog) == [(v, x) for v in ("first", "second") for x in (3, 4, 5, 6)]


@pytest.mark.parametrize("ending", ["zip", "egg", "pyz"])
def test_an_uploaded_archive_is_imported(same, tmp_path, ending, monkeypatch):
    def prog(client):
        name = fresh_name()
        found = []
        for version in ("first", "second"):
            path = tmp_path / f"{version}_{name}.{ending}"
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(f"{name}/__init__.py", POINT.format(version=version))
                archive.writestr(f"{name}/part.py", "def answer():\n    return 'part'\n")
                archive.writestr(f"{name}_beside.py", "def answer():\n    return 'beside'\n")
            client.upload_file(str(path))
            found.append(client.submit(call, f"{name}_beside", "answer", pure=False).result())
            monkeypatch.syspath_prepend(str(path))
            point = __import__(name).Point
            found.append(client.submit(point.shown, point(1), pure=False).result()[1])
        return found

    assert same(prog) == ["beside", 1, "beside", 1]


def test_a_file_may_be_uploaded_without_being_loaded(same, tmp_path):
    def prog(client):
        name = fresh_name()
        path = tmp_path / f"{name}.py"
        path.write_text("import os\n\ndef answer():\n    return 'loaded later'\n")
        client.upload_file(str(path), load=False)
        data = tmp_path / f"{name}.txt"
        data.write_text("plain")
        client.upload_file(str(data))

        def read(name, dask_worker):
            return (Path(dask_worker.local_directory) / name).read_text()

        texts = set(client.run(read, data.name).values())
        return client.submit(call, name, "answer").result(), texts

    assert same(prog) == ("loaded later", {"plain"})


@pytest.mark.parametrize("source", ["raise KeyError('on import')", "def broken(:", "import no_such_module_at_all"])
def test_a_module_that_cannot_be_imported_raises(same, tmp_path, source):
    def prog(client):
        path = tmp_path / "cannot_be_imported.py"
        path.write_text(source)
        try:
            client.register_plugin(SchedulerUploadFile(str(path)))
        except Exception as error:  # the file's place differs
            return type(error).__name__, str(error.args[0]), client.submit(inc, 1).result()

    assert same(prog)[2] == 2


def unregistered(client, name) -> bool:
    """False while its registration, which went another way, has not arrived."""
    try:
        client.unregister_worker_plugin(name)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("source", ["raise KeyError('on import')", "1 / 0"])
def test_upload_file_raises_what_the_module_raises(same, tmp_path, monkeypatch, source):
    def prog(client):
        path = tmp_path / "cannot_be_imported.py"
        path.write_text(source)
        monkeypatch.setattr(uuid, "uuid4", lambda: "-of-the-test")
        try:
            client.upload_file(str(path))
        finally:  # workers keep it, and those that start later would fail by it
            monkeypatch.undo()
            until(lambda: unregistered(client, f"{path}-of-the-test"), "the plugin of workers")

    with pytest.raises((KeyError, ZeroDivisionError)):
        same(prog)


@pytest.mark.op("unregister_scheduler_plugin")
@pytest.mark.api("Client.unregister_scheduler_plugin")
def test_uploads_are_forgotten_by_name(same, tmp_path):
    def prog(client):
        path = tmp_path / "forgotten.py"
        path.write_text("x = 1")
        client.register_plugin(SchedulerUploadFile(str(path)))
        client.register_plugin(SchedulerUploadFile(str(path)), name="it's")
        client.unregister_scheduler_plugin("upload_file")
        client.unregister_scheduler_plugin("it's")
        texts = []
        for name in ("upload_file", "it's", "never there"):
            with pytest.raises(ValueError) as caught:
                client.unregister_scheduler_plugin(name)
            texts.append(str(caught.value))
        return texts

    assert len(same(prog)) == 3


def test_an_idempotent_upload_is_loaded_once(same, tmp_path):
    def prog(client):
        path = tmp_path / f"{fresh_name()}.py"
        loads = tmp_path / fresh_name()
        path.write_text(f"import os\nwith open({str(loads)!r}, 'a') as f: print(os.getpid(), file=f)")
        plugin = SchedulerUploadFile(str(path))
        counts = []
        for plugin.idempotent in (True, True, False):
            client.register_plugin(plugin, name="once")
            processes = loads.read_text().split()
            counts.append(max(map(processes.count, processes)))
        client.unregister_scheduler_plugin("once")
        return counts

    assert same(prog) == [2, 2, 3]  # the first time it is imported and reloaded


@ours
@pytest.mark.fault("C5")
def test_uploads_outlive_the_process_that_loaded_them(rask_cluster, rask_client, tmp_path, monkeypatch):
    name = fresh_name()
    path = tmp_path / f"{name}.py"
    for version in ("first", "second"):
        path.write_text(POINT.format(version=version))
        rask_client.upload_file(str(path))
    point = imported_here(tmp_path, name, monkeypatch).Point
    for x in range(3):
        processes = rask_cluster.graph_processes()
        for pid in processes:
            os.kill(pid, signal.SIGKILL)
        until(lambda: (now := set(rask_cluster.graph_processes())) and not now & set(processes),
              "another process")
        assert rask_client.submit(point.shown, point(x)).result(timeout=120) == ("second", x)


@ours
def test_an_upload_that_never_ends_leaves_graphs_alone(rask_cluster, rask_client, tmp_path):
    sign = tmp_path / "loading"
    path = tmp_path / f"{fresh_name()}.py"
    path.write_text(f"import pathlib, time\npathlib.Path({str(sign)!r}).touch()\ntime.sleep(1e6)\n")
    with rask_cluster.client() as uploader:
        upload = uploader._register_scheduler_plugin(SchedulerUploadFile(str(path)), "endless", False)
        uploading = asyncio.run_coroutine_threadsafe(upload, uploader.loop.asyncio_loop)
        until(sign.exists, "the upload to be tried")
        for i in range(5):
            assert rask_client.submit(inc, i, pure=False).result(timeout=120) == i + 1
        assert not uploading.done()
    # Its client has left: its process is ended, and the next upload gets its turn.
    fine = tmp_path / f"{fresh_name()}.py"
    fine.write_text("x = 1")
    rask_client.upload_file(str(fine))
    assert rask_client.submit(inc, 1, pure=False).result(timeout=120) == 2


@ours
def test_uploaded_files_go_with_the_scheduler(fresh, tmp_path):
    path = tmp_path / f"{fresh_name()}.py"
    path.write_text("x = 1")
    cluster = fresh(n_workers=1, env={"DASK_TEMPORARY_DIRECTORY": str(tmp_path)})
    with cluster.client() as client:
        client.upload_file(str(path))
    assert len(list(tmp_path.glob(f"rask-uploads-*/*/{path.name}"))) == 1
    cluster.scheduler.stop()
    assert not list(tmp_path.glob("rask-uploads-*"))
