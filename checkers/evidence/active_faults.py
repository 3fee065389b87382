"""Which faults are in force between two actions of the nemesis, and whom they leave connected.

Followed action by action, from what the nemesis completed with. A node is *gone* once it was seen
to end or to be held, until it was seen to start or to go on: it says nothing, and everybody may
notice that. It is *doubtful* from a fault that leaves it half alive (its disk, slow ways, another
address, any fault without proof) until that is surely over. Cuts are pairs: who takes no packets
from whom. A wall clock that is wrong is no fault here, since nothing of a cluster goes by it.

What is left is sound. `connected` are the sound nodes around a majority of controllers, if no cut
parts any two of them; whoever else is sound is then cut off from all of them, both ways.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from checkers.evidence.acts import QUESTIONS
from checkers.evidence.faults import HOLDS, Fault, faults
from checkers.evidence.observations import NEVER
from histories.history import History
from histories.observed import AWAIT_RECOVERY

CLIENT = "client"  # whom cuts call so
NOBODY = "nobody"
GONE_BY = {"kill": "down", "terminate": "down", "power-loss": "down", "pause": "held"}
BACK_BY = {"start": "down", "resume": "held"}
DOUBTED_BY = {"start-disk-fault": "disk", "start-delay": "delay", "change-ip": "address"}
DOUBT_ENDS_BY = {"stop-disk-fault": "disk", "stop-delay": "delay", "restore-ip": "address"}
ENDING = ("full", "frozen")  # what a disk may do that ends its node: nobody tells whether it did
MOMENTARY = ("restart",)
HARMLESS = frozenset(("bump-clock", "reset-clock", "order-election", "apply-ids", *QUESTIONS))
CUTTING = frozenset(("start-partition", "stop-partition"))
# What leaves the ways between all others as they are.
APART = frozenset((*GONE_BY, *BACK_BY, *MOMENTARY, *HARMLESS, *CUTTING))
KNOWN = frozenset((*GONE_BY, *BACK_BY, *DOUBTED_BY, *DOUBT_ENDS_BY, *MOMENTARY))

Pair = tuple[str, str]  # who takes no packets, from whom


class Lull(NamedTuple):
    """A time between two actions of the nemesis: after index `at`, before index `until`."""

    at: int
    at_ns: int
    until: int
    until_ns: int
    gone: frozenset[str]
    doubtful: frozenset[str]
    cuts: frozenset[Pair]


class Span(NamedTuple):
    """A time after index `at`, and `since_ns`, and before index `until`."""

    at: int
    since_ns: int
    until: int


class InForce:
    """What the nemesis has done and not undone."""

    def __init__(self) -> None:
        self._gone: dict[str, set[str]] = {}  # by node: down, held
        self._doubts: dict[str, set[str]] = {}
        self._cuts: dict[str, frozenset[Pair]] = {}  # by act
        self.lost = False  # nobody can say any more

    def lull(self, after: Fault, until: int, until_ns: int) -> Lull:
        """What is in force after an action."""
        return Lull(
            at=-1 if after.ended is None else after.ended,
            at_ns=after.ended_ns or 0,
            until=until,
            until_ns=until_ns,
            gone=frozenset(n for n, why in self._gone.items() if why),
            doubtful=frozenset(n for n, why in self._doubts.items() if why),
            cuts=frozenset(pair for pairs in self._cuts.values() for pair in pairs),
        )

    def parted(self) -> frozenset[str]:
        """Nodes of which some cut is in force."""
        return frozenset(n for pairs in self._cuts.values() for pair in pairs for n in pair)

    def doubts_of(self, node: str) -> frozenset[str]:
        """What leaves a node half alive: by kind of fault (`DOUBTED_BY`), or an act without
        proof."""
        return frozenset(self._doubts.get(node, ()))

    def take(self, fault: Fault) -> None:
        """An action is over, or never will be."""
        done = fault.result
        if fault.ended is None or not isinstance(done, dict):
            self.lost = self.lost or fault.f not in HARMLESS
        elif fault.f == "start-partition":
            self._cut(fault, done)
        elif fault.f == "stop-partition":
            self._heal(fault, done)
        elif fault.f not in KNOWN:
            self.lost = self.lost or fault.f not in HARMLESS
        else:
            for node, proof in done.items():
                if node != NOBODY:
                    held = isinstance(proof, dict) and proof.get(HOLDS) is True
                    self._node(fault, node, held=held)

    def _node(self, fault: Fault, node: str, *, held: bool) -> None:
        f = fault.f
        gone, doubts = self._gone.setdefault(node, set()), self._doubts.setdefault(node, set())
        if not held:
            doubts.add(f)
        elif f in GONE_BY:
            if f != "pause":
                gone.discard("held")  # who ended is held no more
            gone.add(GONE_BY[f])
        elif f in BACK_BY:
            gone.discard(BACK_BY[f])
            # Started or gone on for sure: what could not be proven before is over.
            doubts -= {*GONE_BY, *BACK_BY, *MOMENTARY}
            if f == "start":
                doubts.discard("ended")
        elif f in DOUBTED_BY and not fault.args.get("stays"):
            doubts.add(DOUBTED_BY[f])
            if any(fault.args.get(kind) for kind in ENDING):
                doubts.add("ended")  # until somebody starts it, or nobody knows
        elif f in DOUBT_ENDS_BY:
            ends = DOUBT_ENDS_BY[f]
            doubts -= {ends, f, *(k for k, v in DOUBTED_BY.items() if v == ends)}

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

    def _heal(self, fault: Fault, done: dict[Any, Any]) -> None:
        if not fault.holds:
            self.lost = True
        elif fault.of:
            self._cuts.pop(fault.of, None)
        else:
            self._cuts.clear()


def lulls(history: History) -> Iterator[Lull]:
    """The times between actions, in order, as long as anybody can say what is in force. Not before
    the first action, nor after the last, nor once everything is healed and waited for."""
    force = InForce()
    for act, then in pairwise(faults(history)):
        if act.f == AWAIT_RECOVERY:
            return
        force.take(act)
        if force.lost:
            return
        if act.ended is not None:
            yield force.lull(act, then.begun, then.begun_ns)


def calms(
    acts: Sequence[Fault], nodes: Collection[str], peers: Collection[str] = ()
) -> Iterator[Span]:
    """The times in which nothing is done to certain nodes and no cut parts them, as long as anybody
    can say. Anything may happen to others meanwhile.

    Args:
        acts: everything that the nemesis did, in order.
        nodes: whom it leaves in peace.
        peers: whom it may end or start, and does nothing else to; no cut parts them from `nodes`.
    """
    force, concerned = InForce(), {*nodes, *peers}
    at, since_ns, calm = -1, 0, True
    for act in acts:
        touched = {*act.nodes}
        disturbs = act.f not in CUTTING and not touched.isdisjoint(nodes)
        disturbs = disturbs or (act.f not in APART and not touched.isdisjoint(peers))
        disturbs = act.f not in HARMLESS and (disturbs or act.ended is None)
        force.take(act)
        now = force.lull(act, NEVER, NEVER)
        cut = any(a in concerned and b in concerned for a, b in now.cuts)
        if calm and (disturbs or cut or force.lost):
            yield Span(at, since_ns, act.begun)
            calm = False
        if force.lost:
            return
        sound = concerned.isdisjoint(now.doubtful) and now.gone.isdisjoint(nodes)
        if not calm and sound and not cut and act.ended is not None:
            at, since_ns, calm = act.ended, act.ended_ns or 0, True
    if calm:
        yield Span(at, since_ns, NEVER)


def connected(
    lull: Lull, controllers: Collection[str], others: Collection[str]
) -> frozenset[str] | None:
    """The sound nodes around a majority of controllers; None where there is none, or where cuts
    part something in one direction only, or leave a way around.

    Args:
        lull: what is in force.
        controllers: all of them.
        others: all other nodes.
    """
    away = lull.gone | lull.doubtful
    sound = [n for n in sorted({*controllers, *others}) if n not in away]
    if any(CLIENT in pair for pair in lull.cuts):
        return None
    for group in _groups(sound, lull.cuts):
        if 2 * len(group & set(controllers)) > len(controllers):
            parted = any(a in group and b in group for a, b in lull.cuts)
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
