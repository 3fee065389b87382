"""S7: who is elected was in the SyncStateSet before.

From SyncStateSet epoch s to s+1 there is exactly one change. If the master epoch grew as well, that
change was the election, and who was elected must be in the set of epoch s. The set after an
election is the elected alone, and grows again as soon as others have copied its log, so observers
may never see it; the answer to an order to elect names its epoch. The first election of a set
chooses from no set: not S7.

Source: docs/spec/controller-ha.md 6.3.
"""

from collections import defaultdict
from collections.abc import Sequence

from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import SetSighting, listed, shaped
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.fault_facts import ELECT_MASTER
from maxq.histories.history import History
from maxq.histories.observed import GRANTED, Grant, SetView

Seen = Sequence[SetSighting]


def granted(history: History) -> dict[str, list[SetSighting]]:
    """What orders to elect were answered, by broker set.

    Raises:
        HistoryError: a grant has another shape.
    """
    found: dict[str, list[SetSighting]] = defaultdict(list)
    for fault in faults(history):
        if fault.f != ELECT_MASTER or fault.ended is None or not isinstance(fault.result, dict):
            continue
        for node, proof in fault.result.items():
            if not isinstance(proof, dict) or GRANTED not in proof:
                continue
            grant = shaped(proof[GRANTED], Grant, fault.ended)
            state = SetView(
                master=grant.master, master_address="", replicas={},
                master_epoch=grant.master_epoch, sync_state_set=(grant.master,),
                sync_state_set_epoch=grant.sync_state_set_epoch,
            )  # fmt: skip
            times = (fault.begun, fault.ended, fault.begun_ns, fault.ended_ns or -1)
            found[grant.set].append(SetSighting(*times, node, state))
    return dict(found)


def outsiders(name: str, seen: Seen, grants: Seen) -> tuple[list[Found], int]:
    """S7, and how many elections could be judged."""
    before: dict[int, dict[tuple[int, ...], SetSighting]] = defaultdict(dict)
    elected: dict[tuple[int, int, int], SetSighting] = {}
    found: list[Found] = []
    for s in seen:
        v = s.view
        known = before[v.sync_state_set_epoch]
        # Of one set under one number the earliest master epoch proves most.
        old = known.setdefault(v.sync_state_set, s)
        if v.master_epoch < old.view.master_epoch:
            known[v.sync_state_set] = s
        if v.master is None:
            continue
        state = (v.sync_state_set_epoch, v.master_epoch, v.master)
        if v.master not in v.sync_state_set and state not in elected:
            found.append(_outside(name, s, s))
        elected.setdefault(state, s)
    for s in grants:
        v = s.view
        elected.setdefault((v.sync_state_set_epoch, v.master_epoch, v.master or 0), s)
    judged = 0
    for (number, epoch, master), b in elected.items():
        sets = [a for a in before.get(number - 1, {}).values() if a.view.sync_state_set]
        sets = [a for a in sets if a.view.master_epoch < epoch]
        judged += bool(sets)
        found += [_outside(name, a, b) for a in sets if master not in a.view.sync_state_set]
    return found, judged


def _outside(name: str, a: SetSighting, b: SetSighting) -> Found:
    members = listed(a.view.sync_state_set) or "no member"
    said = (
        f"Broker set {name}: broker {b.view.master} became master of epoch {b.view.master_epoch} "
        f"({b.node}, op {b.at}). The SyncStateSet that it was elected from was {members} "
        f"({a.node}, op {a.at}). What only those members had acknowledged may be gone."
    )
    detail = {
        "set": name,
        "master": b.view.master,
        "epoch": b.view.master_epoch,
        "sync-state-set": list(a.view.sync_state_set),
        "sync-state-set-epoch": a.view.sync_state_set_epoch,
    }
    return Found("S7", "master-outside-set", (a.at, b.at), said, detail)
