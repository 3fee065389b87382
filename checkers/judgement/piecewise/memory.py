"""How much memory a judgement may take."""

import ctypes
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa


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


def memory_free() -> int:
    """How much memory this machine can give, in bytes."""
    with open("/proc/meminfo", "rb") as file:
        known = dict(line.split(b":", 1) for line in file)
    return int(known[b"MemAvailable"].split()[0]) << 10
