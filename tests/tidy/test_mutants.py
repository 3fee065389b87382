"""Mutants say where they belong, and each has a schedule that shows it."""

from collections import Counter
from pathlib import Path

import pytest

from maxq.checkers.core.claims import CLAIMS
from maxq.harness.schedule.format import read
from maxq.reference import mutants

DIRECTED = Path(__file__).parents[2] / "harness" / "schedule" / "directed"
FAMILY_MIN, MUTANTS_MIN = 5, 40


def test_there_are_enough_in_each_family() -> None:
    families = Counter(mutants.about(name).family for name in mutants.names())
    assert families.keys() == set(mutants.FAMILIES)
    assert min(families.values()) >= FAMILY_MIN
    assert families.total() >= MUTANTS_MIN


@pytest.mark.parametrize("name", mutants.names())
def test_a_mutant_says_what_it_is(name: str) -> None:
    about = mutants.about(name)
    assert about.name == name
    assert about.source
    assert len(about.story.splitlines()) > 1
    owner = {c.id: c for c in CLAIMS}
    assert about.claim in owner
    assert name in owner[about.claim].mutants
    assert about.claim in about.story


def test_claims_name_no_mutant_that_is_none() -> None:
    assert {m for claim in CLAIMS for m in claim.mutants} == set(mutants.names())


def test_each_schedule_is_of_a_mutant_and_each_mutant_has_one() -> None:
    assert sorted(p.stem for p in DIRECTED.iterdir()) == mutants.names()


@pytest.mark.parametrize("name", mutants.names())
def test_a_schedule_is_short_and_says_what_happens(name: str) -> None:
    header = read(DIRECTED / f"{name}.jsonl").header
    assert header.name
    assert header.length <= 60


def test_a_mutant_whose_code_has_moved_is_no_mutant() -> None:
    with pytest.raises(AttributeError), mutants.replaced(Counter, "no_such_thing", None):
        pass


def test_each_trace_is_told_once_and_nobody_need_listen() -> None:
    told: list[tuple[str, str]] = []
    mutants.ran("maxq.reference.mutants.x")
    with mutants.heard(lambda name, level: told.append((name, level))):
        for _ in range(2):
            mutants.ran("maxq.reference.mutants.x")
            mutants.diverged("maxq.reference.mutants.x")
    mutants.diverged("maxq.reference.mutants.x")
    assert told == [("x", "ran"), ("x", "diverged")]
