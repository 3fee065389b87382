"""Runs every check of the project: format, lint, types, import rules, tests.

One command, the same here and in CI: ``python -m tests``. Arguments go to pytest.
"""

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent

CHECKS: tuple[tuple[str, ...], ...] = (
    ("ruff", "format", "--check", "--quiet", "."),
    ("ruff", "check", "--output-format", "concise", "."),
    ("mypy",),
    ("lint-imports",),
    (
        "pytest",
        "-m",
        "not rocketmq and not serial and not spark and not campaign",
        "--numprocesses",
        "2",
        "--dist",
        "loadfile",
        # Files of few tests are not left for the end: some of them are the longest.
        "--no-loadscope-reorder",
        "--durations",
        "5",
    ),
    # A JVM, or a cluster in containers, takes a core for itself, and others beside it miss their
    # bounds: one at a time. Campaigns take minutes: they run by `pytest -m campaign`, not at every
    # change.
    (
        *("pytest", "-m", "(rocketmq or serial or spark) and not campaign and not waits"),
        *("--durations", "5"),
    ),
    # Brokers of RocketMQ's that wait for each other for a minute leave a core to another cluster.
    (
        *("pytest", "-m", "waits", "--numprocesses", "2", "--dist", "loadfile"),
        *("--no-loadscope-reorder", "--durations", "5"),
    ),
)


def main(arguments: list[str]) -> int:
    """Run all checks, also after one has failed; returns 1 if any has."""
    failed = []
    for check in CHECKS:
        more = arguments if check[0] == "pytest" else []
        print(f"== {' '.join((*check, *more))}", flush=True)
        begun = time.monotonic()
        code = subprocess.call([BIN / check[0], *check[1:], *more], cwd=ROOT)
        print(f"-- {check[0]}: exit {code} after {time.monotonic() - begun:.0f} s", flush=True)
        if code:
            failed.append(" ".join(check[:3]))
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
