"""What a process of a machine sees of the time: run on the machine, with the environment variables
that its nodes have.

Prints one JSON object: ``ahead_ns``, the wall clock less the clock that only runs, which nothing
sets off, so that how long anybody waits for the answer does not count; and of a process that is
named ``follows``, whether it has loaded the library that this program has, and reads the same file.

Rules for those who edit it: this module also runs inside containers, so it imports nothing but the
standard library.

Run as ``python -m maxq.harness.environments.machines.clock_reader [PID]``.
"""

import json
import os
import sys
import time
from pathlib import Path

PRELOAD, FILE = "LD_PRELOAD", "FAKETIME_TIMESTAMP_FILE"
LOOKS = 9  # the one with the least between its ends counts


def ahead_ns() -> int:
    """How far the wall clock is ahead of the clock that only runs."""
    return min(_look() for _ in range(LOOKS))[1]


def _look() -> tuple[int, int]:
    before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return after - before, wall - before


def follows(folder: Path, wanted: tuple[str, str]) -> bool:
    """Whether a process has loaded a library, and was started with a file.

    Args:
        folder: of it, as the kernel shows it.
        wanted: the paths of both.
    """
    library, file = wanted
    loaded = (folder / "maps").read_text(errors="replace").split()
    given = (folder / "environ").read_bytes().split(b"\0")
    return library in loaded and f"{FILE}={file}".encode() in given


def main() -> None:
    said: dict[str, object] = {"ahead_ns": ahead_ns()}
    for pid in sys.argv[1:]:
        said["follows"] = follows(Path("/proc", pid), (os.environ[PRELOAD], os.environ[FILE]))
    print(json.dumps(said))


if __name__ == "__main__":
    main()
