"""A slave that leaves out epochs in which nothing was written when it looks where logs part.

The next master's bytes then count as the one's before, and no master marks an epoch by a record of
its own. Had that one written something that no replica got, two masters have written under one
entry: the point up to which lists agree lies behind where logs part, and nothing is cut. Breaks S8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.controlled import ControlledMembership
from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import MasterEpoch, PhyOffset

FAMILY = "replication"
CLAIM = "S8"
SOURCE = (
    "seen of RocketMQ 5.5.0 (docs/spec/controller-ha.md 4.8 and 6.4 (H2); docs/track-record.md)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Keep the oldest of all entries that begin at one place."""
    honest = policy.truncation_point

    def truncation_point(
        mine: Epochs, my_end: PhyOffset, theirs: Epochs, their_end: PhyOffset
    ) -> PhyOffset | None:
        ran(__name__)
        point = honest(_thin(mine), my_end, _thin(theirs), their_end)
        if point != honest(mine, my_end, theirs, their_end):
            diverged(__name__)
        return point

    def _mark(self: ControlledMembership, epoch: MasterEpoch) -> None:
        return None

    with (
        replaced(policy, "truncation_point", truncation_point),
        replaced(ControlledMembership, "_mark", _mark),
    ):
        yield


def _thin(epochs: Epochs) -> Epochs:
    older = (None, *(e.start for e in epochs))
    return tuple(e for e, before in zip(epochs, older, strict=False) if e.start != before)
