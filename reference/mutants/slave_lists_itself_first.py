"""A slave that registers as soon as it knows its master, and copies the log after that.

Who loses the master then shows clients an old slave, or an empty one, in its place. Breaks P8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.acting import Acting, Effect, Polled
from maxq.reference.mutants import diverged, replaced

FAMILY = "pre-online"
CLAIM = "P8"
SOURCE = "hazard: a slave that starts is to wait until it copies (docs/spec/acting-master.md 5)"


@contextmanager
def mutant() -> Iterator[None]:
    """Follow, and be online."""
    honest = Acting._on_polled_isolated

    def on_polled(self: Acting, event: Polled, known: dict[int, str]) -> list[Effect]:
        effects = honest(self, event, known)
        if self.isolated:
            diverged(__name__)
            effects += self._online()
        return effects

    with replaced(Acting, "_on_polled_isolated", on_polled):
        yield
