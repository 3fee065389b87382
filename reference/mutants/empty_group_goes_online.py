"""A master that goes online at once where a name server lists nobody.

A name server that has just started lists nobody yet, and the slave that acted is about to register:
what was committed to it is not asked for. Breaks P4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import pre_online
from maxq.reference.mutants import diverged, replaced

FAMILY = "pre-online"
CLAIM = "P4"
SOURCE = "RocketMQ: an empty group is no reason to wait (docs/spec/acting-master.md 5)"


@contextmanager
def mutant() -> Iterator[None]:
    """Do not wait for one eviction."""
    honest = pre_online.PreOnline._on_group

    def on_group(self: pre_online.PreOnline, event: pre_online.Grouped) -> list[pre_online.Effect]:
        if event.members is None or pre_online.sound(event.members):
            return honest(self, event)
        diverged(__name__)
        return self._online()

    with replaced(pre_online.PreOnline, "_on_group", on_group):
        yield
