"""What a broker leaves on its disk, without the room that files have beforehand.

Logs end behind their last record, queues at a multiple of 20 bytes behind their last byte that is
not 0, checkpoints after 60 bytes. Indexes, the wheel and the log of timers, locks and backups are
left out.
"""

from collections.abc import Mapping

from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire import message

UNIT_BYTES = 20
CHECKPOINT_BYTES = 60  # more than any release uses of its page
LEFT_OUT = (
    "index/", "timerwheel", "timerlog/", "lock", "rocksdb", "transRocksDBStore", "compaction/",
)  # fmt: skip
BACKUP = ".bak"


def trimmed(store: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files by their path below the store, as they are kept. Empty ones are not, but for flags that
    are files (``abort``)."""
    kept = {}
    for path, data in store.items():
        if path.startswith(LEFT_OUT) or path.endswith(BACKUP):
            continue
        short = trim(path, data)
        if short or not data:
            kept[path] = short
    return kept


def trim(path: str, data: bytes) -> bytes:
    """One file without what is behind its last data."""
    if path.startswith("commitlog/"):
        return data[: log_end(data)]
    if path == "checkpoint":
        return data[:CHECKPOINT_BYTES]
    if path.startswith("consumequeue/"):
        return data[: -(-len(data.rstrip(b"\0")) // UNIT_BYTES) * UNIT_BYTES]
    return data


def log_end(data: bytes) -> int:
    """Where the last whole record of a file of the log ends; what fills a file up is none."""
    at = 0
    while at < len(data):
        try:
            _, at = message.decode(data, at)
        except RemoteProtocolError:
            break
    return at
