"""A master that waits for anyone who was once listed, also when nobody lists it any more.

A slave that dies while its master comes back keeps the whole set from being written to, for as long
as it is away. Breaks P2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import pre_online
from maxq.reference.mutants import diverged, replaced

FAMILY = "pre-online"
CLAIM = "P2"
SOURCE = "RocketMQ waits for ever for who is listed and cannot be reached (acting-master.md 5)"


@contextmanager
def mutant() -> Iterator[None]:
    """Remember every member, and leave nobody out."""
    honest, in_vain = pre_online.PreOnline._on_group, pre_online.PreOnline._in_vain
    known: dict[int, set[pre_online.Member]] = {}

    def on_group(self: pre_online.PreOnline, event: pre_online.Grouped) -> list[pre_online.Effect]:
        if event.members is None:
            return honest(self, event)
        ever = known.setdefault(id(self), set())
        ever.update(event.members)
        if ever - set(event.members):
            diverged(__name__)
        members = tuple(sorted(ever, key=lambda m: (m.id, m.address)))
        return honest(self, pre_online.Grouped(at_ns=event.at_ns, members=members))

    def waits(
        self: pre_online.PreOnline, at_ns: int, member: pre_online.Member, why: str
    ) -> list[pre_online.Effect]:
        effects = in_vain(self, at_ns, member, why)
        self.left_out.clear()
        return effects

    with (
        replaced(pre_online.PreOnline, "_on_group", on_group),
        replaced(pre_online.PreOnline, "_in_vain", waits),
    ):
        yield
