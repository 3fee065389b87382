"""Looks at all nodes, and who was found ended by itself.

The nemesis looks at every node after the last heal, and once more at the end of the run; and each
of its acts says of a node that it strikes or starts whether that had ended, or ended again. What
excuses a node is in `maxq.checkers.availability.processes`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from maxq.checkers.evidence.active_faults import InForce
from maxq.checkers.evidence.faults import Ended, Fault, faults
from maxq.checkers.evidence.observations import shaped
from maxq.histories.fault_facts import AWAIT_RECOVERY, LAST_LOOK, NOBODY, TAMPERS
from maxq.histories.history import History
from maxq.histories.op import Op

EXCUSED = "excused"


class Awaited(msgspec.Struct):
    """What the wait for recovery found. `crashed`: nodes that should run and have ended by
    themselves, with their exit codes; `excused` why some of them may; `silent` run and do not
    answer; `nodes` were looked at."""

    holds: bool
    after_ms: float = 0
    crashed: dict[str, Any] = {}
    excused: dict[str, str] = {}
    silent: list[str] = []
    nodes: int = 0


class _OfCluster(msgspec.Struct):
    cluster: Awaited


def awaited_op(history: History) -> Op | None:
    """The completion of the last wait for recovery; None if it is open."""
    waits = [op for op in history.nemesis if op.f == AWAIT_RECOVERY]
    begun = history.invocation(waits[-1]) if waits else None
    return waits[-1] if begun is not None and begun.index < waits[-1].index else None


def awaited(history: History) -> Awaited | None:
    """What the last wait for recovery found.

    Raises:
        HistoryError: it has another shape.
    """
    done = awaited_op(history)
    return None if done is None else look_in(done)


def look_in(done: Op) -> Awaited:
    """What a completed wait for recovery, or look, found.

    Raises:
        HistoryError: it has another shape.
    """
    return shaped(done.value, _OfCluster, done.index).cluster


def looks_of(history: History) -> Iterator[tuple[int, Awaited]]:
    """Every look at all processes after the last heal: at its begin, and at the end of the run.

    Raises:
        HistoryError: one has another shape.
    """
    done = awaited_op(history)
    if done is None:
        return
    yield done.index, look_in(done)
    for op in history.nemesis:
        begun = history.invocation(op)
        if op.f == LAST_LOOK and begun is not None and done.index < begun.index < op.index:
            yield op.index, look_in(op)


class Seen(NamedTuple):
    """A node was found ended, or not to start, in an act that began at `begun`."""

    node: str
    begun: int
    at: int
    ended: Ended


def ended_by_themselves(history: History) -> Iterator[Seen]:
    """Every node that was found ended by itself, or not to start, and that nothing excuses.

    Raises:
        HistoryError: a look at all nodes has another shape.
    """
    for at, found in looks_of(history):
        for node, code in sorted(found.crashed.items()):
            if node not in found.excused:
                yield Seen(node, at, at, Ended(code, starts=False))
    yield from ended_in_acts([act for act in faults(history) if act.kind != "question"])


def ended_in_acts(acts: Sequence[Fault]) -> Iterator[Seen]:
    """Nodes that acts found ended, where nothing excuses it."""
    force = InForce()
    sick: set[str] = set()  # since their last good start
    for act in acts:
        cut = force.parted()
        proofs = act.result if isinstance(act.result, dict) else {}
        for node, proof in proofs.items():
            ended = act.by_itself(proof)
            if ended is None or proof.get(EXCUSED) or node == NOBODY or node in sick:
                continue
            if ended.starts and (node in cut or _elsewhere(force, str(node))):
                continue  # judged once that is healed
            at = act.begun if act.ended is None else act.ended
            yield Seen(str(node), act.begun, at, ended)
        if act.effect == "disk" or act.f in TAMPERS:
            sick |= set(act.nodes)
        elif act.may_start and act.holds:
            # A node that was down moves with its machine, and is not started.
            sick -= act.started if act.changes_address else set(act.nodes)
        force.take(act)


def _elsewhere(force: InForce, node: str) -> bool:
    """Whether a node surely has another address than it is known by."""
    return any(d.proven and d.effect == "address" for d in force.doubts_of(node))
