"""A foreign project: its workload, fault, checker, target and layout come from a wheel by entry
points, and it has folders that are called as ours are."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import version
from pathlib import Path

import pytest
from local_cluster import missing

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "examples"
pytestmark = [pytest.mark.wheel, pytest.mark.timeout(400)]

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "their-checks"
version = "0.3"

[project.entry-points."maxq.workloads"]
register = "harness.register_workload:REGISTER"

[project.entry-points."maxq.nemeses"]
flap = "harness.flap_fault:FLAP"

[project.entry-points."maxq.checkers"]
register = "harness.register_checker:REGISTER"

[project.entry-points."maxq.targets"]
quick-watch = "harness.own_target:QUICK_WATCH"

[project.entry-points."maxq.layouts"]
spread = "harness.spread_layout:SPREAD"

[project.entry-points."maxq.environments"]
few-files = "harness.few_files_environment:FEW_FILES"

[tool.hatch.build.targets.wheel]
packages = ["harness"]
"""
TESTS = """
import harness
import pytest

@pytest.mark.parametrize("seed", [1, 2])
def test_theirs(maxq, seed):
    outcome = maxq.run(workload=["queue", "register"], nemesis="flap", time_limit="8s",
                       env="simulated", seed=seed)
    assert outcome
    assert outcome.claims["X1"] == "kept"
    assert "our_promise" not in dir(harness)
"""
WORDS = ("--env", "simulated", "--workload", "queue,register", "--nemesis", "flap,kill",
         "--time-limit", "10s", "--seed", "3")  # fmt: skip


def done(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PYTEST", "PIP"))}
    return subprocess.run(
        [str(w) for w in words], cwd=cwd, env=plain, capture_output=True, text=True, timeout=180
    )


def built(source: Path, dist: Path) -> Path:
    told = done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", dist, cwd=source)
    assert told.returncode == 0, told.stderr
    (wheel,) = dist.glob("*.whl")
    return wheel


def pip(home: Path, *words: str | Path) -> None:
    told = done(sys.executable, "-m", "pip", "--python", home / ".venv/bin/python", *words,
                cwd=home)  # fmt: skip
    assert told.returncode == 0, told.stderr


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their project, with an environment that has both wheels."""
    home = tmp_path_factory.mktemp("theirs")
    package = home / "src" / "harness"
    package.mkdir(parents=True)
    (home / "src" / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text("")
    for example in EXAMPLES.glob("*.py"):
        (package / example.name).write_text(example.read_text())
    venv.create(home / ".venv", with_pip=False, symlinks=True)
    wheels = [built(ROOT, home / "ours"), built(home / "src", home / "dist")]
    pip(home, "install", "--quiet", "--no-deps", "--no-index", *wheels)
    (libraries,) = (home / ".venv" / "lib").glob("python*/site-packages")
    (libraries / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (home / "test_theirs.py").write_text(TESTS)
    return home


def test_what_it_adds_is_listed(theirs: Path) -> None:
    told = done(theirs / ".venv/bin/maxq", "list", "plugins", cwd=theirs)
    assert told.returncode == 0, told.stderr
    for kind in ("checker register", "environment few-files", "layout spread", "nemesis flap",
                 "workload register"):  # fmt: skip
        assert f"{kind} " in told.stdout
    assert "harness.flap_fault:FLAP of their-checks 0.3" in told.stdout
    claims = done(theirs / ".venv/bin/maxq", "list", "claims", cwd=theirs)
    assert "X1    A client reads the setting that it wrote last" in claims.stdout


def test_a_run_has_it_and_check_judges_it_again(theirs: Path) -> None:
    maxq = theirs / ".venv/bin/maxq"
    told = done(maxq, "test", *WORDS, "--store", "runs", "--json", cwd=theirs)
    assert told.returncode == 0, told.stdout + told.stderr
    first = json.loads(told.stdout)
    assert {"claim": "X1", "status": "kept"}.items() <= of(first, "X1").items()
    assert {f["f"] for f in first["faults"]} >= {"start-flap", "kill"}
    again = done(maxq, "check", "runs/latest", "--json", cwd=theirs)
    assert again.returncode == 0, again.stderr
    second = json.loads(again.stdout)
    assert second["claims"] == first["claims"]
    repeated = done(maxq, "replay", "runs/latest", "--store", "again", "--json", cwd=theirs)
    assert json.loads(repeated.stdout)["claims"] == first["claims"]
    page = (theirs / "runs" / "latest" / "report.html").read_text()
    assert "A client reads the setting that it wrote last" in page


TARGET = """
def test_their_target(maxq):
    outcome = maxq.run(target="quick-watch", env="local", workload="queue", nemesis="kill",
                       time_limit="5s", seed=1)
    assert outcome
    assert "quick-watch" in outcome.repeat
"""


@pytest.mark.local
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_a_cluster_of_its_target_is_tested(theirs: Path) -> None:
    """By the command, which stores what `check` judges again, and by the fixture of pytest."""
    maxq = theirs / ".venv/bin/maxq"
    listed = done(maxq, "list", "targets", cwd=theirs)
    assert "quick-watch" in listed.stdout
    words = ("--target", "quick-watch", "--env", "few-files", "--workload", "queue", "--nemesis",
             "kill", "--time-limit", "5s", "--seed", "1")  # fmt: skip
    told = done(maxq, "test", *words, "--store", "target", "--json", cwd=theirs)
    assert told.returncode == 0, told.stdout + told.stderr
    first = json.loads(told.stdout)
    assert "--target quick-watch" in first["repeat"]
    controllers = (theirs / "target" / "latest" / "nodes").glob("c*/*.conf*")
    assert any("scanNotActiveBrokerInterval=500" in path.read_text() for path in controllers)
    again = done(maxq, "check", "target/latest", "--json", cwd=theirs)
    assert json.loads(again.stdout)["claims"] == first["claims"]
    (theirs / "test_target.py").write_text(TARGET)
    fixture = done(theirs / ".venv/bin/python", "-m", "pytest", "-p", "no:cacheprovider",
                   "test_target.py", cwd=theirs)  # fmt: skip
    assert "1 passed" in fixture.stdout, fixture.stdout + fixture.stderr


def of(printed: dict[str, list[dict[str, str]]], claim: str) -> dict[str, str]:
    return next(c for c in printed["claims"] if c["claim"] == claim)


def test_seeds_and_campaigns_have_it(theirs: Path) -> None:
    maxq = theirs / ".venv/bin/maxq"
    told = done(maxq, "simulate", "--seeds", "1..2", "--length", "15s", "--also", "register",
                "--store", "many", cwd=theirs)  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    (row,) = [line.split() for line in told.stdout.splitlines() if line.endswith((" X1", "(X1)"))]
    assert row[0] == "2"  # kept
    cell = '[[cell]]\nenv = "simulated"\nworkload = "register"\nnemesis = "flap"\n'
    (theirs / "small.toml").write_text(f'name = "small"\n{cell}time_limit = "5s"\n')
    done_ = done(maxq, "campaign", "small.toml", "--store", "many", cwd=theirs)
    assert done_.returncode == 0, done_.stdout + done_.stderr
    assert "1 of 1 passed" in done_.stdout


def test_pytest_with_workers_has_it(theirs: Path) -> None:
    told = done(theirs / ".venv/bin/python", "-m", "pytest", "-p", "no:cacheprovider", "-n", "2",
                "test_theirs.py", cwd=theirs)  # fmt: skip
    assert "2 passed" in told.stdout, told.stdout + told.stderr


def test_without_it_check_says_what_is_missing(theirs: Path) -> None:
    maxq = theirs / ".venv/bin/maxq"
    assert done(maxq, "test", *WORDS, "--store", "gone", cwd=theirs).returncode == 0
    pip(theirs, "uninstall", "--quiet", "--yes", "their-checks")
    told = done(maxq, "check", "gone/latest", cwd=theirs)
    assert told.returncode == 254
    assert "unknown workload 'register', which came with maxq.workloads: register" in told.stderr
    assert "their-checks 0.3" in told.stderr
    assert version("maxq")  # ours is still there
