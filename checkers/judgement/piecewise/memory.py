"""How much memory a judgement may take."""

import ctypes
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from maxq.histories.op import HistoryError


class Memory(NamedTuple):
    """What rows that are dealt out may take at a time, in bytes: as is aimed at, and at most."""

    aim: int
    most: int


def give_back() -> None:
    """Let the kernel have what libraries keep of memory that nothing uses any more: else it grows
    with each bucket that is judged."""
    pa.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # another C library has no such function
        ctypes.CDLL(None).malloc_trim(0)


class TooLargeError(HistoryError):
    """One key of a history takes more memory than there is."""
