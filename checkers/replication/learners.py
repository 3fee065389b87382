"""S17: a learner is a member of no SyncStateSet.

A learner copies its master's log and is never waited for, so that nobody may rely on what it has: a
member that is one would be elected with less than was acknowledged. It is known by the id that it
says it has. One that leads was elected from no set, which S7 judges.

Source: docs/spec/controller-ha.md 4.9.
"""

from collections.abc import Collection, Iterator, Sequence

from maxq.checkers.evidence.observations import SetSighting, Sighting, listed
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.observed import ReplicaView


def members_that_learn(
    name: str,
    seen: Sequence[SetSighting],
    replicas: Sequence[Sighting[ReplicaView]],
    learners: Collection[str],
) -> tuple[list[Found], int]:
    """S17 of one broker set, and how many answers of controllers could show it.

    Args:
        name: the set's.
        seen: what controllers said of it.
        replicas: what its brokers said of themselves.
        learners: names of nodes.
    """
    known: dict[int, Sighting[ReplicaView]] = {}
    for s in replicas:
        if s.view.node in learners and s.view.id is not None:
            known.setdefault(s.view.id, s)
    able = [s for s in seen if any(str(id_) in s.view.replicas for id_ in known)]
    return [*_first_of_each(name, able, known)], len(able)


def _first_of_each(
    name: str, seen: Sequence[SetSighting], known: dict[int, Sighting[ReplicaView]]
) -> Iterator[Found]:
    """The first answer for each learner and master epoch."""
    reported: set[tuple[int, int]] = set()
    for s in seen:
        for member in s.view.sync_state_set:
            once = (member, s.view.master_epoch)
            if member in known and member != s.view.master and once not in reported:
                reported.add(once)
                yield _joined(name, s, known[member])


def _joined(name: str, s: SetSighting, learner: Sighting[ReplicaView]) -> Found:
    view = learner.view
    said = (
        f"Broker set {name}: {view.node} (broker {view.id}, op {learner.at}) is a learner, and the "
        f"SyncStateSet of epoch {s.view.sync_state_set_epoch} is "
        f"{listed(s.view.sync_state_set)} ({s.node}, op {s.at}). It can be elected."
    )
    detail = {
        "set": name,
        "node": view.node,
        "id": view.id,
        "sync-state-set": list(s.view.sync_state_set),
        "sync-state-set-epoch": s.view.sync_state_set_epoch,
        "epoch": s.view.master_epoch,
    }
    return Found("S17", "learner-in-set", (learner.at, s.at), said, detail)
