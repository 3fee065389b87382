"""Waiting for what another process does: for a condition, within a bound."""

import time
from collections.abc import Callable
from pathlib import Path

POLL_S = 0.02


def eventually(condition: Callable[[], object], timeout_s: float) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(POLL_S)
    return bool(condition())


def line_count(path: Path) -> int:
    """How many whole lines a file has so far; 0 where there is none."""
    return path.read_bytes().count(b"\n") if path.exists() else 0
