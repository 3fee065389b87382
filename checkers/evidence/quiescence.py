"""Undisturbed times of a history.

There is one type, `Interval`, and several notions, because claims differ in which faults may be in
force meanwhile, which nodes must be undisturbed, and what ends the time:

- `after_last_heal`, `at_rest`: the whole cluster is healed, from the last disturbance on. Claims
  about a cluster at rest (all replicas are back, logs agree, writes are served) hold from here on.
  A history has one such time. A heal without proof gives it a `doubt` rather than an end: a claim
  about it is then not judged at all.
- `after_faults`, `after_acts`: the nemesis has completed its last act, whether or not its heals are
  proven. For claims about what is left of the whole run: a log read to its end, the ids of brokers.
- `lulls`: between two acts of the nemesis, with whatever faults are in effect (`State`). For claims
  about what must work during faults. They end where the state is not known any more.
- `Undisturbed`: certain nodes are not struck and no cut parts them; other nodes may be. For claims
  about nodes that communicate with each other. Acts on other nodes do not end it, so it is no quiet
  period.
- `Standstills`: no act is under way, and only silences and wrong wall clocks are in effect. For
  claims about how the others treat a silent node. Unlike quiet periods they are looked up at any
  operation, and changes of membership end them.

Strikes and heals are acts of the nemesis. Brokers that join, leave, change their address or lose
their store are operations of clients (`MEMBERSHIP`) and disturb as well. Questions and ordered
elections do not; checkers for which an election matters subtract it (`Interval.without`).

An unknown act (`maxq.histories.fault_facts`) may have any effect, on any node, without end. No time
after it is undisturbed by any of these notions, except `after_faults` and `after_acts`, which take
an act for over with its completion. `unknown_acts` is the reason in words.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from maxq.checkers.evidence.active_faults import InForce, State, leaves_ways, only_cuts
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import NEVER
from maxq.histories.fault_facts import (
    AWAIT_RECOVERY,
    CHANGE_ADDRESS,
    ELECT_MASTER,
    LAST_LOOK,
    NOBODY,
)
from maxq.histories.history import History
from maxq.histories.observed import AWAIT_LEVEL, JOIN, LEAVE, WIPE
from maxq.histories.op import Op

MEMBERSHIP = frozenset((JOIN, LEAVE, WIPE, "kill-broker", CHANGE_ADDRESS))
NAMED_MAX = 5  # unknown acts that are named


class Interval(NamedTuple):
    """The time after index `at` and before index `until`, with their times in ns. -1 and 0: from
    the beginning of the history; `NEVER`: to its end. `doubt`: why it may have been disturbed."""

    at: int = -1
    at_ns: int = 0
    until: int = NEVER
    until_ns: int = NEVER
    doubt: str = ""

    def without(self, other: "Interval") -> Iterator["Interval"]:
        """Its parts before and after another interval."""
        if other.until <= self.at or other.at >= self.until:
            yield self
            return
        if self.at < other.at:
            yield self._replace(until=other.at, until_ns=other.at_ns)
        if other.until < self.until:
            yield self._replace(at=other.until, at_ns=other.until_ns)

    def holds(self, begun: int, ended: int) -> bool:
        """Whether an operation lies in it as a whole, by its indices."""
        return self.at < begun and ended < self.until


def unknown_acts(history: History) -> str:
    """Which acts of a history are unknown, in words; empty where none is."""
    first: dict[str, int] = {}
    for op in history.nemesis:
        if not history.kinds.knows(op.f):
            first.setdefault(op.f, op.index)
    if not first:
        return ""
    named = ", ".join([f"{f} (op {index})" for f, index in first.items()][:NAMED_MAX])
    more = f" and {len(first) - NAMED_MAX} more" if len(first) > NAMED_MAX else ""
    return (
        f"the nemesis performed {named}{more}, of unknown effect: neither built in nor declared by "
        "the run"
    )


# The whole cluster, once everything is healed.


def after_last_heal(history: History) -> Interval:
    """The time from the last disturbance of a history until the elections by order at its end, once
    replicas are level."""
    level = max((op.index for op in history.of_f(AWAIT_LEVEL)), default=NEVER)
    return _until_order(_healed(history), history, level)


def after_last_change(history: History) -> Interval:
    """The same, from the last act that did something to somebody: the heals at the end of a run
    find nobody where all was healed before."""
    level = max((op.index for op in history.of_f(AWAIT_LEVEL)), default=NEVER)
    return _until_order(_since_healed(history, idle=False), history, level)


def at_rest(history: History) -> Interval:
    """The time from the last disturbance, or the last election by order before replicas are level,
    until the next such election, which changes the SyncStateSet."""
    rest = _healed(history)
    level = min((op.index for op in history.of_f(AWAIT_LEVEL) if op.index > rest.at), default=NEVER)
    for op in history.nemesis:
        if op.f == ELECT_MASTER and rest.at < op.index < level:
            rest = rest._replace(at=op.index, at_ns=max(rest.at_ns, op.time))
    return _until_order(rest, history, level)


def after_faults(history: History) -> Interval:
    """The time after the last operation of the nemesis but those with which a run ends; none where
    an action never ended."""
    if history.open_faults:
        return Interval(NEVER, NEVER)
    kinds = ((op, history.kinds.of(op.f)) for op in history.nemesis)
    return _after(op for op, facts in kinds if facts is None or not facts.closing)


def after_acts(history: History) -> Interval:
    """The time after the last operation of the nemesis, of whatever kind, but for the look at all
    processes that ends a run."""
    return _after(op for op in history.nemesis if op.f != LAST_LOOK)


def _after(ops: Iterable[Op]) -> Interval:
    last = max(ops, key=lambda op: op.index, default=None)
    return Interval() if last is None else Interval(last.index, last.time)


def _until_order(time: Interval, history: History, level: int) -> Interval:
    """The time until the first order to elect a master after an index."""
    for op in history.nemesis:
        if op.f == ELECT_MASTER and op.index > level:
            return time._replace(until=op.index, until_ns=op.time)
    return time


def _healed(history: History) -> Interval:
    """The time from the last event of the last disturbance on."""
    return history.once(_healed, lambda: _since_healed(history))


def _since_healed(history: History, *, idle: bool = True) -> Interval:
    """From the last disturbance on; `idle`: acts count, too, that found nobody to concern."""
    at, ns, doubt = -1, 0, ""
    acts = [fault for fault in faults(history) if fault.kind != "question"]
    acts = [act for act in acts if idle or not act.holds or act.nodes != (NOBODY,)]
    last_strike = max((f.begun for f in acts if f.kind == "fault"), default=-1)
    for act in acts:
        at = max(at, act.begun if act.ended is None else act.ended)
        ns = max(ns, act.begun_ns if act.ended_ns is None else act.ended_ns)
        if act.ended is None:
            doubt = f"{act.f} at op {act.begun} never completed"
        elif act.kind == "heal" and act.begun > last_strike and not act.done:
            doubt = f"no proof that {act.f} at op {act.begun} held"
    for op in _membership(history):
        at, ns = max(at, op.index), max(ns, op.time)
        if op.type == "invoke" and history.pair_index(op) < 0:
            doubt = f"{op.f} at op {op.index} never completed"
    return Interval(at, ns, doubt=unknown_acts(history) or doubt)


def _membership(history: History) -> tuple[Op, ...]:
    """What clients did to brokers."""
    of = history.of_f
    return history.once(
        _membership, lambda: tuple(op for op in of(*sorted(MEMBERSHIP)) if op.is_client)
    )


# Between two actions.


class Lull(NamedTuple):
    """A time between two actions of the nemesis, and what is in force all the while."""

    time: Interval
    state: State


def lulls(history: History) -> Iterator[Lull]:
    """The times between acts, in order, as long as the state is known. Not before the first act,
    nor after the last, nor after the wait for recovery."""
    force = InForce()
    for act, then in pairwise(faults(history)):
        if act.f == AWAIT_RECOVERY:
            return
        force.take(act)
        if force.lost:
            return
        if act.ended is not None:
            time = Interval(act.ended, act.ended_ns or 0, then.begun, then.begun_ns)
            yield Lull(time, force.state)


def calm(history: History) -> Iterator[Lull]:
    """The lulls in which no node is doubtful, nobody is cut off and all name servers run."""
    for lull in lulls(history):
        s = lull.state
        namesrvs = any(node.startswith("n") for node in s.gone)
        if not (s.doubtful or s.cuts or namesrvs or lull.time.doubt):
            yield lull


# Certain nodes.


class Undisturbed:
    """The times in which certain nodes are not struck and no cut parts them, as long as the state
    is known. Other nodes may be struck.

    Asked of many nodes of one history: what is in force after each act is worked out once, and
    nodes that no act concerns have the same times.
    """

    def __init__(self, acts: Iterable[Fault]) -> None:
        force = InForce()
        self._steps: list[_Step] = []
        self._known: dict[tuple[frozenset[str], frozenset[str]], Spans] = {}
        named: set[str] = set()
        for act in acts:
            force.take(act)
            self._steps.append(_Step(act, frozenset(act.nodes), force.state, force.lost))
            named.update(act.nodes, *force.state.cuts)
            if force.lost:
                break
        self.named = frozenset(named)  # whom an act strikes, or a cut parts from another

    def of(self, nodes: Iterable[str], peers: Iterable[str] = ()) -> "Spans":
        """The undisturbed times of certain nodes.

        Args:
            nodes: that are not struck.
            peers: that may be ended or started, but are not struck otherwise, nor parted from
                `nodes`.
        """
        key = self.named.intersection(nodes), self.named.intersection(peers)
        if key not in self._known:
            self._known[key] = Spans(self._found(*key))
        return self._known[key]

    def _found(self, nodes: frozenset[str], peers: frozenset[str]) -> Iterator[Interval]:
        concerned = nodes | peers
        now: Interval | None = Interval()
        for act, touched, (gone, doubtful, cuts), lost in self._steps:
            disturbs = not only_cuts(act) and not touched.isdisjoint(nodes)
            disturbs = disturbs or (not leaves_ways(act) and not touched.isdisjoint(peers))
            disturbs = not act.harmless and (disturbs or act.ended is None)
            # A cut between two peers parts none of the nodes.
            cut = any({a, b} <= concerned and not nodes.isdisjoint((a, b)) for a, b in cuts)
            if now is not None and (disturbs or cut or lost):
                yield now._replace(until=act.begun, until_ns=act.begun_ns)
                now = None
            if lost:
                return
            sound = concerned.isdisjoint(doubtful) and gone.isdisjoint(nodes)
            if now is None and sound and not cut and act.ended is not None:
                now = Interval(act.ended, act.ended_ns or 0)
        if now is not None:
            yield now


class _Step(NamedTuple):
    """An act, whom it concerns, and what is in force after it."""

    act: Fault
    touched: frozenset[str]
    state: State
    lost: bool


class Spans:
    """Times that do not overlap, in order. One that is over before it begins holds nothing, and is
    left out."""

    def __init__(self, times: Iterable[Interval]) -> None:
        self._times = [time for time in times if time.at < time.until]
        self._begins = [time.at for time in self._times]
        self._ends = [time.until for time in self._times]

    def __iter__(self) -> Iterator[Interval]:
        return iter(self._times)

    def at(self, index: int) -> Interval | None:
        """The one that began before an index and is not over then."""
        before = bisect_left(self._begins, index) - 1
        return self._times[before] if before >= 0 and index < self._ends[before] else None

    def between(self, after: int, until: int) -> Sequence[Interval]:
        """Those that have an index between two others."""
        first, last = bisect_right(self._ends, after), bisect_left(self._begins, until)
        return self._times[first:last]


def slice_between(ends: Sequence[int], span: Interval) -> slice:
    """Which of some answers ended in a time; all that are of it as a whole are among them.

    Args:
        ends: their completions, ascending.
        span: the time.
    """
    return slice(bisect_right(ends, span.at), bisect_left(ends, span.until))


# Nothing goes on.


class Standstills:
    """The times in which no act is under way and only silences are in force."""

    def __init__(self, history: History) -> None:
        acts = [a for a in faults(history) if a.kind != "question"]
        events = [(a.begun, a.begun_ns) for a in acts]
        events += [(a.ended, a.ended_ns or 0) for a in acts if a.ended is not None]
        busy = [(a.begun, NEVER if a.ended is None else a.ended) for a in acts]
        busy += [(a.begun, _undone(a, acts)) for a in acts if not _leaves_nothing(a)]
        for op in _membership(history):
            events.append((op.index, op.time))
            done = history.completion(op)
            if op.type == "invoke":
                busy.append((op.index, NEVER if done is None else done.index))
        self._events = sorted(events)
        self._begins, self._ends = _merged(busy)

    def around(self, index: int) -> Interval | None:
        """The time around an index, between two events; None during an act, and before the
        first."""
        at = bisect_left(self._begins, index) - 1
        if at >= 0 and self._ends[at] > index:
            return None
        then = bisect_left(self._events, (index, -1))
        if not then:
            return None
        until = self._events[then : then + 1] or [(NEVER, NEVER)]
        return Interval(*self._events[then - 1], *until[0])


def _leaves_nothing(act: Fault) -> bool:
    """Whether a completed act leaves nothing in force but silences."""
    over = act.passes and act.ended is not None and act.holds
    return act.known and (act.silences or act.kind == "heal" or act.harmless or over)


def _undone(act: Fault, acts: Sequence[Fault]) -> int:
    """The index by which a fault was certainly healed."""
    if not act.known:
        return NEVER
    own = act.facts.heals if act.facts is not None else ()
    for heal in acts[bisect_left(acts, act.begun + 1, key=_begin) :]:
        of_its_kind = heal.kind == "heal" and (not own or heal.f in own)
        if not of_its_kind or _only_revives(heal) or not heal.holds:
            continue
        # Several cuts may lie between the same nodes; one that a schedule names ends alone.
        named = heal.of == act.request if heal.of and act.effect == "cut" else True
        whole = heal.request is None or set(act.nodes) <= set(heal.nodes)
        if named and whole:
            return NEVER if heal.ended is None else heal.ended
    return NEVER


def _only_revives(heal: Fault) -> bool:
    """Whether it ends silences and nothing else."""
    return bool(heal.ends) and all(kind.silences for kind in heal.ends)


def _begin(fault: Fault) -> int:
    return fault.begun


def _merged(spans: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    begins: list[int] = []
    ends: list[int] = []
    for begin, end in sorted(spans):
        if ends and begin <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            begins.append(begin)
            ends.append(end)
    return begins, ends
