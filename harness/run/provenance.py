"""Which Max-Q this is: the commit of a checkout, or the version and digest of an installed wheel.

An installed package may lie inside another repository (a virtual environment in a project),
so git is asked only where this source is the top of its own checkout.
"""

import hashlib
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

MAXQ = Path(__file__).parents[2]  # the package; in a checkout, links
CHECKOUT = MAXQ.parent
DISTRIBUTION = "maxq"
GIT_S_MAX = 10
DIGITS = 12
PACKAGES = ("reference", "harness", "nemeses", "checkers", "workloads", "histories")
# Of these, what no simulated run ever enters: commands, real machines and targets, campaigns over
# runs, pages. A test runs seeds and looks.
ELSEWHERE = (
    "harness/cli/", "harness/python_api/", "harness/report/", "harness/environments/docker",
    "harness/environments/local", "harness/run/doctor", "harness/environments/leaks",
    "harness/environments/engine/", "harness/experiments/campaign", "harness/experiments/hunt/",
    "harness/experiments/mutants", "harness/experiments/scenarios", "harness/experiments/scorecard",
    "harness/experiments/shrink", "harness/run/piecewise",
    "harness/targets/rocketmq/libraries", "harness/targets/rocketmq/target",
)  # fmt: skip


def identity() -> dict[str, Any]:
    """`commit` and `dirty` of a checkout, each empty where there is none, and `version`."""
    checkout = (CHECKOUT / "pyproject.toml").is_file() and (CHECKOUT / ".git").exists()
    return {
        "commit": _git("rev-parse", "HEAD") if checkout else "",
        "dirty": checkout and bool(_git("status", "--porcelain", "--untracked-files=no")),
        "version": version(installed=not checkout),
    }


@cache
def digest() -> str:
    """A digest of all source that a simulated run follows from, as it was at the first call: equal
    seeds under equal digests are equal runs."""
    found = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((MAXQ / package).rglob("*.py")):
            if str(path.relative_to(MAXQ)).startswith(ELSEWHERE):
                continue
            data = path.read_bytes()
            found.update(f"\0{path.relative_to(MAXQ)}\0{len(data)}\0".encode() + data)
    return found.hexdigest()[:DIGITS]


def version(*, installed: bool) -> str:
    """The version; of an installed wheel with a digest of the list of its files and their hashes,
    which changes with every byte of its source."""
    try:
        found = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return ""
    record = found.read_text("RECORD") if installed else None
    if not record:
        return found.version
    # Scripts and compiled files are made where it is installed, and differ from place to place.
    lines = [line for line in record.splitlines() if line.split(",")[0].endswith(".py")]
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return f"{found.version}+wheel.{digest[:DIGITS]}"


def _git(*args: str) -> str:
    try:
        done = subprocess.run(
            ["git", *args], cwd=CHECKOUT, capture_output=True, text=True, timeout=GIT_S_MAX
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
