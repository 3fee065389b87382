"""docs/security.md: what it says of the reference has tests, and its figures are the code's."""

import ast
import re
from pathlib import Path

import pytest

from maxq.reference import bounds, rpc, settings
from maxq.reference.broker.messages import pull
from maxq.reference.broker.replication import ha_master
from maxq.reference.namesrv import kv
from maxq.reference.wire import frame

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
ROWS = [line for line in PAGE.splitlines() if re.match(r"\|[^|-]", line) and "Shown by" not in line]
UNITS = {"MiB": 1 << 20, "KiB": 1 << 10, "s": 1, "ms": 1}
FIGURES = {
    name: value
    for module in (frame, bounds, rpc, pull, ha_master, kv, settings)
    for name, value in vars(module).items()
}
BOUND = re.compile(r"\| (\d+)(?: (\w+))? \| `(\w+)` \|")


def names_of_tests() -> set[str]:
    return {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_each_statement_names_a_test_that_there_is() -> None:
    known = names_of_tests()
    assert len(ROWS) >= 20
    for row in ROWS:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= known, row


@pytest.mark.parametrize(("number", "unit", "name"), BOUND.findall(PAGE))
def test_figures_are_those_of_the_code(number: str, unit: str, name: str) -> None:
    assert FIGURES[name] == int(number) * UNITS.get(unit, 1)


def test_there_are_figures() -> None:
    """So that a change of the table's form is seen."""
    assert len(BOUND.findall(PAGE)) >= 9
