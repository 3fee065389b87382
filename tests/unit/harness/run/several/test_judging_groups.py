"""How many runs are judged together, and that lost ones come to nothing in their place."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from maxq.harness.run.several import judging
from maxq.harness.run.several.judging import Open, Stored, judged_each
from maxq.histories.op import HistoryError


class Judge:
    """Says of each run its name; the names of those that it was asked for together, and of those
    that cannot be read in any way."""

    def __init__(self, *unreadable: str) -> None:
        self.groups: list[list[str]] = []
        self.open: set[str] = set()
        self.again: list[str] = []
        self._unreadable = unreadable

    def __call__(self, asked: Sequence[Any]) -> Sequence[Any]:
        self.groups.append([*asked])
        assert self.open == {*asked}
        if wrong := [name for name in asked if name in self._unreadable]:
            raise HistoryError(f"rows of {wrong[0]}")
        return asked

    def run(self, name: str, events: int = 1, lost: str = "") -> Stored:
        @contextmanager
        def opened(again: bool) -> Iterator[Open]:
            self.again += [name] if again else []
            self.open.add(name)
            asked: Any = name
            try:
                yield Open(asked, lambda found: found)  # type: ignore[arg-type,return-value]
            finally:
                self.open.remove(name)

        return Stored(name, Path(name), opened, events, lost=lost)


def found(runs: Sequence[Stored], judge: Judge, at_a_time: int) -> list[tuple[str, Any]]:
    return [(run.id, verdict) for run, verdict in judged_each(runs, judge, at_a_time)]


@pytest.mark.parametrize(
    ("at_a_time", "most", "groups"),
    [
        (1, 100, ["a", "b", "c", "d"]),
        (3, 100, ["abc", "d"]),
        (9, 100, ["abcd"]),
        (9, 5, ["a", "bc", "d"]),
        (9, 0, ["a", "b", "c", "d"]),
    ],
)
def test_runs_are_judged_by_number_and_by_events(
    at_a_time: int, most: int, groups: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "EVENTS_MAX", most)
    judge = Judge()
    runs = [judge.run(name, events) for name, events in zip("abcd", (9, 2, 3, 1), strict=True)]

    assert found(runs, judge, at_a_time) == [(name, name) for name in "abcd"]
    assert judge.groups == [[*group] for group in groups]


def test_lost_runs_come_to_nothing_in_their_place() -> None:
    judge = Judge()
    lost = {"a", "c", "d"}
    runs = [judge.run(name, lost="gone" if name in lost else "") for name in "abcde"]
    expected = [(name, None if name in lost else name) for name in "abcde"]
    assert found(runs, judge, 2) == expected
    assert judge.groups == [["b", "e"]]


def test_where_one_of_a_group_cannot_be_read_each_is_tried_and_that_one_named() -> None:
    judge = Judge("b")
    runs = [judge.run(name) for name in "abc"]
    with pytest.raises(HistoryError, match=r"^b: rows of b$"):
        found(runs, judge, 3)
    assert judge.groups == [["a", "b", "c"], ["a"], ["b"]]
    assert judge.again == ["a", "b"]
