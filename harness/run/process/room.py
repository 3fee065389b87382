"""Room for a run on the disk of its store: what it will take, and whether its end still fits.

A run that fills its store loses its last operations, and with them its verdict; nodes whose stores
lie there too refuse messages, for which no cluster is to blame. So a run learns at its begin that
room is short, and ends in good order while there is enough to heal, read and judge. Bytes.

The numbers were measured: a client's operation takes about 250 bytes of journal, and observers
10 kB a second; each replica keeps about 300 bytes of a message.
"""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.schedule.options import Options

OP_BYTES, OBSERVED_BYTES, MESSAGE_BYTES = 250, 10_000, 300
PAGE_BYTES, NODE_BYTES = 500_000, 200_000  # a report; a node's log and empty store
TABLE = 0.3  # of a journal: what is read at the end, and its table
CERTAIN = 4  # with less than this part of what was estimated a run certainly does not fit
KEPT_BYTES = 2_000_000  # beside what is read at the end
LOOKS_EACH = 64  # operations
FILLED = "the store is full"
FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))


def needed(options: Options) -> int:
    """About how much a run writes to its store."""
    seconds = options.time_limit_ns / 1e9
    journal = seconds * (options.rate * OP_BYTES + OBSERVED_BYTES)
    brokers = options.broker_sets * options.replicas
    stores = brokers * seconds * options.rate / options.broker_sets * MESSAGE_BYTES
    nodes = (brokers + options.controllers + options.namesrvs) * NODE_BYTES
    return round(journal * (1 + TABLE) + stores + nodes + PAGE_BYTES)


def free(path: Path) -> int:
    """What is left on the disk of a folder, which need not be there yet."""
    there = next(each for each in (path, *path.parents) if each.exists())
    return shutil.disk_usage(there).free


def warning(options: Options, store: Path, left: int) -> str:
    """What is to be said before a run; empty where there is room.

    Args:
        options: of the run.
        store: where its folder goes.
        left: on the disk.

    Raises:
        EnvironmentUnavailable: it certainly does not fit.
    """
    most = needed(options)
    if left >= most:
        return ""
    why = (
        f"the store {store} has {_mb(left)} left, and {options.time_limit_ns / 1e9:.0f} s at "
        f"{options.rate:g} operations a second with {options.broker_sets * options.replicas} "
        f"brokers take about {_mb(most)}; give another --store, or less --time-limit or --rate"
    )
    if left * CERTAIN < most:
        raise EnvironmentUnavailable(why)
    return f"{why}; the run ends early once the store is nearly full"


class Room:
    """Looks now and then whether there is still enough for the end of a run.

    Args:
        journal: of the run, the file that grows.
        left: what is left on the disk of a folder.
    """

    def __init__(self, journal: Path, left: Callable[[Path], int] = free) -> None:
        self._journal, self._left = journal, left
        self._turn = 0

    def short(self) -> str:
        """Why a run must end now; empty where it need not, or where nobody looked."""
        self._turn += 1
        if self._turn % LOOKS_EACH:
            return ""
        left = self._left(self._journal.parent)
        # All messages are read again, and stores of nodes elsewhere are collected.
        if left >= KEPT_BYTES + self._journal.stat().st_size:
            return ""
        return f"the store has only {_mb(left)} left"


def is_full(error: BaseException) -> bool:
    """Whether it came of a disk without room."""
    return isinstance(error, OSError) and error.errno in FULL


def _mb(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
