"""Files that clients upload, loaded so that graphs which name their modules can be opened.

The scheduler hands over the plugin that `Client.upload_file` registered with it, as it came. Stock's
own code then writes the file and imports it, into a directory of this process. Any other plugin
would need the scheduler itself and is refused.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

from distributed.core import Server
from distributed.diagnostics.plugin import SchedulerPlugin, SchedulerUploadFile, _get_plugin_name
from distributed.protocol.pickle import loads

from rask.graph.errors import error
from rask.graph.link import Link, Message

_REFUSED = (
    "scheduler plugins are not supported by rask-scheduler yet, but for what Client.upload_file "
    "registers; docs/COMPATIBILITY.md lists what is"
)


class _Place:
    """What the plugin takes for its scheduler."""

    upload_file = Server.upload_file

    def __init__(self, directory: str):
        self.local_directory = directory


def load(link: Link, message: Message) -> None:
    """Answers one `upload` message."""
    number = message.header["id"]
    try:
        name = _loaded(message.frames[1], message.header["directory"])
        link.write({"op": "loaded", "id": number, "name": name})
    except BaseException as e:  # noqa: BLE001 - user code may raise anything, SystemExit too
        link.write(error(number, e))
    link.flush()


def _loaded(pickled, directory: str) -> str:
    plugin = loads(pickled)
    assert isinstance(plugin, SchedulerPlugin)
    if type(plugin) is not SchedulerUploadFile:
        raise NotImplementedError(_REFUSED)
    asyncio.run(plugin.start(_Place(_directory(directory))))
    return _get_plugin_name(plugin)


def _directory(parent: str) -> str:
    """This process's own directory, where modules are looked for first."""
    path = os.path.join(parent or tempfile.mkdtemp(prefix="rask-uploads-"), str(os.getpid()))
    os.makedirs(path, exist_ok=True)
    if path not in sys.path:
        sys.path.insert(0, path)
    return path
