"""Which rights (capabilities) of Linux a process keeps, and that it gains no others.

Rules for those who edit it: this module also runs inside containers, so it imports nothing but the
standard library.
"""

import ctypes
import os
from collections.abc import Iterable

# Numbers of <linux/capability.h>, of those that process 1 of a world may need.
NUMBERS = {"DAC_OVERRIDE": 1, "KILL": 5, "SETGID": 6, "SETUID": 7, "NET_ADMIN": 12,
           "SYS_CHROOT": 18, "SYS_ADMIN": 21}  # fmt: skip
PR_SET_NO_NEW_PRIVS = 38
VERSION_3 = 0x20080522  # of capset(2): two words for each set

_libc = ctypes.CDLL(None, use_errno=True)


def keep(*names: str) -> None:
    """Keep these rights, and no others; whatever this process starts, as whatever user, has no
    more.

    Raises:
        OSError: this process has not all of them.
    """
    if _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no new privileges")
    low = bits_of(names)
    header = (ctypes.c_uint32 * 2)(VERSION_3, 0)
    # Effective, permitted and inheritable: first of the lower 32 rights, then of the others.
    sets = (ctypes.c_uint32 * 6)(low, low, 0, 0, 0, 0)
    if _libc.capset(header, sets) != 0:
        raise OSError(ctypes.get_errno(), "capset: " + os.strerror(ctypes.get_errno()))


def bits_of(names: Iterable[str]) -> int:
    """Rights as the kernel writes them in a process's status."""
    return sum(1 << NUMBERS[name] for name in names)
