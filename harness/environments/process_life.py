"""Which process has a number, by when it began: numbers come again.

Rules for those who edit it: this module also runs on hosts of others, which may have Python 3.9, so
it imports nothing but the standard library.
"""

from __future__ import annotations

import os
from pathlib import Path


def started(pid: int) -> int | None:
    """When a process began, in clock ticks from boot; None if there is none, or a dead one."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def is_over(pid: int, since: int) -> bool:
    """Whether the process of this number that began then has ended, with all that it held: of one
    with many threads the first may be dead while others still close what they share."""
    if started(pid) == since:
        return False
    try:
        return len(os.listdir(f"/proc/{pid}/task")) <= 1 or started(pid) is not None
    except FileNotFoundError:
        return True
