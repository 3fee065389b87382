"""Rules that a machine can check: sizes, docstrings, names, no paths of one machine."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = (
    "reference", "harness", "nemeses", "checkers", "workloads", "histories", "spark_checkers",
    "tests", "benchmarks",
)  # fmt: skip
MODULES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
LINES_MAX, LINES_NEED_REASON, FUNCTION_LINES_MAX = 800, 600, 60
TOP_LEVEL = {
    "maxq", "pyproject.toml", "reference", "harness", "nemeses", "checkers", "workloads", "docker",
    "histories", "spark_checkers", "README.md",
}  # fmt: skip


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_are_of_a_size_and_say_what_they_are_for(path: Path) -> None:
    text = path.read_text()
    if not text:
        return  # an empty __init__
    tree = ast.parse(text)
    lines = text.count("\n")
    assert lines <= LINES_MAX
    docstring = ast.get_docstring(tree)
    assert docstring, "a module opens by saying what it is for"
    assert lines <= LINES_NEED_REASON or "long" in docstring, "over 600 lines need a reason"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", [m for m in MODULES if "tests" not in m.parts], ids=name_of)
def test_public_things_have_docstrings(path: Path) -> None:
    for node in ast.parse(path.read_text() or "pass").body:
        public = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if public and not node.name.startswith("_") and node.name != "main":  # type: ignore[attr-defined]
            assert ast.get_docstring(node), f"{node.name} has no docstring"  # type: ignore[arg-type,attr-defined]


def test_inits_are_empty_or_say_why_not() -> None:
    for path in MODULES:
        if path.name == "__init__.py" and path.read_text():
            assert ast.get_docstring(ast.parse(path.read_text())), name_of(path)


def test_no_merge_is_left_undecided() -> None:
    marks = ("<" * 7 + " ", ">" * 7 + " ")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            text = path.read_text(errors="replace")
            assert not [line for line in text.splitlines() if line.startswith(marks)], name


def test_the_top_level_is_fixed() -> None:
    for name in TOP_LEVEL:
        assert (ROOT / name).exists(), name
    assert not (ROOT / "docker" / "__init__.py").exists(), "it would shadow the docker SDK"


def test_test_files_have_names_of_their_own() -> None:
    """Tests are no packages, so pytest imports them by their bare names."""
    names = [p.name for p in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))


def tracked() -> list[Path]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("no git checkout: the tracked files are not known")
    return [ROOT / line for line in done.stdout.splitlines()]


def test_no_file_names_a_machine_or_a_registry() -> None:
    """Nothing of the machine that it was written on gets into a commit."""
    # Put together so that this file does not hold what it looks for.
    wrong = re.compile("|".join(["/wo" + "rk/", "/ro" + r"ot/\.", "/tmp/" + "bash_jobs",
                                 "https?://[^ ]*(py" + "pi|mav" + "en|prox" + "y)"]))  # fmt: skip
    for path in tracked():
        if path.suffix in (".py", ".md", ".toml", ".txt", ".java", ".xml", "") and path.is_file():
            found = wrong.search(path.read_text(errors="replace"))
            assert found is None, f"{name_of(path)}: {found}"


FILES = [
    ("constraints.txt", 20), ("constraints-spark.txt", 1), ("constraints-transactions.txt", 0),
    ("constraints-benchmarks.txt", 2), ("constraints-docs.txt", 20), ("constraints-ssh.txt", 5),
]  # fmt: skip


@pytest.mark.parametrize(("file", "least"), FILES)
def test_pins_have_hashes_and_no_hosts(file: str, least: int) -> None:
    text = (ROOT / file).read_text()
    pins = re.findall(r"^([a-z0-9._-]+)==", text, re.MULTILINE)
    assert len(pins) > least
    assert text.count("--hash=sha256:") >= len(pins)
    assert "://" not in text
    assert "--find-links" not in text


def test_readme_commands_are_the_ones_that_ci_runs() -> None:
    """The set-up stands in the README, what only some need on the page of all commands."""
    readme = (ROOT / "README.md").read_text()
    extras = (ROOT / "docs" / "commands.md").read_text()
    ci = (ROOT / ".ci" / "run").read_text()
    assert ".venv/bin/python -m tests" in readme
    assert ".venv/bin/python -m tests" in ci
    steps = [step.strip() for step in re.findall(r"\.venv/bin/pip install[^&\n\\]*", ci)]
    assert [step for step in steps if step in readme] == steps[:2]
    for step in steps[2:]:
        assert step in extras, step


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 120
