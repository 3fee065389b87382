"""A slave whose connection was lost waits, and does not dial again.

A master that goes away and comes back is followed again; one whose connection broke once is
followed by nobody, and its log is the only one. Breaks A11.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.replication.plain.plain_events import SlaveEffect
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.mutants import diverged, replaced

FAMILY = "pair"
CLAIM = "A11"
SOURCE = "hazard: only a slave's own retry connects it again (docs/spec/acting-master.md 3.1)"


@contextmanager
def mutant() -> Iterator[None]:
    """Let the pause pass."""
    honest = PlainSlave._on_timeout

    def on_timeout(self: PlainSlave, now_ns: int) -> list[SlaveEffect]:
        due = self.next_deadline_ns()
        if self.phase != "waiting" or due is None or now_ns < due:
            return honest(self, now_ns)
        diverged(__name__)
        self._began_ns = now_ns
        return []

    with replaced(PlainSlave, "_on_timeout", on_timeout):
        yield
