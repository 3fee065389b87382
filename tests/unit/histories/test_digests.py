"""Digests of a journal: what was altered, cut off or damaged after the run is named."""

import subprocess
from pathlib import Path

import pytest

from maxq.histories.digests import digests_of, encode_block
from maxq.histories.jsonl import JournalWriter, ReadReport, read_jsonl
from maxq.histories.op import HistoryError, Op

BLOCKS, BLOCK_LINES = 3, 4
COUNT = BLOCKS * BLOCK_LINES


def op(index: int) -> Op:
    return Op("invoke", index, "send", [["send", 0, index]], None, index, index)


OPS = tuple(op(index) for index in range(COUNT))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Of a run that ended, in blocks of four lines."""
    path = tmp_path / "history.jsonl"
    with JournalWriter(path) as writer:
        for made in OPS:
            writer.append(made)
            if writer.count % BLOCK_LINES == 0:
                writer.flush()
    return path


def refused(path: Path, kept: int) -> str:
    """Why a journal is refused; what is read of it all the same."""
    with pytest.raises(HistoryError) as caught:
        read_jsonl(path)
    ops, report = read_jsonl(path, allow_truncated=True)
    assert ops == OPS[:kept]
    assert not report.complete
    assert str(caught.value) == f"{path.name}: {report.damage}"
    return report.damage


def edit(path: Path, old: bytes, new: bytes) -> None:
    assert path.read_bytes().count(old) == 1
    path.write_bytes(path.read_bytes().replace(old, new))


def test_what_is_as_it_was_recorded_is_read(journal: Path) -> None:
    assert read_jsonl(journal) == (OPS, ReadReport(count=COUNT, complete=True))
    assert digests_of(journal) == journal.with_name("history.digests")
    assert digests_of(journal).read_bytes().count(b"\n") == BLOCKS


def test_others_find_the_same_digest(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)[4:8]
    told = subprocess.run(["b2sum", "-l", "128"], input=b"".join(lines), capture_output=True)
    digest = told.stdout.split()[0].decode()
    line = digests_of(journal).read_text().splitlines()[1]
    assert line == f'{{"lines":8,"digest":"{digest}"}}'


def test_no_flipped_bit_is_read_as_something_else(journal: Path) -> None:
    whole = journal.read_bytes()
    for at in range(len(whole)):
        journal.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            _, report = read_jsonl(journal)
        except HistoryError:
            continue
        assert at == len(whole) - 1, "only the end of the last line: as if the run was killed"
        assert report == ReadReport(count=COUNT, complete=False, dropped_bytes=24)


def test_an_altered_line_is_named_with_its_block(journal: Path) -> None:
    edit(journal, b'["send",0,6]', b'["send",0,7]')
    damage = "lines 5 to 8: not as they were recorded: their digest is another"
    assert refused(journal, kept=4) == damage


@pytest.mark.parametrize(("gone", "kept"), [(1, 8), (4, 8), (5, 4), (12, 0)])
def test_lines_that_were_cut_off_are_missed(journal: Path, gone: int, kept: int) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)[: COUNT - gone]
    journal.write_bytes(b"".join(lines))
    damage = f"lines {kept + 1} to 12: recorded, but only {COUNT - gone} are there"
    assert refused(journal, kept) == damage


def test_lines_that_came_in_are_noticed(journal: Path) -> None:
    """Behind the last block: a run that ended has a digest of every line."""
    edit(journal, b'{"end":true,"count":12}\n', b"")
    made = journal.with_name("more")
    with JournalWriter(made) as writer:
        for index in range(COUNT + 1):
            writer.append(op(index))
    journal.write_bytes(made.read_bytes())
    assert refused(journal, COUNT) == "lines 13 to 13: without digests, although the run ended"


@pytest.mark.parametrize("left", range(BLOCKS + 1))
def test_a_run_killed_before_a_digest_was_written_is_read(journal: Path, left: int) -> None:
    edit(journal, b'{"end":true,"count":12}\n', b"")
    digests = digests_of(journal)
    digests.write_bytes(b"".join(digests.read_bytes().splitlines(keepends=True)[:left]) + b'{"li')
    unchecked = COUNT - left * BLOCK_LINES
    expected = ReadReport(count=COUNT, complete=False, unchecked=unchecked)
    assert read_jsonl(journal) == (OPS, expected)


def test_a_history_without_digests_is_read_and_said_to_be_unchecked(journal: Path) -> None:
    digests_of(journal).unlink()
    edit(journal, b'["send",0,6]', b'["send",0,7]')
    ops, report = read_jsonl(journal)
    assert ops[6].value == [["send", 0, 7]]
    assert report == ReadReport(count=COUNT, complete=True, unchecked=COUNT)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "Input data was truncated"),
        (b'{"lines":8,"digest":"\xff"}', "'utf-8' codec can't decode byte 0xff"),
        (b'{"lines":0,"digest":""}', "Expected `int` >= 1"),
        (encode_block(4, b""), "4 lines, after 4"),
    ],
)
def test_damage_of_the_digests_is_named(journal: Path, line: bytes, why: str) -> None:
    digests = digests_of(journal)
    lines = digests.read_bytes().splitlines(keepends=True)
    digests.write_bytes(lines[0] + line.strip() + b"\n" + lines[2])
    assert refused(journal, kept=4).startswith(f"history.digests: line 2: {why}")


def test_a_deleted_digest_is_noticed(journal: Path) -> None:
    digests = digests_of(journal)
    lines = digests.read_bytes().splitlines(keepends=True)
    digests.write_bytes(lines[0] + lines[2])
    assert refused(journal, kept=4).startswith("lines 5 to 12: not as they were recorded")
