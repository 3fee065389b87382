"""Scenarios of what is kept: when one is shown, and what is lacking."""

from pathlib import Path

import pytest

from maxq.checkers.core.api import ClaimVerdict, Status, Stretch, Valid, Verdict
from maxq.checkers.core.claims import BY_ID
from maxq.checkers.judgement.runner import Results
from maxq.harness.experiments.scenarios.kept_scenario import (
    gaps,
    kept_scenario_of,
    misses,
    names,
)
from maxq.harness.experiments.scenarios.scenario import scenario_of
from maxq.harness.run.judging import every_checker
from maxq.harness.schedule.format import Header, Keeps, Schedule, ScheduleError, encode

KEEPS = Keeps(claims=("A1", "P1"), counts={"failovers:returned": 2})


def results(valid: Valid, statuses: dict[str, Status], returned: int) -> Results:
    said = tuple(ClaimVerdict(claim=c, status=s) for c, s in statuses.items())
    verdict = Verdict(checker="failovers", claim_verdicts=said, counts={"returned": returned})
    return Results(valid=valid, verdicts=(verdict,))


def test_what_was_looked_at_often_enough_and_kept_lacks_nothing() -> None:
    assert not [*misses(KEEPS, results(True, {"A1": "kept", "P1": "kept"}, 2))]


@pytest.mark.parametrize(
    ("valid", "statuses", "returned", "said"),
    [
        (True, {"A1": "kept", "P1": "kept"}, 1, "failovers:returned: 1, at least 2"),
        (True, {"A1": "kept", "P1": "no occasion"}, 2, "P1 ("),
        (True, {"A1": "kept"}, 2, "not looked at"),
        (False, {"A1": "broken", "P1": "kept"}, 2, "broken: A1"),
        (False, {"A1": "kept", "P1": "kept", "S6": "broken"}, 2, "broken: S6"),
    ],
)
def test_what_lacks_is_said(
    valid: Valid, statuses: dict[str, Status], returned: int, said: str
) -> None:
    [missing] = misses(KEEPS, results(valid, statuses, returned))
    assert said in missing


def silent(of_set: str, seconds: int) -> Stretch:
    return Stretch(
        f="send", set=of_set, from_ns=0, until_ns=seconds * 1_000_000_000, first=0, last=1,
        failed=1, answers=(),
    )  # fmt: skip


def test_the_longest_gap_of_each_client_stands_beside_its_bound() -> None:
    verdict = Verdict(checker="answers", stretches=(silent("b0", 9), silent("b1", 5)))
    found = Results(valid=True, verdicts=(verdict,))
    keeps = Keeps(claims=(), gaps={"send b0": 9, "send b1": 4, "send": 8, "poll b1": 1})
    assert [*misses(keeps, found)] == [
        "send b1: 5.0 s without success, at most 4 s are allowed",
        "send: 9.0 s without success, at most 8 s are allowed",
    ]
    assert [line.split()[-6:] for line in gaps(keeps, found)][-1] == [
        "under", "1", "s,", "bound", "1", "s",
    ]  # fmt: skip


def test_those_that_come_with_it_name_claims_and_counts_that_there_are() -> None:
    checkers = {checker.name for checker in every_checker()}
    assert names()
    for name in names():
        one = kept_scenario_of(name)
        assert one is not None
        assert one.keeps.claims
        assert set(one.keeps.claims) <= set(BY_ID)
        assert {count.partition(":")[0] for count in one.keeps.counts} <= checkers


def test_one_of_a_claim_that_there_is_not_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_bytes(encode(Schedule(header=Header(keeps=Keeps(claims=("Z9",))))))
    with pytest.raises(ScheduleError, match="no claim 'Z9'"):
        kept_scenario_of(str(path))


def test_a_known_bug_is_none_of_these() -> None:
    assert kept_scenario_of("return_after_pull") is None
    assert kept_scenario_of("no-such-scenario") is None


@pytest.mark.parametrize(
    ("name", "said"),
    [("pair_fail_over", "shows what is kept"), ("pair_fail_ovr", "did you mean 'pair_fail_over'")],
)
def test_who_looks_for_a_known_bug_is_answered_by_name(name: str, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        scenario_of(name)
