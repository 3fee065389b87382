"""Each mutant is caught by its own schedule: the other half of them."""

from pathlib import Path

import pytest
from directed import check

from maxq.reference import mutants


@pytest.mark.parametrize("name", mutants.names()[1::2])
def test_a_schedule_shows_its_mutant(tmp_path: Path, name: str) -> None:
    check(name, tmp_path)
