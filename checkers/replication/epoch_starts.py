"""An epoch of a set begins at the same byte on every replica that holds it, at all times.

The master that is elected for it writes its begin, and the others copy it. Who has another one has
lost its list, or followed on behind bytes of which it knew no epoch; where to truncate is found by
these begins, so what it holds is compared at the wrong place, or not at all. Sets judged one by
one.

Claim: S8c (docs/spec/controller-ha.md 6.3).
"""

from collections.abc import Sequence

from maxq.checkers.evidence.observations import Sighting
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.observed import EpochView, ReplicaView

Said = Sighting[ReplicaView]
Epochs = tuple[EpochView, ...]


def moved_starts(name: str, replicas: Sequence[Said]) -> tuple[list[Found], int]:
    """Judge one broker set.

    Args:
        name: the set's.
        replicas: what its brokers said of themselves.

    Returns:
        One finding for each epoch, and how many begins had another one to be compared with.
    """
    first: dict[int, tuple[int, Said]] = {}
    found: dict[int, Found] = {}
    judged = 0
    last: dict[str, Epochs] = {}  # by node
    for s in sorted(replicas, key=lambda s: s.at):
        before, epochs = last.get(s.view.node, ())[:-1], s.view.epochs  # the last one's end grows
        same = len(before) if epochs[: len(before)] == before else 0
        judged += same  # as was said before, with the same findings
        last[s.view.node] = epochs
        for epoch in epochs[same:]:
            start, a = first.setdefault(epoch.epoch, (epoch.start, s))
            judged += a is not s
            if start != epoch.start and epoch.epoch not in found:
                found[epoch.epoch] = _moved(name, epoch.epoch, (start, a), (epoch.start, s))
    return list(found.values()), judged


def _moved(name: str, epoch: int, before: tuple[int, Said], after: tuple[int, Said]) -> Found:
    (x, a), (y, b) = before, after
    said = (
        f"Broker set {name}: epoch {epoch} begins at byte {x} by {a.view.node} (op {a.at}), and at "
        f"byte {y} by {b.view.node} (op {b.at}). Replicas find by such begins where their logs "
        "part. The next change of master will cut one of them at the wrong place, or not at all."
    )
    detail = {
        "set": name,
        "epoch": epoch,
        "starts": [x, y],
        "nodes": [a.view.node, b.view.node],
    }
    return Found("S8c", "epoch-starts-differ", (a.at, b.at), said, detail)
