"""Histories as people have them get the verdicts that tests/foreign documents."""

from pathlib import Path

import pytest

from benchmarks.corpus import Expected, Listed, answered, expected, listed

ROOT = Path(__file__).parents[2] / "foreign"
ROWS = [*listed(ROOT)]


@pytest.mark.parametrize("one", ROWS, ids=[f"{r.path.name} {r.model}" for r in ROWS])
def test_it_is_judged_as_it_was_meant(one: Listed) -> None:
    (wanted,) = expected(one.verdict)
    found = answered(one, wanted, "30s,1GB")
    assert found.agrees, found


def test_each_file_has_a_row_and_each_row_its_file() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert sum(line.startswith("| ") and "| verdict |" not in line for line in lines) == len(ROWS)
    files = {path for folder in ROOT.iterdir() if folder.is_dir() for path in folder.iterdir()}
    assert {row.path for row in ROWS} == files


@pytest.mark.parametrize(
    ("verdict", "wanted"),
    [
        ("linearizable", [Expected("", ("valid",))]),
        ("invalid: G-single-item (same)", [Expected("", ("invalid",))]),
        ("unknown: `written twice`", [Expected("", ("unknown",), "written twice")]),
        ("invalid: not strong-snapshot-isolation (10k)",
         [Expected("strong-snapshot-isolation", ("invalid",))]),
        ("valid; NB a check may call it invalid", [Expected("", ("valid", "invalid"))]),
        ("violates causal and read-atomic; satisfies read-committed",
         [Expected("causal", ("invalid",)), Expected("read-atomic", ("invalid",)),
          Expected("read-committed", ("valid",))]),
        ("violates serializability", [Expected("serializable", ("invalid",))]),
        ("nobody knows", []),
    ],
)  # fmt: skip
def test_a_documented_verdict_is_read(verdict: str, wanted: list[Expected]) -> None:
    assert expected(verdict) == wanted
