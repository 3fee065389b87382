"""Accidents with stores after which a cluster can keep no promise about its messages.

Three of them. A broker that runs on a copy of another one's store while that one is away is taken
for it, as nothing but its address tells the two apart: from then on one broker id stands for two
logs, and what either of them acknowledged the other may lack. All members of a SyncStateSet may
lose their stores: no other broker need have what they acknowledged. And where unclean election is
allowed, an empty broker may become master of a set that had messages: it has no topic, and neither
have those that follow it.

A fourth is what operators do who clear the data of all controllers, as the upgrade to RocketMQ
5.1.1 has it: then these give out ids and number epochs from the beginning, and nothing that they
said before can be compared with what they say later (`maxq.checkers.evidence.eras`).

That the first is refused while the owner lives, and that even then an epoch has one master, is
claimed all the same (S1, S5).
"""

from collections import defaultdict
from collections.abc import Mapping

from maxq.checkers.core.promises import CLEAN, unfulfilled
from maxq.checkers.evidence.eras import eras_of
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import (
    NEVER,
    SetSighting,
    listed,
    replica_sightings,
    set_sightings,
)
from maxq.histories.fault_facts import COPY_STORE, TAMPERS, WIPE
from maxq.histories.history import History

Seen = list[tuple[int, int, int, str]]  # begin, end, broker id, broker set


def forfeited(history: History) -> str:
    """Why promises about messages were forfeited; empty if they were not."""
    if not any(not op.is_client for f in TAMPERS for op in history.of_f(f)):
        return ""
    acts = [act for act in faults(history) if act.f in TAMPERS and act.ended is not None]
    seen: dict[str, Seen] = defaultdict(list)
    for s in replica_sightings(history):
        if s.view.id is not None and s.view.epochs:  # it has registered
            seen[s.view.node].append((s.begun, s.at, s.view.id, s.view.set))
    return _shared(acts, seen) or _removed(acts, seen, set_sightings(history))


def copies(history: History) -> frozenset[str]:
    """Nodes whose store was last replaced by a copy of another one's, and that never ran on it:
    what is read from there is not theirs."""
    return frozenset(node for node, act in _unused(history).items() if act.f == COPY_STORE)


def replaced_by_none(history: History) -> str:
    """Which broker never ran on its damaged store, and got no other one: its set has a replica
    fewer for good, and may have too few to take messages. Empty if there is none."""
    for node, act in sorted(gone(history).items()):
        return f"{node} never ran again after the {act.f} of op {act.begun}, nor got another store"
    return ""


def gone(history: History) -> dict[str, Fault]:
    """Brokers that never ran on their damaged store, and got no other one, with the accident."""
    return {node: act for node, act in _unused(history).items() if act.f != WIPE}


def elected_empty(history: History, settings: Mapping[str, str] | None) -> str:
    """Which broker became master with no log, after its store was removed, of a set that had led
    before: allowed where unclean election is, and then its set has no topic left. Empty if there
    is none, or it was not allowed."""
    if settings is None or not unfulfilled((CLEAN,), settings) or not history.of_f(WIPE):
        return ""
    removed = [act for act in faults(history) if act.f == WIPE and act.holds]
    for s in replica_sightings(history):
        epochs, node = s.view.epochs, s.view.node
        first = epochs[0] if epochs else None
        if not s.view.leads or first is None or first.start or first.epoch == 1:
            continue
        wiped = any(node in act.nodes and _ended(act) < s.begun for act in removed)
        if wiped and len(epochs) == 1:
            return (
                f"{node} was elected in epoch {first.epoch} without a log, after its store was "
                f"removed (op {s.at}): the topics of {s.view.set} are gone. "
                f"{CLEAN.key.partition(':')[2]}=true allows that"
            )
    return ""


def unsettled(history: History) -> dict[str, list[tuple[int, int]]]:
    """From when to when (indexes) brokers had a damaged store, or a copy of another one's, and had
    not been seen to run on it: each may refuse it, and end, or go on to ask for its id."""
    acts = [act for act in faults(history) if act.f in TAMPERS and act.holds]
    ran = [s for s in replica_sightings(history) if s.view.epochs] if acts else []
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for at, act in enumerate(acts):
        for node in act.nodes if act.f != WIPE else ():
            wiped = (a.begun for a in acts[at + 1 :] if a.f == WIPE and node in a.nodes)
            seen = (s.at for s in ran if s.view.node == node and s.begun > _ended(act))
            until = min(next(wiped, NEVER), next(seen, NEVER))
            found[node].append((act.begun, until))
    return found


def begun_anew(history: History) -> str:
    """Which act removed the stores of most controllers first; empty if none did."""
    for wipe in eras_of(history).wipes:
        return (
            f"the stores of {listed(wipe.nodes)} were removed (op {wipe.begun}), which are most of "
            "the controllers: their ids and epochs start over"
        )
    return ""


def _unused(history: History) -> dict[str, Fault]:
    """Brokers that never ran on what an accident had left of their store, with the accident."""
    last: dict[str, Fault] = {}
    for act in faults(history) if any(map(history.of_f, TAMPERS)) else ():
        if act.f in TAMPERS and act.holds:
            last |= dict.fromkeys(act.nodes, act)
    if not last:
        return {}
    own = [s for s in replica_sightings(history) if s.view.epochs and s.view.node in last]
    ran = {s.view.node for s in own if s.begun > _ended(last[s.view.node])}
    known = {s.view.node for s in own}
    return {node: act for node, act in last.items() if node in known - ran}


def _shared(acts: list[Fault], seen: dict[str, Seen]) -> str:
    """Who ran on a copy, under the id of the copy's owner."""
    for at, act in enumerate(acts):
        if act.f != COPY_STORE:
            continue
        for node in act.nodes:
            own = [i for _, end, i, _ in seen[node] if end < act.begun][-1:]
            others = (a for a in acts[at + 1 :] if node in a.nodes and a.f in (COPY_STORE, WIPE))
            until = next((a.begun for a in others), None)
            ran = [
                (begin, i) for begin, _, i, _ in seen[node]
                if begin > _ended(act) and (until is None or begin < until) and [i] != own
            ]  # fmt: skip
            if ran:
                return (
                    f"{node} ran on a copy of another broker's store, under its id {ran[0][1]} "
                    f"(op {ran[0][0]}): the id stands for two logs"
                )
    return ""


def _removed(acts: list[Fault], seen: dict[str, Seen], sets: dict[str, list[SetSighting]]) -> str:
    """Which SyncStateSet lost the store of its last member."""
    gone: dict[str, set[int]] = defaultdict(set)
    for act in acts:
        for node in act.nodes if act.f == WIPE else ():
            before = [(i, of) for _, end, i, of in seen[node] if end < act.begun]
            if not before:
                continue
            broker_id, of = before[-1]
            gone[of].add(broker_id)
            for members in _members(sets.get(of, []), act):
                if members and members <= gone[of]:
                    ids = " and ".join(map(str, sorted(members)))
                    return (
                        f"the store of {node} was removed (op {act.begun}), and the SyncStateSet "
                        f"of {of} was {ids}: none of it has its store"
                    )
    return ""


def _members(said: list[SetSighting], act: Fault) -> list[set[int]]:
    """The SyncStateSet before an act, and those after it: an election that was proposed before the
    act may be committed long after it, and leave the removed one as the only member."""
    before = [s for s in said if s.at < act.begun][-1:]
    after = [s for s in said if s.begun > _ended(act)]
    return [set(s.view.sync_state_set) for s in (*before, *after)]


def _ended(act: Fault) -> int:
    return act.begun if act.ended is None else act.ended
