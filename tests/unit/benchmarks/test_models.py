"""What is measured is right: made columns are legal, and judged as such."""

import pytest

from benchmarks.models import GOALS, KINDS, measured


@pytest.mark.parametrize("kind", [k for k in KINDS if not k.startswith(("search", "kv"))])
def test_made_columns_are_legal(kind: str) -> None:
    assert {goal.kind for goal in GOALS} == set(KINDS)
    valid = measured(kind, 1000).valid
    assert valid is True
