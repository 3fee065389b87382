"""What is declared is used, what is used is declared, and the page of dependencies names both."""

import ast
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("harness", "checkers", "histories", "reference", "workloads", "nemeses", "spark_checkers")
BESIDE = ("tests", "benchmarks", "docs")
OURS = ("maxq", "tests", "benchmarks")
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Of the extras, what is a command or a plug-in that nobody imports, with the file that has it.
COMMANDS = {
    "pytest-timeout": "pyproject.toml", "pytest-xdist": "tests/__main__.py",
    "mypy": "tests/__main__.py", "pyarrow-stubs": "pyproject.toml", "ruff": "tests/__main__.py",
    "import-linter": "pyproject.toml", "hatchling": "pyproject.toml",
    "editables": "CONTRIBUTING.md",
}  # fmt: skip
WITHOUT = ("elle-cli",)
IMPORTED_AS = {"toxiproxy-python": "toxiproxy"}  # where that is another name


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[><=\[]", r, maxsplit=1)[0] for r in requirements}


def imported(*folders: str) -> frozenset[str]:
    """Top-level names that are imported, or looked up by name, in these folders."""
    return frozenset[str]().union(*map(imported_in, folders))


@cache
def imported_in(folder: str) -> frozenset[str]:
    """The same of one."""
    found = set[str]()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
                found |= {a.value.partition(".")[0] for a in node.args
                          if isinstance(a, ast.Constant) and isinstance(a.value, str)}  # fmt: skip
    return frozenset(found)


@pytest.mark.parametrize("name", sorted(names(DECLARED["dependencies"])))
def test_what_is_declared_is_used(name: str) -> None:
    assert IMPORTED_AS.get(name, name) in imported(*CODE)


def test_what_is_used_is_declared() -> None:
    extras = DECLARED["optional-dependencies"]
    known = (
        {IMPORTED_AS.get(name, name) for name in names(DECLARED["dependencies"])}
        | names(extras["spark"])
        | names(extras["ssh"])
        | names(extras["transactions"])
        | {"pytest", *OURS}
    )
    assert imported(*CODE) - known - sys.stdlib_module_names == set()


def test_extras_are_used() -> None:
    for extra in DECLARED["optional-dependencies"].values():
        for name in names(extra):
            if name in COMMANDS:
                assert (ROOT / COMMANDS[name]).exists()
            else:
                assert name in imported(*CODE, *BESIDE), name


def test_the_page_names_each_and_what_there_is_not() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text()
    extras = (name for extra in DECLARED["optional-dependencies"].values() for name in names(extra))
    for name in (*names(DECLARED["dependencies"]), *extras, *WITHOUT):
        assert f"`{name}`" in page or (name.startswith("pytest-") and "its plug-ins" in page), name
    assert not set(WITHOUT) & imported(*CODE, *BESIDE)
