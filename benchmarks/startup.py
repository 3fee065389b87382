"""How long the command line takes to say what there is: `maxq --help`, and of each command.

    python -m benchmarks.startup

Of each the least of some starts, and its ratio to a start of Python that does nothing, in the same
turns: a busy machine slows both. Seconds are of the processor, so that waiting for one counts for
neither.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from maxq.harness.cli.main import SECTIONS

NOTHING = ("-c", "pass")
MAXQ = ("-m", "maxq.harness.cli.main")
ALL_S, ONE_S = 0.3, 0.5  # goals: of `maxq --help`, of a command's


def taken(words: Sequence[str]) -> float:
    """Seconds of the processor that a start of Python takes."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """The command; 0 if each is within its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=5)
    times = parser.parse_args().times
    names = [name for commands in SECTIONS.values() for name in commands]
    asked = [("--help",), *((name, "--help") for name in names)]
    starts = [NOTHING, *((*MAXQ, *words) for words in asked)]
    best = [float("inf")] * len(starts)
    for _ in range(times):
        best = [min(before, taken(words)) for before, words in zip(best, starts, strict=True)]
    nothing, *found = best
    print(f"python -c pass: {nothing:.3f} s")
    late = 0
    for words, seconds in zip(asked, found, strict=True):
        goal = ALL_S if len(words) == 1 else ONE_S
        late += seconds > goal
        said = f"  OVER {goal} s" if seconds > goal else ""
        print(f"{seconds:6.3f} s  {seconds / nothing:5.1f}  maxq {' '.join(words)}{said}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
