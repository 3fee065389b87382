"""Are writes served during faults that leave enough of a cluster undisturbed?

A lull between two actions of the nemesis is judged for a broker set if, all the while,

1. a majority of the controllers, all name servers that are not gone, at least one, and as many
   replicas of the set as must acknowledge are sound and connected
   (`maxq.checkers.evidence.active_faults`), and every other replica of the set, every other
   controller and name server is gone or cut off from them both ways: one that is degraded (a
   master whose disk is full still says that it is well, a broker on a damaged store may refuse it)
   may stop everything, and RocketMQ promises nothing then;
2. no cut concerns clients;
3. by every answer of a controller, from the last one before the lull on, a member of the
   SyncStateSet is one of these replicas; where controllers of a release without ids report nothing
   of members, these are all replicas, and each answered in the lull;
4. it lasts longer than the recovery bound, and clients who follow routes went on sending.

The promise is broken if no send succeeded that was begun later than the bound and was over before
the lull was. A single success keeps it. Sends of clients that stay with one broker do not count as
attempts. Claim: S13d.

Where no members are reported and a master was lost, S13b is judged in such a lull by routes and
by the same sends: see `lost_masters`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.availability.lost_masters import Lost, keeps_another, lost_master
from maxq.checkers.core.api import Context
from maxq.checkers.core.keyed import Alone, Event, results_of
from maxq.checkers.core.promises import copies
from maxq.checkers.evidence.active_faults import connected
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.known_by import KnownBy
from maxq.checkers.evidence.observations import NEVER, SetSighting, listed, sightings
from maxq.checkers.evidence.quiescence import Interval, Lull, lulls
from maxq.checkers.evidence.stores.lost_stores import unsettled
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_CONTROLLER, OBSERVE_ROUTE, RouteView

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

MARGIN_NS = 2_000_000_000  # that attempts go on beyond the bound
ATTEMPTS_MIN = 5
PINNED = "pinned"  # ext of what a client did that stays with one broker


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


class Attempt(NamedTuple):
    """A send that was completed."""

    at: int
    begun: int
    begun_ns: int
    ok: bool
    routed: bool
    set: str | None  # of an ok one


class Tried(NamedTuple):
    """The sends of one queue, or one set, in a window: how many by clients who follow routes, from
    which index to which, begun from when to when; how many were ok. `led` counts those that were
    acknowledged just before a master was lost."""

    tries: int
    ok: int
    first: int
    last: int
    first_ns: int
    last_ns: int
    led: int = 0

    def with_(self, other: "Tried") -> "Tried":
        """Both together."""
        return Tried(
            self.tries + other.tries,
            self.ok + other.ok,
            min(self.first, other.first),
            max(self.last, other.last),
            min(self.first_ns, other.first_ns),
            max(self.last_ns, other.last_ns),
            self.led + other.led,
        )


NOTHING = Tried(0, 0, NEVER, -1, NEVER, -1)


class Served(NamedTuple):
    """What sends in a window came to."""

    window: Window
    tried: Tried

    @property
    def claim(self) -> str:
        """Which one it is about."""
        return "S13d" if self.window.lost is None else "S13b"

    @property
    def judged(self) -> bool:
        """Whether it says anything."""
        t, lost = self.tried, self.window.lost
        if lost is not None and not t.led:
            return False
        long = t.last_ns - t.first_ns >= MARGIN_NS
        return self.kept or (t.tries >= ATTEMPTS_MIN and long)

    @property
    def kept(self) -> bool:
        """Whether messages were taken, or a name server knew of another master."""
        lost = self.window.lost
        return self.tried.ok > 0 or (lost is not None and lost.replaced)


class Attempts(Alone):
    """A measurement, made like a check: what sends to each queue came to in each window."""

    name = "attempts"
    reads = frozenset(("send",))

    def prepare(self, history: History, context: Context) -> tuple[Window, ...]:
        return tuple(windows(history, context))

    def sift(self, rows: "Rows", chosen: "Ints", known: tuple[Window, ...]) -> "Ints":
        from maxq.checkers.availability import send_columns  # numpy, for those who have columns

        if not known:
            return chosen[:0]
        windows = [(w.due_ns, w.time.until) for w in known]
        led = [w.lost.before for w in known if w.lost is not None]
        return send_columns.attempted(rows, chosen, windows, led)

    def rows(self, event: Event, known: tuple[Window, ...]) -> Iterator[tuple[int, Attempt]]:
        op, begun = event.op, event.begun
        if not known or op.type == "invoke" or begun is None:
            return
        ext, key = op.ext or {}, _key(begun.value)
        ok = op.type == "ok"
        inside = any(w.due_ns <= begun.time and op.index < w.time.until for w in known)
        if key is not None and (ok or inside):
            name = str(ext.get("node")) if ok else None
            routed = not ext.get(PINNED)
            yield key, Attempt(op.index, begun.index, begun.time, ok, routed, name)

    def judge(
        self, key: int, rows: Sequence[Attempt], known: tuple[Window, ...], more: object = None
    ) -> dict[int, Tried]:
        """By number of the window; nothing where the owner of its queue is unknown."""
        sets = {row.set for row in rows if row.set is not None}
        found = {}
        for number, w in enumerate(known):
            if {w.set} == sets:
                mine = [r for r in rows if w.due_ns <= r.begun_ns and r.at < w.time.until]
                led = (
                    0
                    if w.lost is None
                    else sum(r.ok and w.lost.led(r.at, r.begun_ns) for r in rows)
                )
                found[number] = _tried(mine)._replace(led=led)
        return found


def _key(value: object) -> int | None:
    """The queue of a send of one message."""
    match value:
        case [[_, int(key), *_]] | ((_, int(key), *_),):
            return key
    return None


def _tried(rows: Sequence[Attempt]) -> Tried:
    routed = [r for r in rows if r.routed]
    ok = sum(r.ok for r in rows)
    if not routed:
        return NOTHING._replace(ok=ok)
    return Tried(
        tries=len(routed),
        ok=ok,
        first=min(r.begun for r in routed),
        last=max(r.at for r in routed),
        first_ns=min(r.begun_ns for r in routed),
        last_ns=max(r.begun_ns for r in routed),
    )


def served(history: History, context: Context) -> list[Served]:
    """What sends came to in every window of a history in memory."""
    check = Attempts()
    known = check.prepare(history, context)
    return served_in(known, results_of(check, history, known) if known else {})


def served_in(known: Sequence[Window], found: Mapping[int, Mapping[int, Tried]]) -> list[Served]:
    """The same, of sends already looked up by queue."""
    result = []
    for number, window in enumerate(known):
        tried = NOTHING
        for of_key in found.values():
            tried = tried.with_(of_key.get(number, NOTHING))
        result.append(Served(window, tried))
    return result


# Where something is promised.


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


def finding_of(s: Served, context: Context) -> tuple[str, dict[str, object], tuple[int, ...]]:
    """A broken promise in words, its detail, and the operations that prove it."""
    w, t = s.window, s.tried
    members = list(w.reported.members) if w.reported is not None else []
    known = (
        f"its SyncStateSet was {listed(members)} ({w.reported.node}, op {w.reported.at})"
        if w.reported is not None
        else "all its replicas were among them, so that every member of its SyncStateSet was"
    )
    said = (
        f"Broker set {w.set}: from {_s(w.time.at_ns)} (op {w.time.at}) to {_s(w.time.until_ns)} "
        f"(op {w.time.until}) nothing more befell the cluster; {listed(w.sound)} ran and were "
        f"connected, and {known}. {_none_succeeded(s, context)}"
    )
    detail: dict[str, object] = {
        "set": w.set,
        "connected": list(w.sound),
        "gone": sorted(w.lull.state.gone),
        "sync-state-set": members,
        "sends": t.tries,
        "for-ms": (w.time.until_ns - w.time.at_ns) // 1_000_000,
    }
    reported = () if w.reported is None else (w.reported.at,)
    # All of them within the lull, so that the faults in force are named as such.
    return said, detail, tuple(op for op in (*reported, t.first, t.last) if op > w.time.at)


def lost_of(
    s: Served, lost: Lost, context: Context
) -> tuple[str, dict[str, object], tuple[int, ...]]:
    """The same of a master that was lost."""
    w, t = s.window, s.tried
    listed_as = f"{lost.listed} still" if lost.listed else "no broker"
    said = (
        f"Broker set {w.set}: {lost.node} led by the name servers' routes, and was silent since "
        f"the {lost.fault.f} of op {lost.fault.begun}. From {_s(w.time.at_ns)} (op {w.time.at}) to "
        f"{_s(w.time.until_ns)} (op {w.time.until}) nothing more befell the cluster; "
        f"{listed(w.sound)} ran and were connected, and the last acknowledged message shows that "
        f"one of them was in the SyncStateSet. But {lost.namesrv} lists {listed_as} as master "
        f"(op {lost.at}). {_none_succeeded(s, context)}"
    )
    detail: dict[str, object] = {
        "set": w.set,
        "node": lost.node,
        "fault": lost.fault.f,
        "listed": lost.listed,
        "sends": t.tries,
        "for-ms": (w.time.until_ns - w.time.at_ns) // 1_000_000,
    }
    return said, detail, (lost.fault.begun, t.first, lost.at, t.last)


def _none_succeeded(s: Served, context: Context) -> str:
    t = s.tried
    return (
        f"But of {t.tries} sends that were begun later than {_s(context.recovery_ns)} after that "
        f"(from op {t.first} to op {t.last}) none succeeded."
    )


def _s(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"
