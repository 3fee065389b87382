"""Interrupts a long command at moments of its work, and lets it go on: is it over in 5 s?

    python -m benchmarks.interrupts --moments 10 -- maxq simulate --seeds 0..99

Each start is the same command; it is interrupted after so many seconds, one signal (SIGINT and
SIGTERM in turn) to its process alone, and must then end within `OVER_S`, name the command that goes
on, and leave no process. A command that is over by itself before its moment is counted as done.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from typing import NamedTuple

OVER_S = 5.0
FIRST_S, STEP_S = 1.0, 2.5
HUNG_S = 60.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt(NamedTuple):
    """One start: when it was interrupted (s), how long it then took (s), whether it said how to go
    on, and how many processes of its group stayed."""

    at: float
    took: float
    said: bool
    left: int
    over_before: bool = False

    @property
    def good(self) -> bool:
        return self.over_before or (self.took <= OVER_S and self.said and not self.left)


def interrupted(words: list[str], at: float, number: signal.Signals) -> Interrupt:
    """Start a command, interrupt it, and watch it end."""
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip
    try:
        process.communicate(timeout=at)
        return Interrupt(at, 0.0, said=True, left=0, over_before=True)
    except subprocess.TimeoutExpired:
        pass
    begun = time.monotonic()
    process.send_signal(number)
    try:
        _, err = process.communicate(timeout=HUNG_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        _, err = process.communicate()
    took = time.monotonic() - begun
    return Interrupt(at, took, said="go on: " in err, left=_left(process.pid))


def _left(session: int) -> int:
    """How many processes of a session there still are."""
    found = subprocess.run(["ps", "-o", "pid=,stat=", "-s", str(session)],
                           capture_output=True, text=True)  # fmt: skip
    return sum(line.split()[1][0] != "Z" for line in found.stdout.splitlines())


def main() -> int:
    """The command; 0 if every start was over in time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--first", type=float, default=FIRST_S)
    parser.add_argument("--step", type=float, default=STEP_S)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    words = [word for word in given.command if word != "--"]
    good = True
    for turn in range(given.moments):
        number = SIGNALS[turn % len(SIGNALS)]
        one = interrupted(words, given.first + given.step * turn, number)
        good &= one.good
        if one.over_before:
            print(f"{one.at:6.1f} s  it was over before")
            break
        print(f"{one.at:6.1f} s  {number.name:8} over after {one.took:4.1f} s, "
              f"{'says' if one.said else 'DOES NOT SAY'} how to go on, {one.left} processes left",
              flush=True)  # fmt: skip
    print("each was over in time" if good else "NOT EACH WAS OVER IN TIME")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
