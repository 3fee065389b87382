"""What is said of a judgement that takes longer than a moment."""

import time
from pathlib import Path


class Coming:
    """How far the judgement of a file has come.

    Args:
        path: the file.
        budget_s: how long it may take (s).
    """

    def __init__(self, path: Path, budget_s: float) -> None:
        self._budget_s = budget_s
        self._begun = self._since = time.monotonic()
        self._read = 0
        self._phase = ""  # empty: reading
        known = path.is_file() and path.suffix not in (".gz", ".zst")
        self._size = path.stat().st_size if known else 0

    def read(self, count: int) -> None:
        """So many bytes more have been read."""
        self._read += count

    def goes_on(self, phase: str) -> None:
        """Another phase begins."""
        self._phase, self._since = phase, time.monotonic()

    def seconds(self) -> float:
        """Since this phase began."""
        return time.monotonic() - self._since

    def line(self) -> str:
        """What is going on, and since when."""
        of = f"; {time.monotonic() - self._begun:.0f} of {self._budget_s:g} s"
        if self._phase:
            return self._phase + of
        size = f" of {self._size / 1e6:,.0f}" if self._size else ""
        rate = self._read / 1e6 / max(self.seconds(), 1e-3)
        return f"reading: {self._read / 1e6:,.0f}{size} MB, {rate:,.0f} MB a second{of}"
