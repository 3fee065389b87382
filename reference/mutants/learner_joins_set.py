"""A master that does not read the learner's flag in a handshake.

A broker that was set up to copy, and to be waited for by nobody, is proposed for the SyncStateSet
like any slave that has caught up. Breaks S17.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.ha_master_events import Effect
from maxq.reference.broker.replication.ha_progress import SlaveProgress
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.ha import SlaveHandshake

FAMILY = "sync-state-set"
CLAIM = "S17"
SOURCE = "docs/spec/controller-ha.md 4.9: isAsyncLearner is one of two adjacent 16-bit flags"


@contextmanager
def mutant() -> Iterator[None]:
    """Take every slave for one that joins."""
    honest = HaMaster._on_handshake

    def deaf(
        self: HaMaster, now_ns: int, link: SlaveProgress, hello: SlaveHandshake
    ) -> list[Effect]:
        ran(__name__)
        if hello.async_learner:
            diverged(__name__)
        return honest(self, now_ns, link, msgspec.structs.replace(hello, async_learner=False))

    with replaced(HaMaster, "_on_handshake", deaf):
        yield
