"""Comparing a log with its master's: records, fillings, ends, and a master that does not answer."""

import asyncio

import pytest

from maxq.reference.broker.membership.comparison import equal_end
from maxq.reference.records import PhyOffset
from maxq.reference.wire.message import BLANK_BYTES, MAGIC_V1, encode_blank

FILE = 1000


def record(size: int, fill: bytes = b"x") -> bytes:
    """Something with the size and the magic of a record."""
    head = size.to_bytes(4, "big") + MAGIC_V1.to_bytes(4, "big", signed=True)
    return head + fill * (size - len(head))


def log_of(*records: bytes) -> bytes:
    """Records in files of `FILE` bytes, each closed by a filling."""
    data = b""
    for one in records:
        room = FILE - len(data) % FILE
        if len(one) + BLANK_BYTES > room:
            data += encode_blank(room).ljust(room, b"\0")
        data += one
    return data


class Log:
    """A log's bytes; `whole` is the end of its last whole record."""

    def __init__(self, data: bytes, start: int = 0, torn: bytes = b"") -> None:
        self.data = data + torn
        self.start = PhyOffset(start)
        self.whole = PhyOffset(start + len(data))
        self.asked: list[int] = []
        self.silent_from = 1 << 60

    def whole_end(self) -> PhyOffset:
        return self.whole

    def read_range(self, offset: PhyOffset, size_max: int) -> bytes:
        stop = min(offset + size_max, offset - offset % FILE + FILE)
        return self.data[offset - self.start : stop - self.start]

    async def read(self, offset: PhyOffset) -> bytes | None:
        """What a master answers that finds records by their places."""
        self.asked.append(offset)
        if offset >= self.silent_from:
            raise TimeoutError
        at = self.start
        while at < self.whole:
            head = self.read_range(at, BLANK_BYTES)
            size = int.from_bytes(head[:4], "big")
            if at == offset and head[4:] == record(8)[4:]:
                return self.read_range(at, size)
            at = PhyOffset(at + size)
        return None


def ends(mine: Log, theirs: Log) -> int:
    return asyncio.run(equal_end(mine, theirs.read, theirs.start, theirs.whole))


R = [record(300 + n, bytes([65 + n % 20])) for n in range(50)]


@pytest.mark.parametrize("start", [0, 3 * FILE])
@pytest.mark.parametrize(
    ("mine", "theirs", "equal"),
    [
        (R, R, R),
        (R[:7], R, R[:7]),
        (R, R[:7], R[:7]),
        (R[:5] + R[6:9], R, R[:5]),
        ([*R[:5], record(305, b"?"), *R[6:]], R, R[:5]),
        ([record(300, b"?")], R, []),
        ([], R, []),
        (R, [], []),
    ],
)
def test_where_two_logs_part(
    start: int, mine: list[bytes], theirs: list[bytes], equal: list[bytes]
) -> None:
    """At the first record that the master has not there, also in logs that begin above 0."""
    one, other = Log(log_of(*mine), start), Log(log_of(*theirs), start)
    whole = start + len(log_of(*equal))
    found = ends(one, other)
    # A filling behind the last equal record is equal if the master has it.
    assert found in (whole, (whole // FILE + 1) * FILE if found % FILE == 0 else whole)
    assert one.data[: found - start] == other.data[: found - start]


def test_a_filling_is_equal_only_where_the_master_has_one() -> None:
    """A smaller record fitted there, or nothing came yet."""
    mine = Log(log_of(record(600), record(500)))
    assert ends(mine, Log(log_of(record(600), record(300), record(500)))) == 600
    assert ends(mine, Log(log_of(record(600)))) == 600
    closed = Log(log_of(record(600), record(500))[:FILE])
    assert ends(closed, Log(log_of(record(600), record(500)))) == FILE


def test_fillings_as_rocketmq_gives_them() -> None:
    mine = Log(log_of(record(600), record(500)))
    master = Log(log_of(record(600), record(500)))

    async def read(offset: PhyOffset) -> bytes | None:
        return master.read_range(offset, FILE) if offset == 600 else await master.read(offset)

    assert asyncio.run(equal_end(mine, read, master.start, master.whole)) == mine.whole


def test_a_torn_end_is_not_compared() -> None:
    mine = Log(log_of(record(300)), torn=record(300)[:100])
    assert ends(mine, Log(log_of(record(300), record(300)))) == 300


def test_what_has_expired_at_the_master_is_no_difference() -> None:
    """Files go at another time on each broker; with nothing in common all is copied anew."""
    data = log_of(*R)
    mine, trimmed = Log(data), Log(data[2 * FILE :], start=2 * FILE)
    assert ends(mine, trimmed) == mine.whole
    assert min(trimmed.asked) == 2 * FILE
    assert ends(trimmed, mine) == trimmed.whole
    assert ends(Log(log_of(*R[:3])), trimmed) == 0
    assert ends(Log(data[: 2 * FILE]), trimmed) == 0
    first = trimmed.read_range(trimmed.start, FILE)
    size = int.from_bytes(first[:4], "big")
    changed = Log(data[: 2 * FILE] + first[:size] + record(300, b"?"))
    assert ends(changed, trimmed) == 2 * FILE + size


def test_what_has_expired_at_the_master_is_not_equal_unless_a_record_shows_it() -> None:
    """A deposed master's own records may stand before the place where its successor's log begins:
    kept, they were its successor's by the epoch list, and the same by none of their bytes."""
    data = log_of(*R)
    trimmed = Log(data[2 * FILE :], start=2 * FILE)
    assert ends(Log(data[: 2 * FILE] + log_of(record(300, b"?"), *R)), trimmed) == 0
    blank = encode_blank(FILE).ljust(FILE, b"\0")
    alike = Log(blank + data, start=2 * FILE)
    assert ends(Log(data[: 2 * FILE] + blank + record(300, b"?")), alike) == 0
    assert ends(Log(data[: 2 * FILE] + blank), alike) == 0, "fillings are alike in all logs"


def test_no_answer_is_no_difference_and_behind_one_it_is_not_needed() -> None:
    silent = Log(log_of(*R))
    silent.silent_from = 2 * FILE
    with pytest.raises(TimeoutError):
        ends(Log(log_of(*R)), silent)
    changed = [R[0], record(301, b"?"), *R[2:]]
    assert ends(Log(log_of(*changed)), silent) == 300
    assert len(silent.asked) < 2 * len(R)


def test_a_log_that_cannot_be_read_is_not_compared() -> None:
    broken = Log(record(300))
    broken.data = bytes(300)
    with pytest.raises(OSError, match="no record of this log begins at 0"):
        ends(broken, Log(record(300)))
