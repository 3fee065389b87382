"""The journal: exact text, flushes, full disks, damage."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from enum import IntEnum, StrEnum
from pathlib import Path
from typing import Any

import pytest

from maxq.histories.jsonl import JournalWriter, ReadReport, read_jsonl
from maxq.histories.op import NEMESIS, HistoryError, Op

SECOND_NS = 1_000_000_000


def _op(index: int, time: int = 0, **kw: Any) -> Op:
    return Op("invoke", index, "send", [["send", 0, index]], None, index, time, **kw)


def _write(path: Path, *ops: Op) -> bytes:
    with JournalWriter(path) as journal:
        for op in ops:
            journal.append(op)
    return path.read_bytes()


def test_lines_are_exactly_as_specified(tmp_path: Path) -> None:
    """Order of keys, escapes, exact integers, end marker (docs/spec/history-format.md 9.2)."""
    text = _write(
        tmp_path / "h.jsonl",
        Op("invoke", 3, "poll", [["poll", 1]], None, 0, 5),
        Op(
            *("ok", 3, "poll", [["poll", {1: [[0, 2**60 + 1], [1, "corrupt:ff"]]}]], None, 1, 9),
            {"node": "b1", "end": {1: 2}, "ack": "stored"},
        ),
        Op("info", NEMESIS, "kill", {"$kw": "x"}, ["refused", "é"], 2, 11, {}),
        Op("info", NEMESIS, "cut", {"b1": frozenset(("b3", "b2"))}, None, 3, -1),
    )

    assert text.decode().splitlines() == [
        '{"index":0,"time":5,"type":"invoke","process":3,"f":"poll","value":[["poll",1]]}',
        '{"index":1,"time":9,"type":"ok","process":3,"f":"poll","value":[["poll",'
        '{"$map":[[1,[[0,1152921504606846977],[1,"corrupt:ff"]]]]}]],'
        '"ack":"stored","end":{"$map":[[1,2]]},"node":"b1"}',
        '{"index":2,"time":11,"type":"info","process":"nemesis","f":"kill",'
        '"value":{"$map":[["$kw","x"]]},"error":["refused","é"]}',
        '{"index":3,"time":-1,"type":"info","process":"nemesis","f":"cut",'
        '"value":{"b1":{"$set":["b2","b3"]}}}',
        '{"end":true,"count":4}',
    ]


class _Grade(StrEnum):
    STORED = "stored"


class _Code(IntEnum):
    SUCCESS = 0


def test_members_of_enumerations_are_plain(tmp_path: Path) -> None:
    op = Op("ok", 0, "send", [_Code.SUCCESS, {"a": _Grade.STORED}], None, 0, 0)
    _write(tmp_path / "h.jsonl", op)

    ((got,), _) = read_jsonl(tmp_path / "h.jsonl")
    assert got.value == [0, {"a": "stored"}]
    assert type(got.value[0]) is int


@pytest.mark.parametrize(
    "value", [float("nan"), [{"a": float("inf")}], object(), "\ud800", {"a": b"x"}]
)
def test_what_no_history_may_hold_is_refused(tmp_path: Path, value: Any) -> None:
    with JournalWriter(tmp_path / "h.jsonl") as journal:
        with pytest.raises(ValueError):
            journal.append(Op("ok", 0, "send", value, None, 0, 0))
        journal.append(_op(0))

    assert read_jsonl(tmp_path / "h.jsonl")[0] == (_op(0),)


def test_append_refuses_what_is_out_of_order(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "h.jsonl") as journal:
        with pytest.raises(ValueError, match="index 1, expected 0"):
            journal.append(_op(1))
        with pytest.raises(ValueError, match="redefines"):
            journal.append(_op(0, ext={"value": 1}))


def test_flushes_by_time_by_nemesis_and_by_size(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    journal = JournalWriter(path, flush_bytes=480)

    def whole_lines() -> int:
        data = path.read_bytes()
        assert data == b"" or data.endswith(b"\n")
        return data.count(b"\n")

    journal.append(_op(0, SECOND_NS - 1))
    assert whole_lines() == 0
    journal.append(_op(1, SECOND_NS))
    assert whole_lines() == 2
    journal.append(_op(2, SECOND_NS + 1))
    journal.tick(2 * SECOND_NS - 1)
    assert whole_lines() == 2
    journal.tick(2 * SECOND_NS)
    assert whole_lines() == 3
    journal.append(_op(3, 2 * SECOND_NS))
    journal.append(Op("info", NEMESIS, "kill", None, None, 4, 2 * SECOND_NS))
    assert whole_lines() == 5
    for index in range(5, 11):  # the sixth line of 92 bytes is the one too many
        assert whole_lines() == 5
        journal.append(_op(index, 2 * SECOND_NS))
    assert whole_lines() == 11
    journal.append(_op(11, 2 * SECOND_NS))
    journal.abandon()
    assert whole_lines() == 12
    assert read_jsonl(path)[1] == ReadReport(count=12, complete=False)


def test_end_marker_only_where_the_run_ended(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="out of order"):
        _write(tmp_path / "a", _op(0), _op(2))
    assert read_jsonl(tmp_path / "a")[1] == ReadReport(count=1, complete=False)

    journal = JournalWriter(tmp_path / "b")
    journal.close()
    journal.close()
    journal.abandon()
    assert (tmp_path / "b").read_bytes() == b'{"end":true,"count":0}\n'
    with pytest.raises(ValueError, match="closed"):
        journal.append(_op(0))
    with pytest.raises(ValueError, match="closed"):
        journal.flush()


def test_a_journal_is_never_overwritten(tmp_path: Path) -> None:
    _write(tmp_path / "h.jsonl", _op(0))

    with pytest.raises(FileExistsError):
        JournalWriter(tmp_path / "h.jsonl")


def _short(fd: int, data: bytes, real: Callable[[int, bytes], int]) -> int:
    return real(fd, data[: len(data) - 30])


def _none(fd: int, data: bytes, real: Callable[[int, bytes], int]) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(("write", "left"), [(_short, 2), (_none, 1)])
def test_full_disk_ends_the_journal_readable(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[int, bytes, Callable[[int, bytes], int]], int],
    left: int,
) -> None:
    """A later line after half a line would be damage in the middle."""
    path = tmp_path / "h.jsonl"
    journal = JournalWriter(path)
    journal.append(_op(0))
    journal.flush()
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data, real))

    journal.append(_op(1))
    journal.append(_op(2))
    with pytest.raises(OSError) as caught:
        journal.flush()
    monkeypatch.undo()

    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(ValueError, match="closed"):
        journal.append(_op(3))
    journal.close()
    ops, report = read_jsonl(path)
    assert ops == tuple(_op(i) for i in range(left))
    assert report.complete is False


def test_truncation_at_every_byte_is_readable(tmp_path: Path) -> None:
    ops = [_op(0), Op("ok", 0, "poll", [["poll", {0: [[0, 7]]}]], "é", 1, 2, {"end": {0: 1}})]
    whole = _write(tmp_path / "whole", *ops)
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]

    cut = tmp_path / "cut"  # without digests
    for size in range(len(whole) + 1):
        cut.write_bytes(whole[:size])
        got, report = read_jsonl(cut)
        lines = sum(end <= size for end in ends)
        assert list(got) == ops[:lines]
        start = max((end for end in ends if end <= size), default=0)
        assert report == ReadReport(
            count=len(got), complete=lines == 3, dropped_bytes=size - start, unchecked=len(got)
        )


LINE = b'{"index":1,"time":0,"type":"ok","process":0,"f":"send","value":%s}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"index":1,"ti', "not JSON"),
        (b"", "not JSON"),
        (b"\0" * 9, "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not an object: list"),
        (b'{"index":1,"time":0,"type":"ok","process":0,"f":"send"}', "no key 'value'"),
        (LINE.replace(b":1,", b":2,") % b"1", "index 2, expected 1"),
        (LINE.replace(b":1,", b":true,") % b"1", "must be integers"),
        (LINE.replace(b"ok", b"okay") % b"1", "unknown type: 'okay'"),
        (LINE.replace(b'"send"', b"null") % b"1", "f is not a name: None"),
        (LINE.replace(b'"process":0', b'"process":0.5') % b"1", "neither an integer nor a name"),
        (LINE % b'{"$what":1}', r"unknown escape: \$what"),
        (LINE % b'{"$set":1}', r"unknown escape: \$set"),
        (LINE % b'{"$map":[[1]]}', "not a pair"),
        (LINE % b'{"$map":[[{"a":1},1]]}', "a map's key is a map"),
        (LINE % b"1e999", "not JSON"),
        (LINE.replace(b'"time":0', b'"time":-2') % b"1", "impossible time: -2 ns, before"),
        (LINE.replace(b'"time":0', b'"time":%d' % 2**100) % b"1", "impossible time: 12676506"),
        (LINE.replace(b'"process":0', b'"process":%d' % 2**63) % b"1", "impossible process"),
        (LINE % (b"9" * 100_000), "not JSON: Integer value out of range"),
        (LINE % b'"\xff"', "not JSON: 'utf-8' codec can't decode byte 0xff"),
        (LINE.replace(b"send", b"s\xffd") % b"1", "not JSON: 'utf-8' codec"),
        (LINE % b'"\\ud800"', "not JSON"),
        (b'{"end":true,"count":7}', "wrong end marker"),
    ],
)
def test_damage_in_the_middle_is_refused(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "h.jsonl"
    lines = _write(path, _op(0), _op(1), _op(2)).splitlines(keepends=True)
    path.write_bytes(lines[0] + line + b"\n" + b"".join(lines[2:]))

    with pytest.raises(HistoryError, match=f"h.jsonl: line 2: .*{reason}"):
        read_jsonl(path)

    ops, report = read_jsonl(path, allow_truncated=True)
    assert ops == (_op(0),)
    assert report.damage.startswith("line 2: ")
    assert (report.complete, report.count) == (False, 1)


def test_a_line_after_the_end_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(_write(path, _op(0)) + b"{}\n")

    with pytest.raises(HistoryError, match="line 3: a line after the end marker"):
        read_jsonl(path)


def test_keywords_and_sets_of_other_recorders_are_read(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(LINE.replace(b":1,", b":0,") % b'{"$set":[{"$kw":"a"},[1,[2]]]}' + b"\n")

    ((op,), _) = read_jsonl(path)
    assert op.value == frozenset(("a", (1, (2,))))


WRITER = """
import sys
from pathlib import Path
from maxq.histories.jsonl import JournalWriter
from maxq.histories.op import Op

journal = JournalWriter(Path(sys.argv[1]))
for index in range(10_000):
    # One operation a millisecond; said aloud only after it was appended.
    journal.append(Op("invoke", index, "send", [["send", 0, index]], None, index, index * 10**6))
print(index, flush=True)
sys.stdin.read()
"""


def test_kill_9_loses_only_the_last_second(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"9999\n"
        writer.kill()
        assert writer.wait() == -signal.SIGKILL

    ops, report = read_jsonl(path)
    assert report == ReadReport(count=len(ops), complete=False, dropped_bytes=0)
    assert 10_000 - 1_000 <= len(ops) < 10_000
    assert [op.index for op in ops] == list(range(len(ops)))
