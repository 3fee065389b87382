"""Readers of histories spell out no names of acts: the table of facts has them.

A second list lacks the next kind of fault. A module that refers to one act imports its name from
the table. Modules that perform or draw acts have their own names, and so has the command line,
whose faults (`--nemesis kill`) are packages of acts.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxq.histories.fault_facts import BUILT_IN_FACTS

ROOT = Path(__file__).parent.parent.parent
TABLES = {ROOT / "histories" / name for name in ("fault_facts.py", "aliases.py")}
ACTS = {f for facts in BUILT_IN_FACTS for f in (facts.strikes, *facts.heals)}
# Common words, which name fields of values as well.
FIELDS = {"start", "restart"}
# Of the harness: who performs acts, draws them, or is asked for packages of them.
PERFORMS = (
    "harness/cli",
    "harness/cluster",
    "harness/contracts/environment.py",
    "harness/environments",
    "harness/experiments/campaign.py",
    "harness/experiments/crash_points",
    "harness/experiments/upgrade/plans.py",
    "harness/python_api",
    "harness/sampling",
    "harness/schedule/options.py",
    "harness/simulation",
    "harness/targets",
)
READERS = sorted(
    path
    for package in ("checkers", "histories", "spark_checkers", "harness")
    for path in (ROOT / package).rglob("*.py")
    if path not in TABLES and not path.relative_to(ROOT).as_posix().startswith(PERFORMS)
)


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and value of each string that may name an act: none of the names of fields."""
    fields: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Dict(keys=keys) | ast.MatchMapping(keys=keys):
                fields |= {id(key) for key in keys if key is not None}
            case ast.Subscript(slice=key) | ast.keyword(arg="class_", value=key):
                fields.add(id(key))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if not (node.value in FIELDS and id(node) in fields):
            yield node.lineno, node.value


def named(path: Path) -> list[str]:
    """Where a module names acts: file, line and name."""
    where = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
    found = strings(ast.parse(path.read_text()))
    return [f"{where}:{line}: {value!r}" for line, value in found if value in ACTS]


@pytest.mark.parametrize("path", READERS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_reader_names_no_act(path: Path) -> None:
    assert not named(path), "import the name from histories/fault_facts.py, or ask its table"


def test_every_place_where_an_act_is_named_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""Says kill."""\n'
        'A = {"kill": "start"}\n'
        'B = row["start"], {"start": 1}, el(class_="start")\n'
        'C = f == "start-partition"\n'
        'D = row["kill"], {"pause": 1}\n'
    )
    assert named(module) == [
        "module.py:2: 'kill'",
        "module.py:2: 'start'",
        "module.py:4: 'start-partition'",
        "module.py:5: 'kill'",
        "module.py:5: 'pause'",
    ]
