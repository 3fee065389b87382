"""From when on a cluster was left in peace: nothing strikes it, and every heal was seen to hold.

What is promised of a cluster at rest (everybody is back, logs agree, writes are served) is promised
from here on. Strikes and heals are the nemesis's; brokers that come, go, move or lose their store
are operations of clients and disturb as much.
"""

from typing import NamedTuple

from checkers.evidence.acts import QUESTIONS, heals
from checkers.evidence.faults import faults
from checkers.evidence.observations import NEVER
from histories.history import History
from histories.observed import AWAIT_LEVEL, ELECT_MASTER, JOIN, LEAVE, WIPE

MEMBERSHIP = frozenset((JOIN, LEAVE, WIPE, "kill-broker", "readdress"))


class Calm(NamedTuple):
    """Index and time (ns) of the last event of the last disturbance; -1 and 0 where there was none.
    `doubt` says why the cluster may not have been left in peace."""

    at: int
    ns: int
    doubt: str


def calm_after(history: History) -> Calm:
    """When the last disturbance of a history was over."""
    at, ns, doubt = -1, 0, ""
    acts = [fault for fault in faults(history) if fault.f not in QUESTIONS]
    last_strike = max((f.begun for f in acts if not heals(f.f)), default=-1)
    for act in acts:
        at = max(at, act.begun if act.ended is None else act.ended)
        ns = max(ns, act.begun_ns if act.ended_ns is None else act.ended_ns)
        if act.ended is None:
            doubt = f"{act.f} at op {act.begun} never completed"
        elif heals(act.f) and act.begun > last_strike and not act.done:
            doubt = f"no proof that {act.f} at op {act.begun} held"
    for op in history.of_f(*sorted(MEMBERSHIP)):
        if op.is_client:
            at, ns = max(at, op.index), max(ns, op.time)
            if op.type == "invoke" and history.completion(op) is None:
                doubt = f"{op.f} at op {op.index} never completed"
    return Calm(at, ns, doubt)


def ending(history: History) -> int:
    """The index from which on replicas are made master in turn, which disturbs a cluster that was
    at rest; beyond all others where that never comes."""
    level = max((op.index for op in history.of_f(AWAIT_LEVEL)), default=NEVER)
    orders = (op.index for op in history.nemesis if op.f == ELECT_MASTER and op.index > level)
    return min(orders, default=NEVER)


def at_rest(history: History, calm: Calm) -> tuple[Calm, int]:
    """The time before any master is elected by order once replicas are level, which disturbs who is
    in sync: since the last disturbance, or the last order before, until that election, by index."""
    level = min((op.index for op in history.of_f(AWAIT_LEVEL) if op.index > calm.at), default=NEVER)
    orders = [op for op in history.nemesis if op.f == ELECT_MASTER and op.index > calm.at]
    for op in orders:
        if op.index < level:
            calm = Calm(op.index, max(calm.ns, op.time), calm.doubt)
    return calm, min((op.index for op in orders if op.index > level), default=NEVER)
