"""What is measured is right: made columns are legal, and judged as such."""

import pytest

from benchmarks.corpus import Expected, expected
from benchmarks.models import GOALS, KINDS, measured


@pytest.mark.parametrize("kind", [k for k in KINDS if not k.startswith(("search", "kv"))])
def test_made_columns_are_legal(kind: str) -> None:
    assert {goal.kind for goal in GOALS} == set(KINDS)
    valid = measured(kind, 1000).valid
    assert valid is True


@pytest.mark.parametrize(
    ("verdict", "wanted"),
    [
        ("linearizable", [Expected("", (True,))]),
        ("invalid: G-single-item (same)", [Expected("", (False,))]),
        ("invalid: not strong-snapshot-isolation (10k)",
         [Expected("strong-snapshot-isolation", (False,))]),
        ("valid; NB a check may call it invalid", [Expected("", (True, False))]),
        ("violates causal and read-atomic; satisfies read-committed",
         [Expected("causal", (False,)), Expected("read-atomic", (False,)),
          Expected("read-committed", (True,))]),
        ("violates serializability", [Expected("serializable", (False,))]),
        ("nobody knows", []),
    ],
)  # fmt: skip
def test_a_documented_verdict_is_read(verdict: str, wanted: list[Expected]) -> None:
    assert expected(verdict) == wanted
