"""The table of anomalies is what the sources of the checkers find, and what the page explains."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from maxq import checkers
from maxq.checkers.core.claims import CLAIMS
from maxq.checkers.judgement.names import ANOMALIES, signatures
from maxq.checkers.messages.durability import CLAIMS as OF_DURABILITY
from maxq.checkers.messages.excuses import ALWAYS, WHATEVER, WITHIN

MODELS = {"models", "transactions", "linearizability"}  # know no claims
BASE = Path(checkers.__file__).parent
SOURCES = sorted(p for p in BASE.rglob("*.py") if p.relative_to(BASE).parts[0] not in MODELS)
PAGE = Path(__file__).parents[4] / "docs" / "anomalies.md"
CLAIM, NAME = re.compile(r"[A-Z]\d+[a-z]?"), re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")


def texts(nodes: list[ast.expr]) -> tuple[str, str] | None:
    """The first two of some expressions, if they are text."""
    values = [n.value for n in nodes[:2] if isinstance(n, ast.Constant)]
    return (values[0], values[1]) if [type(v) for v in values] == [str, str] else None  # type: ignore[return-value]


def found_in(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Claim and name of all that is found by a literal, or by a row of a table."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            pair = texts(node.args) if node.func.id == "Found" else None
        else:
            pair = texts(node.elts) if isinstance(node, ast.Tuple) else None
        if pair is not None and CLAIM.fullmatch(pair[0]) and NAME.fullmatch(pair[1]):
            yield pair


def unnamed_in(tree: ast.AST) -> int:
    """How many findings take their names from somewhere else."""
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    found = [c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "Found"]
    return sum(texts(call.args) is None for call in found)


def test_the_table_has_what_the_sources_find_and_nothing_else() -> None:
    trees = [(path.stem, ast.parse(path.read_text())) for path in SOURCES]
    found = {pair for _, tree in trees for pair in found_in(tree)}
    found |= {(claim, name) for name, claim in OF_DURABILITY.items()}
    found |= {("S15", name) for name in ("node-ended", "node-does-not-start")}
    assert found == {(claim, name) for name, claim in ANOMALIES.items()}
    unnamed = {name for name, tree in trees if unnamed_in(tree)}
    tables = {"durability", "epochs", "processes", "container_answers"}
    assert unnamed <= tables, "by tables, by pairs, and one of two names"


def test_the_page_explains_each_with_its_claim() -> None:
    rows = [row for row in PAGE.read_text().splitlines() if row.startswith("| `")]
    explained: dict[str, str] = {}
    for row in rows:
        first, *_, claim = (cell.strip() for cell in row.strip("|").split("|"))
        explained |= {name: claim for name in re.findall(r"`([^`]+)`", first) if claim}
    assert explained == ANOMALIES


def test_each_claim_that_is_made_can_be_seen_broken() -> None:
    assert {*ANOMALIES.values(), WHATEVER} == {claim.id for claim in CLAIMS}
    assert len(set(signatures())) == len(ANOMALIES) + len(ALWAYS | WITHIN)
    assert OF_DURABILITY.keys() >= ALWAYS | WITHIN
    assert "S6/lost-tail" in signatures()
