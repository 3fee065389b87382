"""Runs every check of the project: format, lint, types, import rules, tests.

One command, the same here and in CI: ``python -m tests``. Arguments go to pytest.
"""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
NICE = ("nice", "-n", "19")
# Hundreds of processes import the same modules: what the first has compiled is kept, whatever the
# shell says. Without it, pytest takes 24 s to collect, and 7 with it.
ENVIRON = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

Check = tuple[str, ...]
TWO = ("--numprocesses", "2", "--dist", "loadfile")
# Files of few tests are not left for the end: some of them are the longest.
AS_FOUND = ("--no-loadscope-reorder", "--durations", "5")
LATER = "not rocketmq and not serial and not spark and not campaign"

STATIC: tuple[Check, ...] = (
    ("ruff", "format", "--check", "--quiet", "."),
    ("ruff", "check", "--output-format", "concise", "."),
    ("lint-imports",),
)
# What only computes fills the time in which real processes, and brokers of RocketMQ's that wait for
# each other for a minute, do nothing. It has what is left of the processors: bounds in real time
# must hold beside it, and its own time-outs are longer. What fills both of them is last.
COMPUTES: tuple[Check, ...] = (
    ("mypy",),
    (
        *("pytest", "-m", f"not real and {LATER}", *TWO, *AS_FOUND),
        *("--timeout", "300", "--hypothesis-profile", "beside"),
    ),
)
# Campaigns take minutes: they run by `pytest -m campaign`, not at every change. One after the
# other: two that meet the clock at a time are late, and then a verdict is unknown.
BESIDE: tuple[Check, ...] = (
    ("pytest", "-m", f"real and {LATER}", *TWO, *AS_FOUND),
    ("pytest", "-m", "rocketmq and not campaign", *TWO, *AS_FOUND),
    ("pytest", "-m", "(serial or spark) and not campaign", "--durations", "5"),
)


def ran(check: Check, out: IO[str] | None = None, before: Check = ()) -> bool:
    """Run a check, to its end; whether it passed.

    Args:
        check: its name and arguments.
        out: where its output goes; None: to the screen.
        before: a command that runs it.
    """
    print(f"== {' '.join(check)}", file=out, flush=True)
    begun = time.monotonic()
    command = [*before, str(BIN / check[0]), *check[1:]]
    code = subprocess.call(command, cwd=ROOT, env=ENVIRON, stdout=out, stderr=out)
    taken = time.monotonic() - begun
    print(f"-- {check[0]}: exit {code} after {taken:.0f} s", file=out, flush=True)
    return code == 0


def main(arguments: list[str]) -> int:
    """Run all checks, also after one has failed; returns 1 if any has."""
    computes, checks = (
        [(*check, *arguments) if check[0] == "pytest" else check for check in some]
        for some in (COMPUTES, BESIDE)
    )
    failed = [check for check in STATIC if not ran(check)]
    with (
        tempfile.TemporaryFile("w+", prefix="maxq-tests-") as out,
        ThreadPoolExecutor(1) as pool,
    ):
        beside = pool.submit(lambda: [check for check in checks if not ran(check, out)])
        failed += [check for check in computes if not ran(check, before=NICE)]
        failed += beside.result()
        out.seek(0)
        sys.stdout.writelines(out)
    names = ", ".join(" ".join(check[:3]) for check in failed)
    print(f"failed: {names}" if failed else "all checks passed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
