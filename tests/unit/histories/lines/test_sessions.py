"""Texts of transactions of which only the order of each session is known."""

from pathlib import Path

import pytest

from maxq.histories.lines.foreign import format_of
from maxq.histories.lines.sessions import SESSIONS, read_awdit, read_plume
from maxq.histories.op import HistoryError

AWDIT = "w 0 1\nw 1 1\n-----\nr 1 2\n=====\nr 0 1\nw 1 2"
PLUME = "w(0,1,0,0)\nw(1,1,0,0)\nr(0,1,1,2)\nr(1,2,0,1)\nw(1,2,1,2)\n"


def test_both_give_the_same_transactions(tmp_path: Path) -> None:
    one, other = tmp_path / "a.txt", tmp_path / "p.txt"
    one.write_text(AWDIT)
    other.write_text(PLUME)
    assert format_of(AWDIT.encode()) == "awdit"
    assert format_of(PLUME.encode()) == "plume"
    ops = read_awdit(one)
    assert [op.index for op in ops] == list(range(6))
    assert [(op.process, op.value) for op in ops if op.type == "ok"] == [
        (0, [["w", 0, 1], ["w", 1, 1]]),
        (0, [["r", 1, 2]]),
        (1, [["r", 0, 1], ["w", 1, 2]]),
    ]
    assert all((op.ext or {}).get(SESSIONS) for op in ops if op.type == "invoke")
    assert [op.value for op in ops if op.type == "invoke"][1] == [["r", 1, None]]
    found = {(op.process, str(op.value)) for op in read_plume(other)}
    assert found == {(op.process, str(op.value)) for op in ops}


@pytest.mark.parametrize(
    "text", ["w 0 1\nx 0 1\n", "w 0 1\n--\n", "w 0 1 2\n", "w 0 99999999999999999999"]
)
def test_a_line_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text)
    with pytest.raises(HistoryError, match=r"a\.txt: line [12]: .* is not"):
        read_awdit(path)


@pytest.mark.parametrize("text", ["w(1,2,3)\n", "w(1,2,-1,0)\n", "r(1,2,0,0) w(1,2,0,0)\n"])
def test_a_line_of_plume_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.txt"
    path.write_text(text)
    with pytest.raises(HistoryError, match=r"p\.txt: line 1: .* is not"):
        read_plume(path)


@pytest.mark.parametrize("head", [b"w", b"r 1", b"w one 1\n", b"write 0 1\n", b"r(1,2)\n"])
def test_what_is_neither_is_not_taken_for_one(head: bytes) -> None:
    assert format_of(head) == ""
