"""The table of claims about pairs: every row has a checker or a reason, and says what runs said."""

from pathlib import Path

import msgspec

from benchmarks import pair_claims
from benchmarks.pair_claims import REASONS, ROWS, Line, cell, noted, page, told
from maxq.checkers.core.claims import BY_ID

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "pair-claims.md").read_text() == page(pair_claims.known())


def test_what_is_not_judged_says_why() -> None:
    assert set(ROWS) - BY_ID.keys() == REASONS.keys()
    text = page([])
    for claim in ROWS:
        [row] = [line for line in text.splitlines() if line.startswith(f"| {claim} |")]
        assert ("not judged: " in row) is (claim not in BY_ID)
        assert all(f"`{m}`" in row for m in (BY_ID[claim].mutants if claim in BY_ID else ()))


def test_runs_of_a_store_are_noted_by_column_without_those_of_mutants(tmp_path: Path) -> None:
    def stored(name: str, claims: dict[str, str], **options: object) -> None:
        folder = tmp_path / name
        folder.mkdir()
        asked = {"environment": "local", "controllers": 0, **options}
        (folder / "config.json").write_bytes(
            msgspec.json.encode({"options": asked, "repeat": name})
        )
        (folder / "results.json").write_bytes(msgspec.json.encode({"claims": claims}))

    stored("a", {"N9": "kept", "S6": "kept", "N13": "kept"})
    stored("b", {"N9": "broken"})
    stored("c", {"N9": "broken"}, mutant="registers_with_one")
    stored("d", {"N9": "kept", "N13": "kept"}, controllers=3)
    stored("e", {"N9": "no occasion"}, target="rocketmq:5.5.0")
    folder = tmp_path / "simulated" / "reference-pairs"
    folder.mkdir(parents=True)
    seed = {"seed": 7, "valid": True, "claims": {"N9": "kept"}}
    (folder / "journal.jsonl").write_bytes(msgspec.json.encode(seed) + b"\n")
    java, local, simulated = noted(told(tmp_path), "2026-01-01")
    assert (java.column, java.targets) == ("java", ("rocketmq:5.5.0",))
    assert local.claims == {"N9": {"broken": 1, "kept": 1}, "N13": {"kept": 1}}
    assert (local.runs, local.repeat) == (3, "a")
    assert simulated.repeat == "maxq simulate --mode pair --seeds 7..7"
    assert simulated.claims == {"N9": {"kept": 1}}


def line(**statuses: int) -> Line:
    said = {status.replace("_", " "): n for status, n in statuses.items()}
    return Line(column="local", day="", runs=1, targets=(), repeat="", claims={"N9": said})


def test_a_cell_is_of_the_last_runs_that_judged_the_claim() -> None:
    assert cell("N9", "local", []) == "-"
    assert cell("N9", "docker", [line(kept=1)]) == "-"
    assert cell("N9", "local", [line(kept=3, no_occasion=9)]) == "kept in 3"
    assert cell("N9", "local", [line(kept=3), line(no_occasion=2)]) == "kept in 3"
    assert cell("N9", "local", [line(kept=3), line(kept=4, broken=1)]) == "**broken in 1 of 5**"
    assert cell("N9", "local", [line(no_occasion=2)]) == "not covered"
