"""Shrinking by real runs: what fails now and then is made smaller, and its rate is said."""

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from maxq.harness.experiments.shrink_real import Journaled, Shrinking, report_of
from maxq.harness.run.replay import NotRepeated
from maxq.harness.schedule.format import Act, Schedule, When
from maxq.harness.schedule.reductions import family

SIGNATURE = "S6/lost-tail"
SCRIPT = Schedule(
    acts=tuple(
        Act(id=id_, f=f, when=When(at=at))
        for at, n in enumerate("abcdefgh")
        for id_, f in ((n, "kill"), (f"{n}.1", "start"))
    )
)


def needs(*names: str, every: int = 1) -> Callable[[Schedule], Collection[str]]:
    """Runs that fail if these faults are there, each so many times only."""
    count = 0

    def perform(script: Schedule) -> Collection[str]:
        nonlocal count
        there = {family(act) for act in script.acts}
        count += set(names) <= there
        return [SIGNATURE] if set(names) <= there and count % every == 0 else ["S13/other"]

    return perform


@pytest.mark.parametrize("every", [1, 2, 3])
def test_what_is_left_is_what_it_needs(every: int) -> None:
    said: list[str] = []
    shrinking = Shrinking(SIGNATURE, needs("b", "g", every=every), budget=200, say=said.append)
    found = shrinking.shrink(SCRIPT)
    assert {family(act) for act in found.script.acts} == {"b", "g"}
    assert (found.before, found.after, found.whole) == (8, 2, True)
    assert found.rate.hits == 3 // every
    assert found.runs == len(said) + 3
    assert said[0] == f"run 1 of at most 200: 8 faults, {SIGNATURE} " + (
        "shown" if every == 1 else "not shown"
    )
    assert "8 faults became 2" in next(report_of(found, SIGNATURE))


def test_a_budget_ends_it_and_the_report_says_so() -> None:
    found = Shrinking(SIGNATURE, needs("b", "g"), budget=9).shrink(SCRIPT)
    assert found.runs == 9 + 3
    assert not found.whole
    assert 2 < found.after < 8
    assert any("budget is used up" in line for line in report_of(found, SIGNATURE))


def test_what_no_run_shows_is_not_shrunk() -> None:
    with pytest.raises(NotRepeated, match="3 runs of the schedule do not show S6/lost-tail"):
        Shrinking(SIGNATURE, needs("nothing of the kind")).shrink(SCRIPT)


def test_what_was_cut_off_goes_on_with_what_its_runs_showed(tmp_path: Path) -> None:
    """Each run of the first is one of the second, and none is made twice."""
    real, made = needs("b", "g"), list[Schedule]()

    def perform(script: Schedule) -> Collection[str]:
        if len(made) == 3:
            made.append(script)
            raise KeyboardInterrupt
        made.append(script)
        return real(script)

    def shrinking() -> Shrinking:
        return Shrinking(SIGNATURE, Journaled(tmp_path / "j", "local", perform), budget=200)

    with pytest.raises(KeyboardInterrupt):
        shrinking().shrink(SCRIPT)
    found = shrinking().shrink(SCRIPT)
    whole = Shrinking(SIGNATURE, needs("b", "g"), budget=200).shrink(SCRIPT)
    assert (found.script, found.runs) == (whole.script, whole.runs)
    assert len(made) == whole.runs + 1, "but for the one that was interrupted"
    elsewhere = Journaled(tmp_path / "j", "docker", lambda _: ["other"])
    assert elsewhere(SCRIPT) == ("other",), "what was shown elsewhere says nothing here"
