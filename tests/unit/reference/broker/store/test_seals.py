"""Sums of a log's ranges, against the bytes themselves."""

import random
from collections.abc import Iterator
from zlib import crc32

import pytest

from maxq.reference.broker.store.seals import RANGES_PER_FILE, DamagedRange, Seal, Sealed, Sums
from maxq.reference.records import InvariantViolation, PhyOffset

FILE = 1600
RECORD = 40  # bytes of each record; a file holds a whole number of them


def log_of(count: int) -> bytes:
    return random.Random(count).randbytes(count * RECORD)


def fed(data: bytes, piece: int, *, start: int = 0, known: Sealed | None = None) -> Sums:
    """The sums of a log that comes in pieces, none of which spans two files."""
    sums, at = Sums(FILE, PhyOffset(start), known), 0
    while at < len(data):
        size = min(piece, len(data) - at, FILE - (start + at) % FILE)
        end = start + at + size
        sums.add(data[at : at + size], PhyOffset(end - (end - start) % RECORD))
        at += size
    return sums


def ranges(sealed: Sealed) -> Iterator[tuple[int, int, int]]:
    """Start, end and sum of each."""
    begun = sealed.start
    for seal in sealed.seals:
        yield begun, seal.end, seal.crc
        begun = seal.end


@pytest.mark.parametrize("piece", [1, 7, RECORD, 333, FILE])
@pytest.mark.parametrize("start", [0, 3 * FILE])
def test_each_whole_record_is_in_a_range_and_each_range_in_a_file(piece: int, start: int) -> None:
    data = log_of(205)[:-13]
    sums = fed(data, piece, start=start)
    sealed = sums.sealed()
    assert (sealed.start, sealed.end) == (start, start + 204 * RECORD) == (start, sums.whole)
    for begun, end, crc in ranges(sealed):
        assert crc == crc32(data[begun - start : end - start])
        assert begun // FILE == (end - 1) // FILE
    files = -(-len(data) // FILE)
    assert files <= len(sealed.seals) <= files * RANGES_PER_FILE


def test_what_is_read_again_is_compared_and_summed_alike() -> None:
    data = log_of(150)
    sealed = fed(data, 333).sealed()
    assert fed(data, RECORD, known=sealed).sealed() == sealed
    longer = data + log_of(60)
    again = fed(longer, RECORD, known=sealed).sealed()
    assert again.seals[: len(sealed.seals) - 1] == sealed.seals[:-1]
    assert [crc32(longer[a:b]) for a, b, _ in ranges(again)] == [s.crc for s in again.seals]


def test_another_byte_is_found_in_its_range_wherever_it_is() -> None:
    data = log_of(100)
    sealed = fed(data, RECORD).sealed()
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 8]) + data[at + 1 :]
        with pytest.raises(DamagedRange) as found:
            fed(damaged, RECORD, known=sealed)
        assert found.value.start <= at < found.value.end
        assert (found.value.start, found.value.end) in {(a, b) for a, b, _ in ranges(sealed)}


def test_a_range_that_ends_where_no_record_does_any_more_is_damaged() -> None:
    data = log_of(10)
    sums = Sums(FILE, PhyOffset(0), Sealed(start=PhyOffset(0), seals=(
        Seal(end=PhyOffset(RECORD), crc=crc32(data[:RECORD])),
    )))  # fmt: skip
    with pytest.raises(DamagedRange, match=f"offsets 0 to {RECORD}"):
        sums.add(data[: 2 * RECORD], PhyOffset(2 * RECORD))


def test_a_log_that_lost_its_first_files_is_compared_where_it_begins() -> None:
    data = log_of(200)
    sealed = fed(data, RECORD).sealed()
    left = fed(data[2 * FILE :], RECORD, start=2 * FILE, known=sealed).sealed()
    assert left == Sealed(start=PhyOffset(2 * FILE), seals=tuple(
        s for s in sealed.seals if s.end > 2 * FILE
    ))  # fmt: skip
    damaged = bytearray(data[2 * FILE :])
    damaged[100] ^= 1
    with pytest.raises(DamagedRange):
        fed(bytes(damaged), RECORD, start=2 * FILE, known=sealed)


@pytest.mark.parametrize("seed", range(30))
def test_a_cut_log_goes_on_as_if_it_had_never_been_longer(seed: int) -> None:
    rng = random.Random(seed)
    data = b""
    sums = Sums(FILE, PhyOffset(0))
    for _ in range(20):
        more = rng.randbytes(RECORD * rng.randint(1, 12))
        for at in range(0, len(more), RECORD):
            sums.add(more[at : at + RECORD], PhyOffset(len(data) + at + RECORD))
        data += more
        if rng.random() < 0.5:
            whole = data
            keep = rng.randrange(len(data) // RECORD + 1) * RECORD
            sums = sums.cut(PhyOffset(keep), lambda at, size, log=whole: log[at : at + size])  # type: ignore[misc]
            data = data[:keep]
        sealed = sums.sealed()
        assert sealed.end == len(data)
        assert [crc32(data[a:b]) for a, b, _ in ranges(sealed)] == [s.crc for s in sealed.seals]
        assert fed(data, RECORD, known=sealed).sealed().end == len(data)


def test_a_begun_record_is_cut_off_unread() -> None:
    data = log_of(11)
    sums = fed(data[:-5], 7)

    def unread(at: PhyOffset, size: int) -> bytes:
        raise AssertionError(f"{size} bytes at {at} are read")

    cut = sums.cut(PhyOffset(10 * RECORD), unread)
    assert cut.sealed() == sums.sealed()
    cut.add(data[10 * RECORD :], PhyOffset(11 * RECORD))
    assert cut.sealed() == fed(data, 7).sealed()


def test_damage_is_not_summed_anew_by_a_cut() -> None:
    data = bytearray(log_of(20))
    sums = fed(bytes(data), RECORD)
    begun, end, _ = list(ranges(sums.sealed()))[2]
    assert end - begun > RECORD
    data[begun] ^= 1
    with pytest.raises(DamagedRange, match=f"offsets {begun} to {end}"):
        sums.cut(PhyOffset(begun + RECORD), lambda at, size: bytes(data[at : at + size]))
    assert sums.cut(PhyOffset(begun), lambda at, size: b"").whole == begun


def test_no_log_is_cut_behind_its_last_whole_record() -> None:
    with pytest.raises(InvariantViolation, match="a record ends"):
        fed(log_of(2)[:-5], 7).cut(PhyOffset(2 * RECORD), lambda at, size: b"")


def test_the_sums_of_a_long_log_are_few() -> None:
    """100 GB in files of 1 GiB: some 1,600 ranges, 20 KB in the file."""
    size = 1 << 30
    sums, record = Sums(size, PhyOffset(0)), bytes(1 << 20)
    for number in range(3 << 10):  # of 3 GiB
        sums.add(record, PhyOffset((number + 1) << 20))
    assert len(sums.sealed().seals) == 3 * RANGES_PER_FILE
