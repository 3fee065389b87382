"""Masters that were replaced although nothing was wrong with them.

Controllers elect another master once they do not hear the old one, or where an operator orders it.
Between two answers of controllers that name different masters there was an election. It was
needless if, for the recovery bound before the first of them and until the second,

1. no act struck the master or a controller, none parted them, and nobody ordered an election; their
   wall clocks were right, and no broker joined, left or moved;
2. the same controller led all the while: one that is new has heard nobody yet;
3. the master answered all the while, and again after the election, with at most `SILENT_NS` in
   between: it was no process that was paused or ended by itself;
4. with as many slaves as make a majority of its set it was neither parted nor were they down.

Whatever of this is not known excuses the election. Claim: S18 (docs/spec/controller-ha.md 6.3).
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from maxq.checkers.availability.known_by import KnownBy
from maxq.checkers.core.api import Context
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import SetSighting, Sighting
from maxq.checkers.evidence.quiescence import MEMBERSHIP, Interval, Undisturbed
from maxq.checkers.evidence.verdicts import Case, Found
from maxq.histories.fault_facts import CHANGE_LEADER, ELECT_MASTER
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView

SILENT_NS = 1_500_000_000  # half of the shortest time after which a broker counts as dead
ORDERS = frozenset((ELECT_MASTER, CHANGE_LEADER))


def judge(history: History, context: Context, case: Case, known: KnownBy) -> None:
    """Note in a case how often an election would have been needless, and each that was."""
    if not context.has_ids:
        return
    watch = _Watch(history, context, known)
    for name, seen in known.answers.items():
        if name in context.broker_sets:
            case.judged["S18"] += watch.quiet(name, seen)
            case.found += watch.needless(name, seen)


class _Watch:
    def __init__(self, history: History, context: Context, known: KnownBy) -> None:
        self._acts = faults(history)
        self._undisturbed = Undisturbed(a for a in self._acts if a.kind != "question")
        self._context, self._known = context, known
        leaders = {s.node[:1] for seen in known.answers.values() for s in seen}
        self._controllers = [n for n in self._undisturbed.named if n[:1] in leaders]
        self._moved = [op.time for op in history.of_f(*sorted(MEMBERSHIP)) if op.is_client]

    def quiet(self, name: str, seen: Sequence[SetSighting]) -> int:
        """In how many undisturbed times controllers were asked about a set, beyond the bound."""
        nodes = [*self._context.broker_sets[name], *self._controllers]
        spans = self._undisturbed.of(nodes)
        return sum(
            any(s.begun_ns >= time.at_ns + self._context.recovery_ns and time.holds(s.begun, s.at)
                for s in seen)
            for time in spans
        )  # fmt: skip

    def needless(self, name: str, seen: Sequence[SetSighting]) -> Iterator[Found]:
        """The elections of a set that nothing asked for."""
        by_end = sorted(seen, key=lambda s: s.at)
        for before, after in pairwise(by_end):
            old, new = before.view.master, after.view.master
            if old is None or old == new or before.epoch >= after.epoch:
                continue
            said = [s for s in self._known.replicas if s.view.set == name and s.view.id == old]
            ran = self._ran(said, before, after)
            if ran is not None and self._nothing_excuses(
                name, ran.view.node, by_end, before, after
            ):
                yield self._found(name, ran, before, after)

    def _ran(
        self, said: Sequence[Sighting[ReplicaView]], before: SetSighting, after: SetSighting
    ) -> Sighting[ReplicaView] | None:
        """What a master said last before it was replaced, if it ran all the while."""
        since_ns = before.begun_ns - self._context.recovery_ns
        near = sorted((s for s in said if s.at_ns >= since_ns), key=lambda s: s.begun_ns)
        then = next((n for n, s in enumerate(near) if s.begun > after.at), None)
        if not then:
            return None
        near = near[: then + 1]
        times = [since_ns, *(s.begun_ns for s in near)]
        same = len({(s.view.node, s.view.address) for s in near}) == 1
        late = any(b - a > SILENT_NS for a, b in pairwise(times))
        slow = any(s.at_ns - s.begun_ns > SILENT_NS for s in near)
        last = near[then - 1]
        led = any(s.view.leads and s.at < after.at for s in near)
        return last if same and led and not late and not slow else None

    def _nothing_excuses(
        self, name: str, master: str, seen: Sequence[SetSighting], before: SetSighting,
        after: SetSighting,
    ) -> bool:  # fmt: skip
        """Whether nothing excuses an election between two answers."""
        since_ns = before.begun_ns - self._context.recovery_ns
        within = [s for s in seen if since_ns <= s.begun_ns and s.at <= after.at]
        times = [since_ns, *(s.begun_ns for s in within)]
        if any(b - a > SILENT_NS for a, b in pairwise(times)) or len({s.node for s in within}) > 1:
            return False
        if any(since_ns <= ns <= after.at_ns for ns in self._moved):
            return False
        own = {*self._context.broker_sets[name], *self._controllers}
        if any(_disturbs(act, own, since_ns, after.at) for act in self._acts):
            return False
        holds = [
            self._calm([master, node, *self._controllers], since_ns, before, after)
            for node in self._context.broker_sets[name]
        ]
        alone = self._calm([master, *self._controllers], since_ns, before, after)
        return alone and 2 * sum(holds) > len(holds)

    def _calm(
        self, nodes: Sequence[str], since_ns: int, before: SetSighting, after: SetSighting
    ) -> bool:
        time: Interval | None = self._undisturbed.of(nodes).at(before.begun)
        return time is not None and time.at_ns <= since_ns and after.at < time.until

    def _found(
        self, name: str, ran: Sighting[ReplicaView], before: SetSighting, after: SetSighting
    ) -> Found:
        new = self._known.called(name, after.view.master)
        bound_s = self._context.recovery_ns / 1e9
        now = "nobody" if after.view.master is None else new
        said = (
            f"Broker set {name}: {ran.view.node} led in epoch {before.view.master_epoch} "
            f"({before.node}, op {before.at}) and ran (op {ran.at}). {after.node}, which led the "
            f"controllers all the while, has {now} as master of epoch {after.view.master_epoch} "
            f"(op {after.at}). For {bound_s:g} s before nothing had struck or parted the master "
            "and the controllers. Most of its set could reach it, and nobody had ordered an "
            "election."
        )
        detail = {"set": name, "node": ran.view.node, "epoch": after.view.master_epoch}
        return Found("S18", "healthy-master-replaced", (before.at, ran.at, after.at), said, detail)


def _disturbs(act: Fault, own: set[str], since_ns: int, until: int) -> bool:
    """Whether an act may be why there was an election: one of that time that touches the set or
    controllers, or parts anybody, or orders one; a clock that was set at any time before."""
    if act.begun > until:
        return False
    if act.effect == "clock":
        return not own.isdisjoint(act.nodes)
    if act.ended_ns is not None and act.ended_ns < since_ns:
        return False
    if act.f in ORDERS or act.effect in ("cut", "order") or act.cuts or not act.known:
        return True
    return act.kind != "question" and not own.isdisjoint(act.nodes)
