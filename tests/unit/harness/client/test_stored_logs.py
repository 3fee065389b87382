"""A replica's log as histories hold it: epochs cut where they begin, digests of 64 KiB, records."""

import hashlib

import pytest

from maxq.harness.client.stored_logs import EPOCH_FILE, LOG_FOLDER, ValueOf, read_log, replica_logs
from maxq.histories.observed import DIGEST_BYTES, ReplicaLog
from maxq.reference.records import MasterEpoch, PhyOffset, QueueOffset, RemoteProtocolError
from maxq.reference.wire.files import encode_epochs
from maxq.reference.wire.ha import EpochStart
from maxq.reference.wire.message import Message, encode, encode_blank
from maxq.workloads import payload

FILE_BYTES = 4096
KEYS = [("t", "b0", 0), ("t", "b0", 1), ("t", "b1", 0)]


def record(at: int, *, queue_id: int = 0, value: int = 0, topic: str = "t", size: int = 0) -> bytes:
    body = payload.encode(queue_id, 1, value) if not size else bytes(size)
    return encode(
        Message(
            topic=topic,
            body=body,
            queue_id=queue_id,
            queue_offset=QueueOffset(value),
            physical_offset=PhyOffset(at),
        )
    )


def epochs(*entries: tuple[int, int]) -> bytes:
    return encode_epochs([EpochStart(epoch=MasterEpoch(e), start=PhyOffset(s)) for e, s in entries])


def logs(files: dict[str, bytes]) -> list[ReplicaLog]:
    value_of = ValueOf(KEYS, "b0", payload.decode)
    return list(
        replica_logs(read_log(files), node="n", broker_set="b0", broker_id=2, value_of=value_of)
    )


def file(at: int) -> str:
    return f"{LOG_FOLDER}{at:020d}"


def test_epochs_are_cut_where_they_begin() -> None:
    first = record(0, value=5)
    second = record(len(first), queue_id=1, value=6)
    data = first + second + bytes(100)
    one, two = logs({file(0): data, EPOCH_FILE: epochs((1, 0), (3, len(first)))})
    assert (one.epoch, one.start, one.end, one.last) == (1, 0, len(first), False)
    assert (two.epoch, two.start, two.end, two.last) == (3, len(first), len(first + second), True)
    assert (one.records, two.records) == (((0, 5, 5),), ((1, 6, 6),))
    assert one.digests == (hashlib.sha256(first).hexdigest(),)


@pytest.mark.parametrize("listed", [((3, 200),), ((3, 9999),), ()])
def test_what_is_older_than_the_list_is_epoch_0(listed: tuple[tuple[int, int], ...]) -> None:
    """Or all of the log, where the list begins behind it."""
    first = record(0, value=5)
    second = record(len(first), value=6)
    starts = tuple((epoch, len(first) if start == 200 else start) for epoch, start in listed)
    files = {file(0): first + second + bytes(100)}
    read = logs(files | ({EPOCH_FILE: epochs(*starts)} if starts else {}))
    found = [(log.epoch, log.start, log.end, log.last) for log in read]
    whole = len(first + second)
    if listed == ((3, 200),):
        assert found == [(0, 0, len(first), False), (3, len(first), whole, True)]
    else:
        assert found == [(0, 0, whole, True)]
    assert sorted(r[2] for log in read for r in log.records) == [5, 6]


def test_a_log_goes_on_in_the_next_file_behind_a_blank() -> None:
    first = record(0, value=1)
    blank = encode_blank(FILE_BYTES - len(first))
    whole = first + blank + bytes(FILE_BYTES - len(first) - len(blank))
    second = record(FILE_BYTES, value=2)
    [log] = logs({file(0): whole, file(FILE_BYTES): second, EPOCH_FILE: epochs((1, 0))})
    assert log.end == FILE_BYTES + len(second)
    assert [r[2] for r in log.records] == [1, 2]


def test_a_torn_record_is_no_log() -> None:
    first, second = record(0, value=1), record(200, value=2)
    [log] = logs({file(0): first + second[:-30] + bytes(80), EPOCH_FILE: epochs((1, 0))})
    assert log.end == len(first)


def test_other_topics_are_bytes_but_no_records() -> None:
    data = record(0, topic="other", size=2 * DIGEST_BYTES)
    [log] = logs({file(0): data, EPOCH_FILE: epochs((1, 0))})
    assert log.records == ()
    assert len(log.digests) == 3
    assert log.digests[0] == hashlib.sha256(data[:DIGEST_BYTES]).hexdigest()


def test_a_body_that_is_not_ours_is_told_as_such() -> None:
    [log] = logs({file(0): record(0, size=9), EPOCH_FILE: epochs((1, 0))})
    assert log.records == ((0, 0, "corrupt:" + bytes(9).hex()),)


def test_an_empty_log_has_one_epoch_without_bytes() -> None:
    [log] = logs({})
    assert (log.start, log.end, log.digests) == (0, 0, ())


def test_an_epoch_that_has_no_bytes_yet_is_left_out() -> None:
    data = record(0, value=1)
    files = {file(0): data, EPOCH_FILE: epochs((1, 0), (2, len(data)))}
    assert [log.epoch for log in logs(files)] == [1]


def test_a_gap_between_files_is_an_error() -> None:
    first = record(0, value=1)
    blank = encode_blank(FILE_BYTES - len(first))
    whole = first + blank + bytes(FILE_BYTES - len(first) - len(blank))
    with pytest.raises(RemoteProtocolError, match="gap"):
        read_log({file(0): whole, file(2 * FILE_BYTES): record(2 * FILE_BYTES)})
