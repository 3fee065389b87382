"""Which faults are in effect after an action of the nemesis, and whom they leave connected.

Followed action by action, from what the nemesis completed with. A node is *gone* once it was seen
to end or to be held, until it was seen to start or to go on: it says nothing, and everybody may
notice that. It is *doubtful* from a fault that impairs it (disk, delay, address, any fault without
proof) until that is surely over. Cuts are pairs: who takes no packets from whom. A wall clock that
is wrong is no fault here, since nothing of a cluster of ours goes by it; where nodes go by it, as
RocketMQ's do, the run has declared that they feel it, and then it impairs them.

What is left is sound. `connected` are the sound nodes around a majority of controllers, if no cut
parts any two of them; every other sound node is then cut off from all of them, both ways.

Which times are undisturbed: see `maxq.checkers.evidence.quiescence`.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from maxq.checkers.evidence.faults import HOLDS, Fault
from maxq.histories.fault_facts import AWAIT_RECOVERY, GONE, NOBODY, Effect, FaultFacts

CLIENT = "client"  # whom cuts call so
STAYS = "stays"  # an argument: the change is for good, and the node sound with it
ENDED = "ended"  # a disk may have ended its node, without any record

Pair = tuple[str, str]  # who takes no packets, from whom


class Doubt(NamedTuple):
    """Why a node may not work: an act (or `ENDED`), its effect, and whether it was proven."""

    f: str
    effect: Effect | None
    proven: bool


class State(NamedTuple):
    """What is in force at a time."""

    gone: frozenset[str]
    doubtful: frozenset[str]
    cuts: frozenset[Pair]


class InForce:
    """What the nemesis has done and not undone."""

    def __init__(self) -> None:
        self._gone: dict[str, set[Effect]] = {}  # by node: down, held
        self._doubts: dict[str, set[Doubt]] = {}
        self._cuts: dict[str, frozenset[Pair]] = {}  # by act
        self.lost = False  # the state is not known any more

    @property
    def state(self) -> State:
        """What is in force now."""
        return State(
            gone=frozenset(n for n, why in self._gone.items() if why),
            doubtful=frozenset(n for n, why in self._doubts.items() if why),
            cuts=frozenset(pair for pairs in self._cuts.values() for pair in pairs),
        )

    def parted(self) -> frozenset[str]:
        """Nodes of which some cut is in force."""
        return frozenset(n for pairs in self._cuts.values() for pair in pairs for n in pair)

    def doubts_of(self, node: str) -> frozenset[Doubt]:
        """Why a node may not work."""
        return frozenset(self._doubts.get(node, ()))

    def take(self, fault: Fault) -> None:
        """An action is over, or never will be."""
        done = fault.result
        if fault.f == AWAIT_RECOVERY and fault.holds:
            self._all_run(fault)
        if fault.harmless:
            return
        if fault.ended is None or not isinstance(done, dict) or not _bounded(fault):
            self.lost = True
            return
        if fault.effect == "cut" and not fault.passes:
            self._cut(fault, done)
        elif fault.facts is None and fault.cuts:
            self._heal(fault)
        if only_cuts(fault):
            return
        for node, proof in done.items():
            if node != NOBODY:
                held = isinstance(proof, dict) and proof.get(HOLDS) is True
                self._node(fault, node, held=held)

    def _node(self, fault: Fault, node: str, *, held: bool) -> None:
        gone, doubts = self._gone.setdefault(node, set()), self._doubts.setdefault(node, set())
        facts = fault.facts
        if held and node in fault.started:
            gone.clear()  # a new process is neither down nor held, whatever the last one was
        if not held:
            doubts.add(Doubt(fault.f, fault.effect, proven=False))
        elif facts is None:
            self._ended(fault, gone, doubts)
        elif facts.silences:
            if facts.effect == "down":
                gone.discard("held")  # who ended is held no more
            gone.add(facts.effect)
        elif facts.doubtful and not facts.passes and not fault.args.get(STAYS):
            doubts.add(Doubt(fault.f, facts.effect, proven=True))
            if any(fault.args.get(kind) for kind in facts.may_end_by):
                doubts.add(Doubt(ENDED, None, proven=True))  # until it is started

    def _all_run(self, fault: Fault) -> None:
        """All processes were looked at: none has ended, and each was started that should be."""
        for doubts in self._doubts.values():
            for doubt in list(doubts):
                if doubt.f == ENDED or not (doubt.proven or not _stops_or_starts(fault, doubt.f)):
                    doubts.discard(doubt)

    def _ended(self, fault: Fault, gone: set[Effect], doubts: set[Doubt]) -> None:
        """What a heal ended on a node."""
        kinds = fault.ends
        ended = {fault.f, *(kind.strikes for kind in kinds)}
        back = {kind.effect for kind in kinds if kind.silences}
        gone -= back
        for doubt in list(doubts):
            # Started or gone on for sure: what could not be proven before is over.
            proven = bool(back) and not doubt.proven and _stops_or_starts(fault, doubt.f)
            started = "down" in back and doubt.f == ENDED
            if proven or started or doubt.f in ended:
                doubts.discard(doubt)

    def _cut(self, fault: Fault, done: dict[Any, Any]) -> None:
        pairs = set()
        for to, proof in done.items():
            sources = proof.get("from") if isinstance(proof, dict) else None
            if to != NOBODY and (not isinstance(sources, dict | list) or not fault.holds):
                self.lost = True
                return
            pairs |= {(str(to), str(source)) for source in sources or ()}
        # A schedule names its cuts; another nemesis has one, which the next replaces.
        self._cuts[str(fault.request) if fault.asked else ""] = frozenset(pairs)

    def _heal(self, fault: Fault) -> None:
        if not fault.holds:
            self.lost = True
        elif fault.of:
            self._cuts.pop(fault.of, None)
        else:
            self._cuts.clear()


def _concerned(fault: Fault) -> Sequence[FaultFacts]:
    """The kind that an act begins, or those that it heals."""
    return (fault.facts,) if fault.facts is not None else fault.ends


def _bounded(fault: Fault) -> bool:
    """Whether it is known what an act leaves in force, and until when."""
    return fault.known and (fault.facts is None or fault.facts.bounded)


def only_cuts(fault: Fault) -> bool:
    """Whether an act begins a cut, or ends one, and does nothing else."""
    kinds = _concerned(fault)
    return bool(kinds) and all(kind.effect == "cut" and not kind.passes for kind in kinds)


def leaves_ways(fault: Fault) -> bool:
    """Whether an act leaves the network between its node and others as it is."""
    kinds = _concerned(fault)
    leave = all(kind.harmless or kind.effect in GONE for kind in kinds)
    return _bounded(fault) and (leave or only_cuts(fault))


def _stops_or_starts(fault: Fault, f: str) -> bool:
    """Whether an act stops processes, starts them, or both."""
    of, ends = fault.kinds.of(f), fault.kinds.ended_by(f)
    stops = of is not None and of.effect in GONE and of.bounded
    return stops or any(kind.silences for kind in ends)


def connected(
    state: State, controllers: Collection[str], others: Collection[str]
) -> frozenset[str] | None:
    """The sound nodes around a majority of controllers; None where there is none, or where cuts
    part something in one direction only, or leave a way around.

    Args:
        state: what is in force.
        controllers: all of them.
        others: all other nodes.
    """
    away = state.gone | state.doubtful
    sound = [n for n in sorted({*controllers, *others}) if n not in away]
    if any(CLIENT in pair for pair in state.cuts):
        return None
    for group in _groups(sound, state.cuts):
        if 2 * len(group & set(controllers)) > len(controllers):
            parted = any(a in group and b in group for a, b in state.cuts)
            return None if parted else group
    return None


def _groups(nodes: Sequence[str], cuts: Collection[Pair]) -> Iterator[frozenset[str]]:
    """Nodes that any way joins, one direction or both."""
    left = set(nodes)
    while left:
        group = {min(left)}
        edge = set(group)
        while edge:
            one = edge.pop()
            near = {n for n in left - group if (one, n) not in cuts or (n, one) not in cuts}
            group |= near
            edge |= near
        left -= group
        yield frozenset(group)
