"""S3b: every node that is asked for a set's state answers as one register would.

What controllers agree on of a broker set is a register with two versions: the SyncStateSet epoch
counts its changes, the master epoch its elections. Each change is a compare-and-set of the state
before it. Controllers are asked for it, and report both; a broker that leads knows of its election,
and an order to elect is answered with what it made: so they read the register too. Where a target
promises that reads are linearizable, all answers must fit one order of states: what had been
answered before a question was put is known in its answer, no matter who gave it, and of two states
the later one has no lower master epoch.

That answers of controllers go back is S3, S4 or S5, and not said twice. What is said here: an
answer is from before an election that a broker, or an answer to an order, had shown already; two
states of one SyncStateSet epoch differ in their master epoch; an election came without a change.

Each set is judged alone; the decision is the exact test of registers whose values are written once
(`maxq.checkers.linearizability.exact.registers`).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from maxq.checkers.evidence.observations import SetSighting, Sighting
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.observed import ReplicaView

MASTER, CHANGES = "master epoch", "SyncStateSet epoch"


LONG_AGO = -1


class _Read(NamedTuple):
    """A version that somebody knew at an instant between two events; a broker that leads may have
    learnt of its election `LONG_AGO`."""

    version: int
    begun: int
    at: int
    who: str


def not_one_register(
    name: str, seen: Sequence[SetSighting], replicas: Sequence[Sighting[ReplicaView]],
    grants: Sequence[SetSighting],
) -> tuple[list[Found], int]:  # fmt: skip
    """What does not fit, and how many answers of controllers came after another one was known.

    Args:
        name: the set's.
        seen: what controllers said of it.
        replicas: what its brokers said of themselves.
        grants: what orders to elect were answered.
    """
    told = [*seen, *grants]
    elections = [_Read(s.view.master_epoch, s.begun, s.at, s.node) for s in told]
    elections += [
        _Read(r.view.epochs[-1].epoch, LONG_AGO, r.at, r.view.node)
        for r in replicas
        if r.view.leads and r.view.epochs
    ]
    changes = [_Read(s.view.sync_state_set_epoch, s.begun, s.at, s.node) for s in told]
    known = min((r.at for r in elections), default=-1)
    judged = sum(known < s.begun for s in seen)
    found = [*_stale(name, MASTER, elections), *_stale(name, CHANGES, changes), *_apart(name, seen)]
    return found, judged


def _stale(name: str, what: str, reads: Sequence[_Read]) -> Iterator[Found]:
    """One answer that is older than what was known when it was asked for, if there is any."""
    if not reads:
        return
    from maxq.checkers.linearizability.calls import OK, OPEN, CallsMaker, Row
    from maxq.checkers.linearizability.exact.registers import CAS, READ, WRITE, decide

    maker = CallsMaker()
    versions = sorted({read.version for read in reads})
    # When each state was made is not known: at any time. It replaced the one before it.
    for at, version in enumerate(versions):
        row = Row(None, CAS, versions[at - 1], other=version) if at else Row(None, WRITE, version)
        maker.add(row, at, at, OPEN, at)
    first = len(versions) + len(reads)
    shown: dict[int, _Read] = {}
    for at, read in enumerate(reads, start=len(versions)):
        begun = at if read.begun == LONG_AGO else first + read.begun
        shown[begun] = read
        row = Row(None, READ, result=read.version)
        maker.add(row, begun, first + read.at, OK, first)
    decided = decide(maker.done())
    if decided is None or decided.valid is not False:
        return
    newer, older = sorted(
        (shown[begun] for begun in decided.witness if begun in shown), key=lambda r: -r.version
    )[:2]
    said = (
        f"Broker set {name}: {newer.who} knew {what} {newer.version} in op {newer.at}. After "
        f"that {older.who} was asked and answered with {what} {older.version} (op {older.at}). "
        "That answer is from before what had been decided."
    )
    yield _found(name, what, (newer, older), said)


def _apart(name: str, seen: Sequence[SetSighting]) -> Iterator[Found]:
    """Two states whose two epochs contradict each other, if there are any."""
    states = sorted(
        (s for s in seen if s.view.master is not None),
        key=lambda s: (s.view.sync_state_set_epoch, s.view.master_epoch, s.at),
    )
    for a, b in pairwise(states):
        same = a.view.sync_state_set_epoch == b.view.sync_state_set_epoch
        if a.view.master_epoch > b.view.master_epoch or (
            same and a.view.master_epoch < b.view.master_epoch
        ):
            how = (
                "both of one SyncStateSet epoch, so an election changed nothing that was counted"
                if same
                else "so a later change was made on top of an earlier election"
            )
            said = (
                f"Broker set {name}: {a.node} reported master epoch {a.view.master_epoch} with "
                f"SyncStateSet epoch {a.view.sync_state_set_epoch} (op {a.at}). {b.node} reported "
                f"master epoch {b.view.master_epoch} with {b.view.sync_state_set_epoch} "
                f"(op {b.at}), {how}."
            )
            reads = [_Read(s.view.master_epoch, s.begun, s.at, s.node) for s in (a, b)]
            yield _found(name, MASTER, (reads[0], reads[1]), said)
            return


def _found(name: str, what: str, pair: tuple[_Read, _Read], said: str) -> Found:
    a, b = pair
    detail = {
        "set": name, "of": what, "epochs": [a.version, b.version], "nodes": [a.who, b.who],
    }  # fmt: skip
    return Found("S3b", "answers-not-linearizable", (a.at, b.at), said, detail)
