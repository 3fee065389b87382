"""Journals and histories of Jepsen read as record batches, beside the readers of operations."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from maxq.histories.jepsen import encode_edn
from maxq.histories.jsonl import JournalWriter, ReadReport, read_jsonl
from maxq.histories.lines.by_line import read_edn_history
from maxq.histories.lines.jepsen import spool_edn
from maxq.histories.lines.journal import spool_journal
from maxq.histories.lines.spool import Spool, concurrency_of, spool
from maxq.histories.op import NEMESIS, HistoryError, Op
from maxq.histories.tables import op_of_row

NOTHING = ReadReport(count=0, complete=True)
MORE = {"broker": "198.18.0.80:10911", "byte": 90, "node": "b0"}
OPS = (
    Op("info", NEMESIS, "kill", {"b0-1": 7}, None, 0, 0),
    *(
        op
        for n in range(1, 400, 6)
        for op in (
            Op("invoke", 3, "send", [["send", 2, 1000 + n]], None, n, n * 10),
            Op("ok", 3, "send", [["send", 2, [n, 1000 + n]]], None, n + 1, n * 10, dict(MORE)),
            Op("invoke", 4, "poll", [["poll"]], None, n + 2, n * 10),
            Op("ok", 4, "poll", [["poll", {2: [[n, 1000 + n]], 3: []}]], None, n + 3, n * 10),
            Op("invoke", 5, "acquire", n, None, n + 4, n * 10),
            Op("fail", 5, "acquire", n, ["no", n], n + 5, n * 10, {"broker": "b\u00fc"}),
        )
    ),
)
ODD = (
    b'"value":-0', b'"value":1e999', b'"value":[01]', b'"value":{"$map":[[1,2],[3]]}',
    b'"value":{"$map":[[1,2],[1,3]]}', b'"value":{"$1":2}', b'"value":"\\ud800"',
    b'"value":"\\u00e9"',
    b'"value":"\xff"', b'"value":1.50', b'"value":[ 1, 2 ]', b'"value":{"$set":[20,3]}',
    b'"value":99999999999999999999', b'"value":1,"value":2', b'"value":7,"error":null,"zz":1',
    b'"value":7,"a":1,"error":[8],"zz":9', b'"value":{"$kw":"x1"}', b'"value":7,"index":3',
)  # fmt: skip


def spooled(read: Callable[[Spool], ReadReport]) -> tuple[tuple[Op, ...], ReadReport]:
    with spool() as rows:
        report = read(rows)
        found = tuple(op_of_row(row) for batch in rows.batches() for row in batch.to_pylist())
        return found, report


def outcome(read: Callable[[], tuple[Sequence[Op], ReadReport]]) -> object:
    try:
        return read()
    except HistoryError as error:
        return str(error)


def alike(path: Path) -> object:
    """What both readers make of a journal, which must be the same."""
    _alike(path, True)
    return _alike(path, False)


def _alike(path: Path, allowed: bool) -> object:
    found = outcome(lambda: read_jsonl(path, allow_truncated=allowed))
    ours = outcome(lambda: spooled(lambda s: spool_journal(path, s, allow_truncated=allowed)))
    assert ours == found
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    with JournalWriter(path, flush_bytes=2000) as writer:
        for op in OPS:
            writer.append(op)
    return path


def test_a_journal_is_read_alike(journal: Path) -> None:
    assert alike(journal) == (OPS, ReadReport(count=len(OPS), complete=True))


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_value_is_read_or_refused_alike(journal: Path, odd: bytes) -> None:
    journal.with_suffix(".digests").unlink()
    line = b'{"index":%d,"time":5,"type":"invoke","process":9,"f":"acquire",' % len(OPS)
    lines = journal.read_bytes().splitlines(keepends=True)[:-1]
    journal.write_bytes(b"".join(lines) + line + odd + b"}\n")
    alike(journal)
    journal.write_bytes(b"".join(lines) + line + b'"value":' + b"[1,2]," * 20_000 + odd + b"}\n")
    alike(journal)
    value = odd.removeprefix(b'"value":')
    long = b'"value":[' + b"[1,2]," * 20_000 + value + b"]}\n"
    journal.write_bytes(b"".join(lines) + line + long)
    alike(journal)


def test_a_damaged_journal_is_refused_alike(journal: Path) -> None:
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    said = set()
    cases = [whole[: len(whole) // 2], whole[:-1], b"".join(lines[:-1]), whole + lines[5],
             whole + b"x",
             b"".join([*lines[:50], *lines[49:]]), b"".join([*lines[:50], *lines[51:]]),
             whole.replace(b'"process":3', b'"process":8', 1), whole.replace(b"[60,", b"[61,", 1),
             b"\n" + whole, b"".join([*lines[:50], lines[-1], *lines[50:]]), b""]  # fmt: skip
    for data in cases:
        journal.write_bytes(data)
        said.add(str(alike(journal)))
    assert len(said) > 8


def test_a_history_of_jepsen_is_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    whole = encode_edn(OPS)
    lines = whole.splitlines(keepends=True)
    unindexed = b"".join(line.replace(b":index ", b":at ") for line in lines)
    odd = [line.replace(b":time ", b":x " + word + b", :time ") for line, word in zip(
        lines[1:] * 2, (b"1.5", b"#{2 1}", b"1/2", b"-0", b"007", b"[:a1]", b"{1 2, 1 3}", b"a1",
                    b"#t 1", b"{:$1 2}", b"#_ 3 4", b";", b"1N", b"\\1",
                    b'"a\\n1"', b'"a;1"', b'"#{2 1}"', b'; "', b'"a" ; "b" 1', b'{"a;1" #{3 "#"}}',
                    b'"un;closed'), strict=False)]  # fmt: skip
    for data in (whole, unindexed, b"[" + whole + b"]", b"\n\n" + whole, whole[:-20], whole + b"7",
                 *(lines[0] + line + lines[2] for line in odd), b"", b"\xff" + whole):  # fmt: skip
        path.write_bytes(data)
        found = outcome(lambda: (read_edn_history(path), NOTHING))
        ours = outcome(lambda: (spooled(lambda s: spool_edn(path, s))[0], NOTHING))
        assert ours == found, data[:80]


def test_clients_at_a_time_are_those_before_one_was_retired(journal: Path) -> None:
    with spool() as rows:
        spool_journal(journal, rows)
        assert concurrency_of(rows.batches()) == 6
