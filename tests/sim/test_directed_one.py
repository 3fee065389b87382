"""Each mutant is caught by its own schedule: half of them. The correct reference survives it: a
sample of all, and at night the rest."""

from pathlib import Path

import pytest
from directed import check, check_without

from maxq.reference import mutants


@pytest.mark.parametrize("name", mutants.names()[0::2])
def test_a_schedule_shows_its_mutant(tmp_path: Path, name: str) -> None:
    check(name, tmp_path)


SAMPLE = mutants.names()[1::6]


@pytest.mark.parametrize(
    "name",
    [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.campaign) for n in mutants.names()],
)
def test_a_schedule_shows_nothing_else(tmp_path: Path, name: str) -> None:
    check_without(name, tmp_path)
