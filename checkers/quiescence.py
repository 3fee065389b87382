"""Undisturbed times of a history: nothing was done to whom a claim is about.

There is one type, `Interval`, and there are as many notions as claims need. They differ in what may
be in force meanwhile, in whom they are about, and in how they end:

- `settled`, `at_rest`: everything is healed, for the whole cluster, from the last disturbance on.
  What is promised of a cluster at rest (everybody is back, logs agree, writes are served) is
  promised from here on. There is one such time in a history. Where a heal is without proof the time
  has a `doubt` instead of an end: then a claim about it is not judged, rather than of less.
- `after_faults`, `after_acts`: the nemesis has done what it does, whether that is known to
  hold or not. For claims that need no rest, but ask what is left of the whole run: a log read to
  its end, the ids of all brokers.
- `lulls`: between two actions of the nemesis, whatever is in force; for claims about what must work
  while faults last. They come with the `State` that lasts all the while, and stop where nobody can
  say what that is.
- `calms`: nothing is done to certain nodes, and no cut parts them, whatever happens to others. For
  claims about two nodes that answer each other. Actions on others do not end such a time, so it is
  no lull, and has no end in common with one.
- `Standstills`: nothing goes on at all, and nothing is in force but nodes that say nothing, and
  wall clocks that are wrong. For claims about what the others make of a silent node. Unlike a lull
  it is asked for at any operation, and changes of membership end it.

Strikes and heals are the nemesis's; brokers that come, go, move or lose their store are operations
of clients (`MEMBERSHIP`) and disturb as much. Who is asked, or elected by order, is not disturbed:
where that matters it is taken out by whoever judges it.

An act that is unknown (`histories.fault_facts`) may have done anything, to anybody, for ever. Every
notion has it so, and `unknown_acts` says it in words.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from checkers.faults import Fault, faults
from checkers.force import InForce, State, leaves_ways, only_cuts
from checkers.sightings import NEVER
from histories.fault_facts import AWAIT_RECOVERY, ELECT_MASTER, LAST_LOOK
from histories.history import History
from histories.observed import AWAIT_LEVEL, JOIN, LEAVE, WIPE
from histories.op import Op

MEMBERSHIP = frozenset((JOIN, LEAVE, WIPE, "kill-broker", "readdress"))
NAMED_MAX = 5  # unknown acts that are named


class Interval(NamedTuple):
    """A time after index `at` and before index `until`; `at_ns` and `until_ns` are when these were.
    -1 and 0: it has no beginning; `NEVER`: no end. `doubt` says why it may have been disturbed."""

    at: int = -1
    at_ns: int = 0
    until: int = NEVER
    until_ns: int = NEVER
    doubt: str = ""

    def without(self, other: "Interval") -> Iterator["Interval"]:
        """What is left of it before and after another time."""
        if other.until <= self.at or other.at >= self.until:
            yield self
            return
        if self.at < other.at:
            yield self._replace(until=other.at, until_ns=other.at_ns)
        if other.until < self.until:
            yield self._replace(at=other.until, at_ns=other.until_ns)

    def holds(self, begun: int, ended: int) -> bool:
        """Whether all of an operation lies in it, by its indices."""
        return self.at < begun and ended < self.until


def unknown_acts(history: History) -> str:
    """Which acts of a history nobody knows, in words; empty where there are none."""
    first: dict[str, int] = {}
    for op in history.nemesis:
        if not history.kinds.knows(op.f):
            first.setdefault(op.f, op.index)
    if not first:
        return ""
    named = [f"{f} (op {index})" for f, index in first.items()][:NAMED_MAX]
    more = f" and {len(first) - NAMED_MAX} more" if len(first) > NAMED_MAX else ""
    return (
        f"nobody knows what the nemesis did by {', '.join(named)}{more}: such acts are neither "
        "built in nor declared by the run"
    )


# The whole cluster, once everything is healed.


def settled(history: History) -> Interval:
    """The time since the last disturbance of a history, until replicas are made master in turn at
    its end, once they are level."""
    level = max((op.index for op in history.of_f(AWAIT_LEVEL)), default=NEVER)
    return _healed(history)._replace(until=_ordered(history, level))


def at_rest(history: History) -> Interval:
    """The time before any master is elected by order once replicas are level, which disturbs who is
    in sync: since the last disturbance, or the last order before, until that election."""
    rest = _healed(history)
    level = min((op.index for op in history.of_f(AWAIT_LEVEL) if op.index > rest.at), default=NEVER)
    for op in history.nemesis:
        if op.f == ELECT_MASTER and rest.at < op.index < level:
            rest = rest._replace(at=op.index, at_ns=max(rest.at_ns, op.time))
    return rest._replace(until=_ordered(history, level))


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


def _ordered(history: History, level: int) -> int:
    """The first order to elect a master after an index."""
    orders = (op.index for op in history.nemesis if op.f == ELECT_MASTER and op.index > level)
    return min(orders, default=NEVER)


def _healed(history: History) -> Interval:
    """Since the last event of the last disturbance."""
    at, ns, doubt = -1, 0, ""
    acts = [fault for fault in faults(history) if fault.kind != "question"]
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
        if op.type == "invoke" and history.completion(op) is None:
            doubt = f"{op.f} at op {op.index} never completed"
    return Interval(at, ns, doubt=unknown_acts(history) or doubt)


def _membership(history: History) -> Iterator[Op]:
    """What clients did to brokers."""
    return (op for op in history.of_f(*sorted(MEMBERSHIP)) if op.is_client)


# Between two actions.


class Lull(NamedTuple):
    """A time between two actions of the nemesis, and what is in force all the while."""

    time: Interval
    state: State


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
            time = Interval(act.ended, act.ended_ns or 0, then.begun, then.begun_ns)
            yield Lull(time, force.state)


# Certain nodes.


def calms(
    acts: Sequence[Fault], nodes: Collection[str], peers: Collection[str] = ()
) -> Iterator[Interval]:
    """The times in which nothing is done to certain nodes and no cut parts them, as long as anybody
    can say. Anything may happen to others meanwhile.

    Args:
        acts: everything that the nemesis did, in order.
        nodes: to whom nothing is done.
        peers: whom it may end or start, and does nothing else to; no cut parts them from `nodes`.
    """
    force, concerned = InForce(), {*nodes, *peers}
    now: Interval | None = Interval()
    for act in acts:
        touched = {*act.nodes}
        disturbs = not only_cuts(act) and not touched.isdisjoint(nodes)
        disturbs = disturbs or (not leaves_ways(act) and not touched.isdisjoint(peers))
        disturbs = not act.harmless and (disturbs or act.ended is None)
        force.take(act)
        gone, doubtful, cuts = force.state
        cut = any(a in concerned and b in concerned for a, b in cuts)
        if now is not None and (disturbs or cut or force.lost):
            yield now._replace(until=act.begun, until_ns=act.begun_ns)
            now = None
        if force.lost:
            return
        sound = concerned.isdisjoint(doubtful) and gone.isdisjoint(nodes)
        if now is None and sound and not cut and act.ended is not None:
            now = Interval(act.ended, act.ended_ns or 0)
    if now is not None:
        yield now


# Nothing goes on.


class Standstills:
    """The times in which nothing goes on, and no fault is in force but silences."""

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
        """The time around an index, from the last event before it on; None while something goes
        on, or nothing did yet."""
        at = bisect_left(self._begins, index) - 1
        if at >= 0 and self._ends[at] > index:
            return None
        then = bisect_left(self._events, (index, -1))
        if not then:
            return None
        until = self._events[then : then + 1] or [(NEVER, NEVER)]
        return Interval(*self._events[then - 1], *until[0])


def _leaves_nothing(act: Fault) -> bool:
    """Whether an act leaves nothing in force, once it is over, but nodes that are silent."""
    over = act.passes and act.ended is not None and act.holds
    return act.known and (act.silences or act.kind == "heal" or act.harmless or over)


def _undone(act: Fault, acts: Sequence[Fault]) -> int:
    """When (index) a fault was surely undone."""
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
