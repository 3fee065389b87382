"""Wall clocks that can be set off, of machines that share one kernel: libfaketime, in every process
of a machine but its agent.

Each machine has a file that says how far its clock is off. Processes read it again at most
`SEEN_S` after it was written, those that start later at once: so a node that is started again on a
machine whose clock is off has that clock. Only what asks for the wall clock gets another time:
timers run as they did, and files keep the times of the kernel. A clock can be off and cannot
drift: the library counts a drift from the start of each process. Python's `time.sleep` fails under
it, and no node of ours calls that. Units: ms, seconds.
"""

from pathlib import Path

from maxq.harness.contracts.environment import Lack
from maxq.harness.environments.machines.clock_reader import FILE, PRELOAD

PACKAGE = "libfaketime"
NAME = "libfaketimeMT.so.1"
PLACES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime")
CACHE_S = 1
SEEN_S = 2.0 * CACHE_S + 0.1  # the library counts whole seconds
# A look at a file costs more than a look at the clock, so it is taken once in a while. Timers are
# left alone, and so is how threads wait for them: a JVM spins else. Files have the kernel's times.
HOW = {
    "FAKETIME_CACHE_DURATION": str(CACHE_S),
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    "FAKETIME_FORCE_MONOTONIC_FIX": "0",
    "NO_FAKE_STAT": "1",
}


class WrongClock:
    """A machine's wall clock. It is right at first.

    Args:
        library: the path of libfaketime, here and on the machine.
        file: which processes of the machine read; in a folder that is there.
    """

    def __init__(self, library: Path, file: Path) -> None:
        self.offset_ms = 0
        self._library = library
        self._file = file
        self.set(0)

    @property
    def env(self) -> dict[str, str]:
        """What processes of the machine are started with."""
        return {PRELOAD: str(self._library), FILE: str(self._file), **HOW}

    def set(self, offset_ms: int) -> None:
        """Let it be off by so much. Nobody ever reads half of that."""
        new = self._file.with_name(f"{self._file.name}.new")
        new.write_text(spelled(offset_ms))
        new.chmod(0o644)
        new.replace(self._file)
        self.offset_ms = offset_ms


def spelled(offset_ms: int) -> str:
    """As the library reads it: seconds, with a sign."""
    whole, rest = divmod(abs(offset_ms), 1000)
    return f"{'-' if offset_ms < 0 else '+'}{whole}.{rest:03}\n"


def found() -> Path | None:
    """The library, if this machine has it."""
    every = (path for place in PLACES for path in Path("/").glob(f"{place[1:]}/{NAME}"))
    return next(every, None)


def lacking() -> Lack | None:
    """Why machines can have no clocks of their own here; None if they can. Whether the library
    does what it should shows when they are made (`LinkedMachine.try_clock`)."""
    if found() is None:
        return Lack("libfaketime, which sets clocks off, is missing", package=PACKAGE)
    return None
