"""A Raft node's disk: term and vote, the log, the newest snapshot.

Two files. `snapshot` is replaced whole. `log` grows by records, one a write:

    mark 4 bytes | length u32 | crc32 of the payload u32 | payload

A payload holds term, vote and some entries, which replace everything from their first index on. A
write is synced before the next begins, so a crash can tear only the last record: it is cut. A bad
record before a good one is damage that may hide a vote or an acknowledged entry, and a node that
forgets those breaks the group: the log refuses to open.

Compaction writes the snapshot first, then a new log, aside and renamed: after a crash between the
two, the log still holds entries that the snapshot holds as well, and they are skipped.
"""

import struct
import zlib

import msgspec

from maxq.reference.host import Disk, File, read_file, replace_file
from maxq.reference.raft.log import Log
from maxq.reference.raft.message import Entry
from maxq.reference.records import Record, invariant, some

MARK = b"RFT1"
_HEAD = struct.Struct(">4sII")
RECORD_BYTES_MAX = 64 << 20


class CorruptRaftLog(Exception):
    """Files that must not be used; says file, offset and why."""


class Snapshot(Record):
    """State up to `index`, the entry of which has `term`."""

    index: int
    term: int
    data: bytes


class _Record(msgspec.Struct, array_like=True):
    term: int
    vote: str
    entries: list[tuple[int, int, bytes]]  # term, index, data


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


class Storage:
    """The files of one node."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._file: File | None = None
        self._end = 0

    @property
    def log_path(self) -> str:
        """The file of the log."""
        return f"{self._folder}/log"

    @property
    def _snapshot_path(self) -> str:
        return f"{self._folder}/snapshot"

    @property
    def log_bytes(self) -> int:
        """Length of the log file."""
        return self._end

    async def load(self) -> tuple[int, str, Log, Snapshot | None]:
        """Open the files; returns term, vote, log and snapshot.

        Raises:
            CorruptRaftLog: damage that is no torn last record.
        """
        snapshot = self.read_snapshot()
        log = Log() if snapshot is None else Log(snapshot.index, snapshot.term)
        term, vote = 0, ""
        self._file = self._disk.open(self.log_path, create=True)
        # Also where it was there: its creator, or who renamed the snapshot, may have died before.
        await self._disk.sync_dir(self._folder)
        data = self._file.pread(self._file.size(), 0)
        at = 0
        while at < len(data):
            record, end = self._record_at(data, at)
            if record is None:
                self._check_torn(data, at)
                break
            term, vote = record.term, record.vote
            _replay(log, record)
            at = end
        self._end = at
        self._file.truncate(at)
        await self._file.sync()
        return term, vote, log, snapshot

    def _record_at(self, data: bytes, at: int) -> tuple[_Record | None, int]:
        if at + _HEAD.size > len(data):
            return None, at
        mark, length, crc = _HEAD.unpack_from(data, at)
        start, end = at + _HEAD.size, at + _HEAD.size + length
        if mark != MARK or length > RECORD_BYTES_MAX or end > len(data):
            return None, at
        if zlib.crc32(data[start:end]) != crc:
            return None, at
        try:
            return _decode(data[start:end]), end
        except msgspec.MsgspecError as error:
            raise CorruptRaftLog(
                f"{self.log_path}: record at byte {at} fits its crc and cannot be read: {error}"
            ) from None

    def _check_torn(self, data: bytes, at: int) -> None:
        found = data.find(MARK, at + 1)
        while found >= 0:
            record, _ = self._record_at(data, found)
            if record is not None:
                raise CorruptRaftLog(
                    f"{self.log_path}: no sound record at byte {at}, but one at byte {found}; "
                    "a torn record ends a log, this may have lost votes. Restore the file, or "
                    "remove the whole folder to let this node learn everything anew"
                )
            found = data.find(MARK, found + 1)

    async def append(self, term: int, vote: str, entries: tuple[Entry, ...]) -> None:
        """Make term, vote and entries durable."""
        file = some(self._file, "the log is loaded before it is written")
        data = _record(term, vote, entries)
        file.pwrite(data, self._end)
        await file.sync()
        self._end += len(data)

    async def compact(self, snapshot: Snapshot, term: int, vote: str, log: Log) -> None:
        """Make a snapshot durable, then the log anew with what lies behind the snapshot."""
        payload = msgspec.msgpack.encode(snapshot)
        head = _HEAD.pack(MARK, len(payload), zlib.crc32(payload))
        await replace_file(self._disk, self._snapshot_path, head + payload)
        behind = tuple(e for e in log.entries if e.index > snapshot.index)
        data = _record(term, vote, behind)
        await replace_file(self._disk, self.log_path, data)
        if self._file is not None:
            self._file.close()
        self._file = self._disk.open(self.log_path)
        self._end = len(data)

    def read_snapshot(self) -> Snapshot | None:
        """The newest snapshot; None if there was none yet. Raises CorruptRaftLog."""
        data = read_file(self._disk, self._snapshot_path)
        if data is None:
            return None
        if len(data) >= _HEAD.size:
            mark, length, crc = _HEAD.unpack_from(data)
            payload = data[_HEAD.size :]
            if mark == MARK and length == len(payload) and zlib.crc32(payload) == crc:
                return msgspec.msgpack.decode(payload, type=Snapshot)
        raise CorruptRaftLog(
            f"{self._snapshot_path}: does not fit its crc; restore it, or remove the whole folder "
            "to let this node learn everything anew"
        )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _record(term: int, vote: str, entries: tuple[Entry, ...]) -> bytes:
    payload = _encode(_Record(term, vote, [(e.term, e.index, e.data) for e in entries]))
    return _HEAD.pack(MARK, len(payload), zlib.crc32(payload)) + payload


def _replay(log: Log, record: _Record) -> None:
    """Put a record's entries where they were; what the snapshot holds already is skipped."""
    for term, index, data in record.entries:
        if index <= log.snapshot_index:
            continue
        invariant(index <= log.last_index + 1, "a raft log has no gap", index=index)
        del log.entries[index - log.snapshot_index - 1 :]
        log.entries.append(Entry(term=term, index=index, data=data))
