"""A master that leaves out no member that name servers list, however long it cannot reach it.

One cut link between two brokers keeps the whole set from being written to, although everybody else
reaches both. Breaks P3.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import pre_online
from maxq.reference.mutants import diverged, replaced

FAMILY = "pre-online"
CLAIM = "P3"
SOURCE = "RocketMQ waits for ever for who is listed and cannot be reached (acting-master.md 5.2)"


@contextmanager
def mutant() -> Iterator[None]:
    """Try again and again."""
    honest = pre_online.PreOnline._in_vain

    def in_vain(
        self: pre_online.PreOnline, at_ns: int, member: pre_online.Member, why: str
    ) -> list[pre_online.Effect]:
        effects = honest(self, at_ns, member, why)
        if member in self.left_out:
            diverged(__name__)
            self.left_out.discard(member)
            return []
        return effects

    with replaced(pre_online.PreOnline, "_in_vain", in_vain):
        yield
