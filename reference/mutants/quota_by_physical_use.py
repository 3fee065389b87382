"""A broker that compares its share with how full the whole partition is.

While others leave room it deletes nothing, however much of the disk it takes itself. Breaks B9.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from maxq.reference.broker.store import retention
from maxq.reference.broker.store.retention import Rules, Seen
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B9"
SOURCE = "RocketMQ asks for the partition's use first, and for its own only with several replicas"


@contextmanager
def mutant() -> Iterator[None]:
    """Take the partition's use for the broker's own, of the same part."""
    honest = retention._room

    def room(rules: Rules, seen: Seen, forcibly_at: int) -> tuple[bool, float]:
        own = int(rules.share * seen.total * seen.used / 100)
        came = honest(rules, msgspec.structs.replace(seen, own=own), forcibly_at)
        if (came[1] > 0) != (honest(rules, seen, forcibly_at)[1] > 0):
            diverged(__name__)
        return came

    with replaced(retention, "_room", room):
        yield
