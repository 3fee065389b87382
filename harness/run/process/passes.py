"""How far the judgement of a history has come that is read again and again."""

import time
from collections.abc import Callable, Collection, Iterator
from typing import Any


class Passes:
    """Which step goes on, and how many of the rows it has read.

    Steps follow one another; each reads some of the history, or has tasks of Spark read it.
    """

    def __init__(self) -> None:
        self._step = ""
        self._rows = self._total = 0
        self._since = time.monotonic()
        self._tasks: Callable[[], str] | None = None
        self._shares = ""

    def begins(self, step: str) -> None:
        """Another step begins."""
        self._step, self._rows, self._since, self._shares = step, 0, time.monotonic(), ""

    def shared(self, done: int, of: int) -> None:
        """Other processes read the history; so many shares of this step are done."""
        self._shares = f"{done:,} of {of:,} shares done"

    def done_by(self, tasks: Callable[[], str]) -> None:
        """Others read the history; this says how far they are."""
        self._tasks = tasks

    def counted(self, reading: Any, total: int) -> Any:
        """The same reading of so many rows, of which each batch is counted."""
        self._total = total

        def read(pieces: Collection[int] | None = None) -> Iterator[Any]:
            for batch in reading(pieces):
                self._rows += len(batch)
                yield batch

        return read

    def line(self) -> str:
        """What is going on; empty before the first step."""
        if not self._step or self._tasks is not None:
            said = self._tasks() if self._tasks is not None else ""
            return f"{self._step}: {said}" if self._step and said else self._step
        if self._shares:
            return f"{self._step}: {self._shares}"
        if not self._rows:
            return self._step
        rate = self._rows / max(time.monotonic() - self._since, 1e-3)
        of = f"{self._rows:,} of {self._total:,} events"
        return f"{self._step}: {of}, {rate:,.0f} a second"
