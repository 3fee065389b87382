"""Are writes served during faults that leave enough of a cluster undisturbed?

A quiet period between two actions of the nemesis is judged for a broker set if, all the while,

1. a majority of the controllers, all name servers that are not gone, at least one, and as many
   replicas of the set as must acknowledge are sound and connected
   (`maxq.checkers.evidence.active_faults`), and every other replica of the set, every other
   controller and name server is gone or cut off from them both ways: one that is degraded (a
   master whose disk is full still says that it is well, a broker on a damaged store may refuse it)
   may stop everything, and RocketMQ promises nothing then;
2. no cut concerns clients;
3. by every answer of a controller, from the last one before the quiet period on, a member of the
   SyncStateSet is one of these replicas; where controllers of a release without ids report nothing
   of members, these are all replicas, and each answered in the quiet period;
4. it lasts longer than the recovery bound, and clients who follow routes went on sending.

The promise is broken if no send succeeded that was begun later than the bound and was over before
the quiet period was. A single success keeps it. Sends of clients that stay with one broker do not
count as attempts (`attempts`). Claim: S13d.

Where no members are reported and a master was lost, S13b is judged in such a quiet period by routes
and by the same sends: see `lost_masters`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from maxq.checkers.availability.known_by import KnownBy
from maxq.checkers.availability.lost_masters import Lost, keeps_another, lost_master
from maxq.checkers.core.api import Context
from maxq.checkers.core.promises import copies
from maxq.checkers.evidence.active_faults import connected
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import SetSighting, sightings
from maxq.checkers.evidence.quiescence import Interval, Lull, lulls
from maxq.checkers.evidence.stores.lost_stores import unsettled
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_CONTROLLER, OBSERVE_ROUTE, RouteView

MARGIN_NS = 2_000_000_000  # that attempts go on beyond the bound


class Reported(NamedTuple):
    """The members of a set by an answer of a controller: ids, or addresses."""

    node: str
    at: int
    members: tuple[int | str | None, ...]


class Window(NamedTuple):
    """A lull in which a set should take messages, from `due_ns` on. `reported` is what the last
    answer of a controller said, and when; None where controllers report no members. Of S13b by
    routes, `lost` is the master that must have been replaced."""

    set: str
    lull: Lull
    due_ns: int
    sound: tuple[str, ...]  # who is connected
    reported: Reported | None = None
    lost: Lost | None = None

    @property
    def time(self) -> Interval:
        """When it is."""
        return self.lull.time


def windows(history: History, context: Context) -> Iterator[Window]:
    """The lulls in which a set should take messages."""
    long = [
        lull for lull in lulls(history)
        if lull.time.until_ns - lull.time.at_ns > context.recovery_ns + MARGIN_NS
    ]  # fmt: skip
    if not long:
        return
    controllers, namesrvs = _asked(history, OBSERVE_CONTROLLER), _asked(history, OBSERVE_ROUTE)
    brokers = {node for nodes in context.broker_sets.values() for node in nodes}
    windows, damaged = _Windows(history, context), unsettled(history)
    for lull in long:
        group = connected(lull.state, controllers, namesrvs | brokers)
        answering = namesrvs - lull.state.gone
        if group is None or not answering or not answering <= group:
            continue  # a name server that hears no broker would send clients to the wrong one
        if controllers & lull.state.doubtful:
            continue
        for name in sorted(context.broker_sets):
            nodes = context.members(name)
            sound = group & set(nodes)
            if len(sound) < copies(context.settings or {}) or lull.state.doubtful & set(nodes):
                continue
            spans = (span for node in nodes for span in damaged.get(node, ()))
            if any(lull.time.at < end and begin < lull.time.until for begin, end in spans):
                continue
            window = windows.window(name, lull, group)
            if window is not None:
                yield window


class _Windows:
    """What is known of the members of sets."""

    def __init__(self, history: History, context: Context) -> None:
        self._context = context
        self._known = KnownBy(history, context)
        self._ids = {(s.view.set, s.view.id): s.view.node for s in self._known.replicas}
        self._routes = sightings(history, OBSERVE_ROUTE, RouteView)
        self._acts = faults(history)

    def window(self, name: str, lull: Lull, group: frozenset[str]) -> Window | None:
        """The promise of a lull to a set, of which these nodes are connected."""
        sound = group.intersection(self._context.members(name))
        due_ns = lull.time.at_ns + self._context.recovery_ns
        window = Window(name, lull, due_ns, tuple(sorted(group)))
        answers = self._known.answers.get(name, [])
        if not answers and not self._context.has_ids:
            return self._without_answer(window, sound)
        seen = _during(answers, lull.time)
        if not seen or not all(_names_one(s, name, self._ids, sound) for s in seen):
            return None
        members = tuple(self._known.each(name, seen[-1].view.sync_state_set))
        return window._replace(reported=Reported(seen[-1].node, seen[-1].at, members))

    def _without_answer(self, window: Window, sound: frozenset[str]) -> Window | None:
        """The same where controllers report nothing: a member is in any case among all replicas,
        or among all but the master that was lost."""
        lull, nodes = window.lull, frozenset(self._context.members(window.set))
        replicas = self._known.replicas
        alive = {s.view.node for s in replicas if window.time.holds(s.begun, s.at)}
        if not sound <= alive:
            return None
        if sound == nodes:
            return window
        others = nodes - sound
        if others != lull.state.gone & nodes or not keeps_another(self._context.settings or {}):
            return None
        lost = lost_master(
            lull, window.due_ns, window.set, nodes, self._acts, replicas, self._routes
        )
        return None if lost is None else window._replace(lost=lost)


def _asked(history: History, f: str) -> frozenset[str]:
    """All nodes that observers asked a question."""
    values = (op.value for op in history.of_f(f) if op.type == "invoke")
    return frozenset(str(v["node"]) for v in values if isinstance(v, dict) and "node" in v)


def _during(answers: Sequence[SetSighting], time: Interval) -> list[SetSighting]:
    """Answers of a lull, in order of completion, and the last one before it."""
    reported = sorted(answers, key=lambda s: s.at)
    before = [s for s in reported if s.at < time.at]
    return [*before[-1:], *(s for s in reported if time.at < s.at < time.until)]


def _names_one(
    s: SetSighting, name: str, ids: Mapping[tuple[str, int | None], str], sound: frozenset[str]
) -> bool:
    """Whether an answer names one of them as member."""
    return any(ids.get((name, member)) in sound for member in s.view.sync_state_set)
