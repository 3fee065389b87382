"""How much memory this process has and may take. Bytes."""

import resource
from collections.abc import Callable
from functools import partial

from maxq.checkers.judgement.piecewise.memory import Memory, give_back, memory_free

WHOLE = 1_536 << 20  # what a judgement aims at where nobody says how much
LEAST = 700_000_000  # what reading one piece of a history takes, with Python and its libraries
ROOM = 64 << 20  # for rows that are dealt out, however little is left


def memory_used() -> int:
    """How much memory this process has (resident)."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def within(limit: int) -> Callable[[], Memory]:
    """Says at any time what is left of a limit for the process that asks.

    Args:
        limit: 0: what the machine has, though less is aimed at.
    """
    return partial(_left, limit)


def _left(limit: int) -> Memory:
    give_back()
    room = max((limit or WHOLE) - memory_used(), ROOM)
    return Memory(aim=room, most=room if limit else memory_free())
