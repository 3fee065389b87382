"""A controller that takes a SyncStateSet from any broker, of whatever epochs.

A master that was paused while another was elected wakes up, finds its slaves gone, and proposes
a set of its own, before it hears of its successor. Whom that waits for may be elected no more.
Breaks S6, S7.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.controller import registry
from maxq.reference.controller.registry import AlterSyncStateSet, BrokerSet, Result
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.codes import ResponseCode

FAMILY = "sync-state-set"
CLAIM = "S6"
SOURCE = (
    "stale reports that arrive later, at a controller that does not fence "
    "(docs/spec/controller-ha.md 2.4 and 6.4 (H5))"
)
FENCES = (
    ResponseCode.CONTROLLER_INVALID_MASTER,
    ResponseCode.CONTROLLER_FENCED_MASTER_EPOCH,
    ResponseCode.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
)


@contextmanager
def mutant() -> Iterator[None]:
    """Compare no epochs."""
    honest = registry._alter_fault

    def _alter_fault(
        known: BrokerSet | None, c: AlterSyncStateSet, members: tuple[int, ...]
    ) -> Result | None:
        ran(__name__)
        fault = honest(known, c, members)
        if fault is not None and fault.code in FENCES:
            diverged(__name__)
            return None
        return fault

    with replaced(registry, "_alter_fault", _alter_fault):
        yield
