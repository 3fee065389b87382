"""Undisturbed name servers list every running broker (N6), and the master as master (N10).

What is judged is an answer of a name server between two of the broker itself, both of one address.
Claims and their exceptions: the text of `routes`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

from maxq.checkers.evidence.faults import Fault, may_start
from maxq.checkers.evidence.observations import NEVER, SetSighting, Sighting
from maxq.checkers.evidence.quiescence import Interval, Spans, Undisturbed
from maxq.checkers.evidence.verdicts import Found
from maxq.histories.fault_facts import CHANGE_LEADER, ELECT_MASTER
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView, RouteView

MASTER = "0"  # the role id of a master in routes

Answers = Sequence[Sighting[RouteView]]
Replicas = Sequence[Sighting[ReplicaView]]


def within(s: Sighting[RouteView], due: Interval) -> bool:
    """Whether an answer is of a span, as a whole."""
    return s.begun > due.at and s.begun_ns > due.at_ns and s.at < due.until


def by_node(answers: Answers) -> dict[str, list[Sighting[RouteView]]]:
    """The answers of each name server."""
    reported: dict[str, list[Sighting[RouteView]]] = {}
    for s in answers:
        reported.setdefault(s.view.node, []).append(s)
    return reported


def by_broker(replicas: Replicas) -> dict[str, list[Sighting[ReplicaView]]]:
    """What each broker said of itself."""
    lives: dict[str, list[Sighting[ReplicaView]]] = {}
    for s in replicas:
        lives.setdefault(s.view.node, []).append(s)
    return lives


# N6.


class Living(NamedTuple):
    """A broker that answered before and after a name server did; the time in which nothing was done
    to either; whether the broker must be listed."""

    broker: Sighting[ReplicaView]
    after: Sighting[ReplicaView]
    answer: Sighting[RouteView]
    span: Interval
    due: bool = False

    def lists(self, role: str = "") -> bool:
        """Whether it is listed, or listed as this."""
        view = self.broker.view
        listed = self.answer.view.sets.get(view.set, {})
        return view.address in ([listed.get(role)] if role else listed.values())


class Welcome:
    """Who may be listed: a broker registers with name servers once controllers have given it its
    role, and from then on without them. Without controllers it does so once it is in its group. Who
    lost its power, or was cut off when it ended, is listed on until its entry expires, also when it
    is back: to be listed is no sign of its present life.

    Args:
        answers: of name servers, in order.
        acts: everything that the nemesis did.
        controllers: all of them; None: there are none, and pairs say for themselves who is in.
        bound_ns: for recovery.
    """

    def __init__(
        self,
        answers: Answers,
        acts: Sequence[Fault],
        controllers: Collection[str] | None,
        bound_ns: int,
    ) -> None:
        self.bound_ns = bound_ns
        self.undisturbed = Undisturbed(acts)
        self._acts, self._controllers = acts, controllers
        self._appeared = _appeared(answers)
        self._lives: dict[str, tuple[list[int], list[int]]] = {}  # by broker: its starts, its ends

    def has(self, node: str, address: str, before: int, at: Sighting[RouteView]) -> bool:
        """Whether a broker had registered in the life that it had before an operation: a name
        server listed it that had not done so since its former life ended, or by the time of an
        answer it and the controllers had been undisturbed for the recovery bound."""
        if self._controllers is not None:
            span = self.undisturbed.of([node, *self._controllers]).at(at.begun)
            if span is not None and within(at, span._replace(at_ns=span.at_ns + self.bound_ns)):
                return True
        ended, begun = self._life(node, before)
        listed = self._appeared.get(address, ())
        first, last = (bisect_left(listed, at, key=_seen) for at in (begun + 1, before))
        return any(absent >= ended for absent, _ in listed[first:last])

    def _life(self, node: str, before: int) -> tuple[int, int]:
        """When a broker's life before the one that it has then was over, and when this one began;
        -1 in its first."""
        if node not in self._lives:
            starts = [_over(a) for a in self._acts if may_start(a, node)]
            ends = [_over(a) for a in self._acts if a.brings_down and node in a.nodes]
            self._lives[node] = [-1, -1, *sorted(starts)], sorted(ends)
        starts, ends = self._lives[node]
        born = max(bisect_left(starts, before) - 1, 1)
        former, last = starts[born - 1 : born + 1]
        # Who ended by itself may have done so at any time until it was started.
        ended = bisect_left(ends, last) - 1
        return (ends[ended] if ended >= 0 and ends[ended] > former else last), last


def _seen(appeared: tuple[int, int]) -> int:
    return appeared[1]


def _appeared(answers: Answers) -> dict[str, list[tuple[int, int]]]:
    """By address: since which operation a name server did not list it (-1: since its first answer),
    and in which it did."""
    found: dict[str, list[tuple[int, int]]] = {}
    for reported in by_node(answers).values():
        here: set[str] = set()
        absent = -1
        for s in reported:
            now = {address for listed in s.view.sets.values() for address in listed.values()}
            for address in sorted(now - here):
                found.setdefault(address, []).append((absent, s.at))
            here, absent = now, s.begun
    return {address: sorted(each, key=_seen) for address, each in found.items()}


def _over(act: Fault) -> int:
    return act.begun if act.ended is None else act.ended


def undisturbed_replicas(
    replicas: Replicas, answers: Answers, welcome: Welcome
) -> Iterator[Living]:
    """Each answer of a name server between two of a broker at one address, nothing being done to
    either meanwhile; whether the broker must be listed."""
    lives = by_broker(replicas)
    for namesrv, reported in by_node(answers).items():
        for node, seen in sorted(lives.items()):
            spans = welcome.undisturbed.of([namesrv, node])
            for _, living in groupby(around(reported, seen, spans), key=_span):
                yield from _due(living, welcome)


def _span(one: Living) -> Interval:
    return one.span


def around(
    answers: Answers, seen: Sequence[Sighting[ReplicaView]], spans: Spans
) -> Iterator[Living]:
    """The answers with an answer of the broker before and after, at one address and in one time."""
    at = 0
    for s in answers:
        while at + 1 < len(seen) and seen[at + 1].at < s.begun:
            at += 1
        before = seen[at]
        span = spans.at(before.at) if before.at < s.begun else None
        later = (seen[n] for n in range(at, len(seen)))
        after = next((b for b in later if b.begun > s.at), None)
        if span is None or after is None or after.at >= span.until:
            continue
        if (before.view.set, before.view.address) == (after.view.set, after.view.address):
            yield Living(before, after, s, span)


def _due(living: Iterable[Living], welcome: Welcome) -> Iterator[Living]:
    """The same; it must be listed once the bound is over and controllers have welcomed it, or if it
    was before, and nothing was done to either yet. A broker of a pair that says it is not in its
    group yet has the bound from then on."""
    listed, alone_ns = False, 0
    for one in living:
        view, after = one.broker.view, one.after.view
        if view.isolated is True or after.isolated is True:
            alone_ns = one.after.at_ns
            continue
        over = one.answer.begun_ns > max(one.span.at_ns, alone_ns) + welcome.bound_ns
        joined = view.isolated is False and after.isolated is False
        over = over and (
            joined or welcome.has(view.node, view.address, one.answer.begun, one.answer)
        )
        yield one._replace(due=over or (listed and one.span.at < 0))
        listed = listed or one.lists()


def unordered(history: History, answers: Answers) -> list[Sighting[RouteView]]:
    """The answers before the first order that the controllers change their leader: it pauses the
    one that leads, which may be in a name server, and brokers are evicted meanwhile."""
    ordered = min((op.index for op in history.of_f(CHANGE_LEADER)), default=NEVER)
    return [answer for answer in answers if answer.at < ordered]


def following(living: Sequence[Living], acts: Sequence[Fault], bound_ns: int) -> Iterator[Living]:
    """Those whose broker must be listed and has been no master for long. One that is made master in
    its turn at the end may have led between two answers, unseen."""
    led: dict[tuple[str, str], int] = {}
    turns = [act for act in acts if act.f == ELECT_MASTER]
    for one in living:
        key = one.answer.view.node, one.broker.view.node
        for act in turns:
            if one.broker.view.node in act.nodes and act.begun < one.after.at:
                led[key] = max(led.get(key, 0), act.ended_ns or act.begun_ns)
        if one.broker.view.leads or one.after.view.leads:
            led[key] = one.after.at_ns
        elif one.due and (key not in led or one.answer.begun_ns > led[key] + bound_ns):
            yield one


def not_listed(living: Sequence[Living]) -> Iterator[Found]:
    """One finding for each broker, name server and undisturbed interval."""
    reported: set[tuple[str, str, Interval]] = set()
    for one in living:
        broker, s = one.broker.view, one.answer
        key = (s.view.node, broker.node, one.span)
        if key in reported or one.lists():
            continue
        reported.add(key)
        said = (
            f"Broker set {broker.set}: {broker.node} at {broker.address} answered in op "
            f"{one.broker.at} and in op {one.after.at}, and {s.view.node} does not list it (op "
            f"{s.at}). Nothing had been done to either for "
            f"{(s.begun_ns - one.span.at_ns) / 1e9:.1f} s. Clients do not find it."
        )
        detail = {"set": broker.set, "node": broker.node, "namesrv": s.view.node}
        yield Found("N6", "living-broker-not-listed", (one.broker.at, s.at), said, detail)


# N10.

Term = tuple[str, str, int]  # name server, broker, its master epoch


def undisturbed_masters(
    living: Sequence[Living], sets: Mapping[str, Sequence[SetSighting]], bound_ns: int
) -> Iterator[tuple[Living, int]]:
    """Those whose broker must be listed as master, and the epoch in which it leads."""
    begun: dict[Term, Sighting[ReplicaView]] = {}  # when it was first seen leading
    reported = {name: Epochs(said) for name, said in sets.items()}
    listed: set[Term] = set()
    for one in living:
        view, epoch = one.broker.view, led(one.broker.view)
        if epoch is None or epoch != led(one.after.view):
            continue
        term = (one.answer.view.node, view.node, epoch)
        first = begun.setdefault(term, one.broker)
        ripe = term in listed or one.answer.begun_ns > first.at_ns + bound_ns
        known = reported.get(view.set)
        if one.due and ripe and known is not None and known.newest(epoch, first.at, one.answer.at):
            yield one, epoch
        if one.lists(MASTER):
            listed.add(term)


def led(view: ReplicaView) -> int | None:
    """The epoch in which a broker leads by its own word."""
    return view.epochs[-1].epoch if view.leads and view.epochs else None


class Epochs:
    """The master epochs that controllers reported of a set, in order of completion."""

    def __init__(self, reported: Sequence[SetSighting]) -> None:
        self._reported = reported
        self._ends = [s.at for s in reported]
        self._latest = list(accumulate((s.begun for s in reported), max))

    def newest(self, epoch: int, since: int, after: int) -> bool:
        """Whether controllers, asked after an index, knew of no newer epoch than one that a broker
        has had since an index."""
        first = bisect_right(self._latest, after)
        later = self._reported[first : first + 1]
        before = self._reported[: bisect_left(self._ends, since)][-1:] or later
        return bool(later) and later[0].epoch == (before[0].era, epoch)


def not_master(leading: Sequence[tuple[Living, int]]) -> Iterator[Found]:
    """One finding for each term."""
    reported: set[Term] = set()
    for one, epoch in leading:
        broker, s = one.broker.view, one.answer
        term = (s.view.node, broker.node, epoch)
        if term in reported or one.lists(MASTER):
            continue
        reported.add(term)
        listed = s.view.sets.get(broker.set, {}).get(MASTER)
        said = (
            f"Broker set {broker.set}: {broker.node} leads in epoch {epoch} (ops {one.broker.at} "
            f"and {one.after.at}), and controllers know no newer one. {s.view.node} lists "
            f"{listed or 'no broker'} as master (op {s.at}). Clients write to whom it names."
        )
        detail = {
            "set": broker.set,
            "node": broker.node,
            "namesrv": s.view.node,
            "epoch": epoch,
            "listed": listed,
        }
        yield Found("N10", "master-not-listed", (one.broker.at, s.at), said, detail)
