"""How many messages queues had of which the commit log has none: a small file beside the log.

The log says at which offset a queue goes on, as long as it has a message of the queue. Once its
first files are deleted that is lost, and a broker that counted from 0 again would give offsets to
other messages than before. The consume queue's own files say it too, but nobody syncs them. So it
is written down, durably, before the log's files go, and when a slave whose log begins above 0 has
asked its master. The file is JSON with a checksum, topic to queue id to the next offset; absent or
damaged, nothing is known. RocketMQ knows nothing of the file.
"""

from collections.abc import Mapping

import msgspec

from maxq.reference.host import Disk, read_file, replace_file
from maxq.reference.records import QueueOffset, RemoteProtocolError
from maxq.reference.wire.seal import seal, unseal

NAME = "queueEnds"
QueueKey = tuple[str, int]
_Table = dict[str, dict[int, int]]


class QueueEnds:
    """The file, below the store's `root`. One writer at a time."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._disk = disk
        self._path = f"{root}/{NAME}"

    def load(self) -> dict[QueueKey, QueueOffset] | None:
        """Read it; None if there is none, or it is damaged."""
        data = read_file(self._disk, self._path)
        try:
            table = None if data is None else msgspec.json.decode(unseal(data), type=_Table)
        except (RemoteProtocolError, msgspec.MsgspecError):
            return None
        if table is None:
            return None
        return {
            (t, q): QueueOffset(end) for t, queues in table.items() for q, end in queues.items()
        }

    async def save(self, ends: Mapping[QueueKey, QueueOffset]) -> None:
        """Replace it, durably. Raises OSError."""
        table: _Table = {}
        for (topic, queue_id), end in sorted(ends.items()):
            table.setdefault(topic, {})[queue_id] = end
        await replace_file(self._disk, self._path, seal(msgspec.json.encode(table)))

    async def forget(self) -> None:
        """What it says is of a log that is thrown away. Raises OSError."""
        if self._disk.list(self._path.rpartition("/")[0]).count(NAME):
            self._disk.unlink(self._path)
            await self._disk.sync_dir(self._path.rpartition("/")[0])
