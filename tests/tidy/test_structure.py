"""The shape of the tree: no circle of imports among files or packages, and rooms of a size."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "reference", "harness", "nemeses", "checkers", "workloads", "histories", "spark_checkers",
)  # fmt: skip
SIDE_BY_SIDE_MAX = 15
LISTS = frozenset(("maxq.reference.mutants",))  # of independent entries, each a module


def module_of(path: Path) -> str:
    """The name that it is imported by."""
    parts = ("maxq", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> Mapping[str, Path]:
    return {module_of(p): p for package in PACKAGES for p in (ROOT / package).rglob("*.py")}


def imported(path: Path) -> Iterator[str]:
    """Modules of ours that a file imports, also below `TYPE_CHECKING` and inside of functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def imports() -> Mapping[str, frozenset[str]]:
    known = modules()
    return {
        name: frozenset(i for i in imported(path) if i in known and i != name)
        for name, path in known.items()
    }


def circle(graph: Mapping[str, set[str] | frozenset[str]]) -> list[str]:
    """One circle, as a way back to where it begins; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def among_children(package: str, graph: Mapping[str, frozenset[str]]) -> dict[str, set[str]]:
    """Who imports whom among the modules and packages of a package, with all that is inside."""

    def child(name: str) -> str | None:
        if package == "maxq":  # faults and workloads lie between floors of the harness
            return ".".join(name.split(".")[: 3 if name.startswith("maxq.harness.") else 2])
        inside = name.startswith(f"{package}.")
        return ".".join(name.split(".")[: package.count(".") + 2]) if inside else None

    found: dict[str, set[str]] = defaultdict(set)
    for name, targets in graph.items():
        for target in targets:
            one, other = child(name), child(target)
            if one and other and one != other:
                found[one].add(other)
    return found


def test_no_files_import_each_other_in_a_circle() -> None:
    assert circle(imports()) == []


def test_our_modules_are_imported_below_one_name() -> None:
    """By its folder's name a module would be there twice, and so would its state."""
    files = {
        p for top in (*PACKAGES, "tests", "benchmarks", "docs") for p in (ROOT / top).rglob("*.py")
    }
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in imported(path)
        if name.partition(".")[0] in PACKAGES
    ]
    assert wrong == []
    assert {p.name for p in (ROOT / "maxq").iterdir() if p.is_symlink()} == set(PACKAGES)


@pytest.mark.parametrize("package", sorted({m.rpartition(".")[0] for m in modules()} - {""}))
def test_no_packages_import_each_other_in_a_circle(package: str) -> None:
    assert circle(among_children(package, imports())) == []


def test_a_circle_would_be_found() -> None:
    graph = {"a.x.one": frozenset(["a.y.two"]), "a.y.three": frozenset(["a.x.four"])}
    assert circle(graph) == []
    assert set(circle(among_children("a", graph))) == {"a.x", "a.y"}


def test_few_modules_lie_side_by_side() -> None:
    count = Counter(
        name.rpartition(".")[0] for name, path in modules().items() if path.name != "__init__.py"
    )
    crowded = {p: n for p, n in count.items() if n > SIDE_BY_SIDE_MAX and p not in LISTS}
    assert crowded == {}
    assert count["maxq.reference.mutants"] > SIDE_BY_SIDE_MAX, "an exception that nobody needs"


UNIT = ROOT / "tests" / "unit"


@pytest.mark.parametrize(
    "path", sorted(UNIT.rglob("test_*.py")), ids=lambda p: str(p.relative_to(UNIT))
)
def test_unit_tests_lie_where_what_they_test_lies(path: Path) -> None:
    """The folder mirrors a package, and the name begins with a module of that package."""
    folder = ROOT / path.parent.relative_to(UNIT)
    tested = [p.stem for p in folder.glob("*.py") if path.stem.startswith(f"test_{p.stem}")]
    assert tested, f"no module of {folder.relative_to(ROOT)} begins the name of this file"


ARCHITECTURE = ROOT / "docs" / "architecture.md"
# Questions that a newcomer asked and did not find by file names.
ASKED = (
    "a send acknowledged", "*lost* decided", "a profile", "an election", "an ISR",
    "a log truncated",
    "a fault drawn", "its victim chosen", "a cut proven", "a fault's colour", "a run judged",
    "an environment chosen", "a history read",
)  # fmt: skip


def answers() -> dict[str, str]:
    """The rows of "Where is": what is asked, and where it is."""
    text = ARCHITECTURE.read_text().partition("## Where is")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| ")]
    return {question.strip(): answer.strip() for question, answer in rows[1:]}


def test_where_things_are_is_answered_by_files_and_names_in_them() -> None:
    found = answers()
    assert len(found) >= 20
    for asked in ASKED:
        assert any(question.startswith(asked) for question in found), asked
    for question, answer in found.items():
        for file, name in re.findall(r"`([a-z_/]+\.py)`(?:: `(\w+)`)?", answer):
            assert (ROOT / file).is_file(), f"{question}: {file}"
            defined = rf"^(?:class |def |async def ){name}\b|^{name}\b.* = "
            assert not name or re.search(defined, (ROOT / file).read_text(), re.MULTILINE), answer
