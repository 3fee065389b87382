"""A master that remembers a delay level one message further than it has delivered.

Nothing is wrong for as long as it runs; once it goes on from what it remembers, one message of each
level is never delivered. Breaks P7.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.client_calls.schedule import Schedule
from maxq.reference.mutants import diverged, replaced

FAMILY = "pre-online"
CLAIM = "P7"
SOURCE = "hazard: progress is clamped to its queue when it is loaded (docs/spec/acting-master.md 5)"


@contextmanager
def mutant() -> Iterator[None]:
    """Count the next one too."""
    honest = Schedule._remember

    def remember(self: Schedule, level: int) -> None:
        before = self._tables.delay.offset_table.get(level, 0)
        honest(self, level)
        position = self._tables.delay.offset_table.get(level, 0)
        if position != before:
            diverged(__name__)
            self._tables.deliver_from(level, position + 1)

    with replaced(Schedule, "_remember", remember):
        yield
