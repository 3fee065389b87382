"""Journals of long work: what is read back, and what becomes of a line that a crash cut off."""

from pathlib import Path

import msgspec
import pytest

from maxq.harness.experiments.journal import resumed


class Line(msgspec.Struct, frozen=True):
    n: int
    text: str = ""


WHOLE = b'{"n":1}\n{"n":2}\n'


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert resumed(tmp_path / "j.jsonl", Line) == []
    assert not (tmp_path / "j.jsonl").exists()


@pytest.mark.parametrize(
    "torn",
    [
        b"",
        b'{"n"',
        b'{"n":3}',
        b"\xff",
        b'{"m":3}\n{"n":4}\n',
        b'{"n":3,"text":"\xff"}\n',
    ],
)
def test_half_a_line_is_cut_off_so_that_the_next_one_is_whole(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "j.jsonl"
    path.write_bytes(WHOLE + torn)
    assert resumed(path, Line) == [Line(1), Line(2)]
    with path.open("ab") as journal:
        journal.write(b'{"n":5}\n')
    assert resumed(path, Line) == [Line(1), Line(2), Line(5)]
