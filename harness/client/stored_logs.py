"""The logs that replicas have on disk, epoch by epoch, as histories hold them.

A log is read from copies of a broker's files: whole pages of its commit log by the offset that each
file's name is, and the epoch file. Nothing of it is taken on trust: the end is where records end.
Offsets are bytes of the commit log, ends exclusive. Source: docs/spec/controller-ha.md 4.1,
docs/spec/remoting.md 7.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from maxq.histories.observed import DIGEST_BYTES, ReplicaLog
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire import message as records
from maxq.reference.wire.files import decode_epochs
from maxq.reference.wire.message import Message

STORE = "store"
LOG_FOLDER, EPOCH_FILE = f"{STORE}/commitlog/", f"{STORE}/epochFileCheckpoint"


class StoredLog(msgspec.Struct, frozen=True):
    """A commit log as found: ``data[0]`` is the byte at `start`."""

    start: int
    data: bytes
    messages: tuple[Message, ...]
    epochs: tuple[tuple[int, int], ...]  # (epoch, start), ascending

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def read_log(files: Mapping[str, bytes]) -> StoredLog:
    """Read a broker's log from its files, by path below its data folder.

    Raises:
        RemoteProtocolError: files leave a gap, or the epoch file is unreadable.
    """
    log_files = sorted((int(p.removeprefix(LOG_FOLDER)), d) for p, d in files.items()
                       if p.removeprefix(LOG_FOLDER).isdecimal())  # fmt: skip
    epochs = files.get(EPOCH_FILE)
    starts = [(e.epoch, e.start) for e in decode_epochs(epochs)] if epochs is not None else []
    parts: list[bytes] = []
    messages: list[Message] = []
    start = at = log_files[0][0] if log_files else 0
    for offset, data in log_files:
        if offset != at:
            raise RemoteProtocolError(f"log files leave a gap: {at} to {offset}")
        used = _used(data, messages)
        parts.append(data[:used])
        at += used
        if used < len(data):
            break  # the log ends in this file
    return StoredLog(start, b"".join(parts), tuple(messages), tuple(starts))


def _used(data: bytes, messages: list[Message]) -> int:
    """How many bytes of a file are log; adds its messages."""
    view, at = memoryview(data), 0
    while at + records.BLANK_BYTES <= len(data):
        size, magic = records.peek(view, at)
        if magic == records.BLANK_MAGIC and size == len(data) - at:
            return len(data)
        try:
            message, after = records.decode(view, at)
        except RemoteProtocolError:
            return at
        messages.append(message)
        at = after
    return at


def replica_logs(
    log: StoredLog,
    *,
    node: str,
    broker_set: str,
    broker_id: int | None,
    value_of: "ValueOf",
) -> Iterator[ReplicaLog]:
    """Each epoch of a log that has bytes, in order; what is older than the epoch file is epoch 0.

    Args:
        log: the whole log.
        node: whose.
        broker_set: its set.
        broker_id: what its identity file says.
        value_of: the key and value of a message of the run's own, None for others.
    """
    entries = [e for e in log.epochs if e[1] < log.end]
    if not entries or entries[0][1] > log.start:
        entries = [(0, log.start), *entries]
    ends = [*(start for _, start in entries[1:]), log.end]
    for (epoch, start), end in zip(entries, ends, strict=True):
        start = max(start, log.start)
        found = [
            (*known, m.queue_offset)
            for m in log.messages
            if start <= m.physical_offset < end and (known := value_of(m)) is not None
        ]
        yield ReplicaLog(
            node=node,
            set=broker_set,
            id=broker_id,
            epoch=epoch,
            start=start,
            end=end,
            last=end == log.end,
            digests=tuple(_digests(log.data[start - log.start : end - log.start])),
            records=tuple((key, offset, value) for key, value, offset in found),
        )


class ValueOf:
    """Reads messages of the topics that a run has keys for.

    Args:
        keys: (topic, broker set, queue id) of each key, in order.
        broker_set: whose log is read.
        decode: the value of a body of a key.
    """

    def __init__(self, keys: Sequence[tuple[str, str, int]], broker_set: str, decode: Any) -> None:
        self._keys = {(t, q): k for k, (t, s, q) in enumerate(keys) if s == broker_set}
        self._decode = decode

    def __call__(self, message: Message) -> tuple[int, Any] | None:
        key = self._keys.get((message.topic, message.queue_id))
        return None if key is None else (key, self._decode(key, message.body))


def _digests(data: bytes) -> Iterator[str]:
    for at in range(0, len(data), DIGEST_BYTES):
        yield hashlib.sha256(data[at : at + DIGEST_BYTES]).hexdigest()
