"""Complete before valid: whatever is missing in a history, no verdict gets better by it.

In small; ``python -m benchmarks.completeness`` tries every cut and every answer, of more histories.
"""

from collections.abc import Mapping

import pytest

from benchmarks.completeness import (
    HISTORIES,
    LOCKING,
    answers_of,
    cuts_of,
    mixes_of,
    try_answers,
    try_cuts,
    try_grounds,
    try_mixes,
    unanswered,
    without,
)
from benchmarks.recording import Recorded, record
from maxq.checkers.core.api import Valid
from maxq.histories.grounds import KINDS, declared
from maxq.histories.history import wellformed

LAST, SAMPLED, ANSWERS, MIXES = 40, 15, 30, 8
# What each history is there for: its verdict, and claims of it with what must have become of them.
WANTED: dict[str, tuple[Valid, dict[str, str]]] = {
    "valid": (True, {"S6": "kept", "S7": "kept", "S13": "kept"}),
    "losses": (False, {"S6": "broken", "S9": "broken", "S13": "kept"}),
    "locks": (True, {"L1": "kept", "L2": "kept"}),
    "places": (True, {"O1": "kept"}),
    "measured": (True, {"S6": "not promised", "S16": "kept"}),
}
NAMES = sorted(WANTED)


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, Recorded]:
    return {name: record(HISTORIES[name]) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_the_histories_are_what_they_are_there_for(
    recorded: Mapping[str, Recorded], name: str
) -> None:
    results = recorded[name].judged()
    valid, claims = WANTED[name]
    assert results.valid == valid
    assert {c: results.claims[c].status for c in claims} == claims
    assert bool(results.measured) == (name == "measured")


def test_every_kind_of_ground_is_declared(recorded: Mapping[str, Recorded]) -> None:
    grounds = {g[0] for r in recorded.values() for g in declared(r.history.ops[0])}
    assert grounds == set(KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_a_history_that_is_cut_is_never_valid(recorded: Mapping[str, Recorded], name: str) -> None:
    lengths = cuts_of(recorded[name].history, last=LAST, sampled=SAMPLED)
    assert list(try_cuts(recorded[name], lengths)) == []


@pytest.mark.parametrize("name", NAMES)
def test_without_a_ground_nothing_is_kept_that_rests_on_it(
    recorded: Mapping[str, Recorded], name: str
) -> None:
    tried, wrong = try_grounds(recorded[name])
    assert tried > 10
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_that_is_lost_makes_no_verdict_better_and_no_valid_one_invalid(
    recorded: Mapping[str, Recorded], name: str
) -> None:
    chosen = answers_of(recorded[name].history, ANSWERS)
    assert len(chosen) == ANSWERS
    assert list(try_answers(recorded[name], chosen)) == []


@pytest.mark.parametrize("name", NAMES)
def test_many_answers_that_are_lost_accuse_nobody(
    recorded: Mapping[str, Recorded], name: str
) -> None:
    mixes = mixes_of(recorded[name].history, MIXES)
    assert list(try_mixes(recorded[name], mixes)) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_is_a_history_that_could_have_been(
    recorded: Mapping[str, Recorded], name: str
) -> None:
    history = recorded[name].history
    chosen = answers_of(history, ANSWERS)
    less = unanswered(history, chosen)
    assert [op.index for op in less.ops] == [op.index for op in history.ops]
    assert all(less[index].type == "info" for index in chosen)
    held = {b.index for b in wellformed(less)} - {op.index for op in less if op.f in LOCKING}
    assert not held, "who locks keeps his name, all others are retired"
    assert len(without(history, chosen)) == len(history) - 2 * len(chosen)
    assert wellformed(without(history, chosen)) == []
