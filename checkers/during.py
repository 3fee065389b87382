"""Are writes served while faults last that leave enough of a cluster in peace?

A lull between two actions of the nemesis is judged for a broker set if, all the while,

1. a majority of the controllers, all name servers that are not gone, at least one, and as many
   replicas of the set as must acknowledge are sound and connected (`checkers.force`), and every
   other replica of the set, every other controller and name server is gone or cut off from them
   both ways: one that is half alive (a master whose disk is full still says that it is well) may
   stop everything, and RocketMQ promises nothing then;
2. no cut concerns clients;
3. by every answer of a controller, from the last one before the lull on, a member of the
   SyncStateSet is one of these replicas;
4. it lasts longer than the bound for recovery, and clients who follow routes went on sending.

The promise is broken if no send succeeded that was begun later than the bound and was over before
the lull was. A single success keeps it. Sends of clients that stay with one broker do not count as
attempts. Claim: S13d.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from checkers.api import Context
from checkers.force import Lull, connected, lulls
from checkers.keyed import Alone, Event, results_of
from checkers.promises import copies
from checkers.sightings import NEVER, SetSighting, listed, replica_sightings, set_sightings
from histories.history import History
from histories.observed import OBSERVE_CONTROLLER, OBSERVE_ROUTE

MARGIN_NS = 2_000_000_000  # that attempts go on beyond the bound
ATTEMPTS_MIN = 5
PINNED = "pinned"  # ext of what a client did that stays with one broker


class Window(NamedTuple):
    """A lull in which a set should take messages, from `due_ns` on."""

    set: str
    lull: Lull
    due_ns: int
    sound: tuple[str, ...]  # who is connected
    told: SetSighting  # the last answer


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
    which index to which, begun from when to when; how many were ok."""

    tries: int
    ok: int
    first: int
    last: int
    first_ns: int
    last_ns: int

    def with_(self, other: "Tried") -> "Tried":
        """Both together."""
        return Tried(
            self.tries + other.tries,
            self.ok + other.ok,
            min(self.first, other.first),
            max(self.last, other.last),
            min(self.first_ns, other.first_ns),
            max(self.last_ns, other.last_ns),
        )


NOTHING = Tried(0, 0, NEVER, -1, NEVER, -1)


class Served(NamedTuple):
    """What sends in a window came to."""

    window: Window
    tried: Tried

    @property
    def judged(self) -> bool:
        """Whether it says anything."""
        t = self.tried
        long = t.last_ns - t.first_ns >= MARGIN_NS
        return t.ok > 0 or (t.tries >= ATTEMPTS_MIN and long)


class Attempts(Alone):
    """A measurement, made like a check: what sends to each queue came to in each window."""

    name = "attempts"
    reads = frozenset(("send",))

    def prepare(self, history: History, context: Context) -> tuple[Window, ...]:
        return tuple(windows(history, context))

    def rows(self, event: Event, known: tuple[Window, ...]) -> Iterator[tuple[int, Attempt]]:
        op, begun = event.op, event.begun
        if not known or op.type == "invoke" or begun is None:
            return
        ext, key = op.ext or {}, _key(begun.value)
        ok = op.type == "ok"
        inside = any(w.due_ns <= begun.time and op.index < w.lull.until for w in known)
        if key is not None and (ok or inside):
            name = str(ext.get("node")) if ok else None
            routed = not ext.get(PINNED)
            yield key, Attempt(op.index, begun.index, begun.time, ok, routed, name)

    def judge(
        self, key: int, rows: Sequence[Attempt], known: tuple[Window, ...], more: object = None
    ) -> dict[int, Tried]:
        """By number of the window; nothing where nobody knows whose queue it is."""
        sets = {row.set for row in rows if row.set is not None}
        found = {}
        for number, w in enumerate(known):
            if {w.set} == sets:
                mine = [r for r in rows if w.due_ns <= r.begun_ns and r.at < w.lull.until]
                found[number] = _tried(mine)
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
        if lull.until_ns - lull.at_ns > context.recovery_ns + MARGIN_NS
    ]  # fmt: skip
    if not long:
        return
    controllers, namesrvs = _asked(history, OBSERVE_CONTROLLER), _asked(history, OBSERVE_ROUTE)
    ids = {(s.view.set, s.view.id): s.view.node for s in replica_sightings(history)}
    answers = set_sightings(history)
    brokers = {node for nodes in context.broker_sets.values() for node in nodes}
    for lull in long:
        group = connected(lull, controllers, namesrvs | brokers)
        answering = namesrvs - lull.gone
        if group is None or not answering or not answering <= group:
            continue  # a name server that hears no broker would send clients to the wrong one
        if controllers & lull.doubtful:
            continue
        for name, nodes in sorted(context.broker_sets.items()):
            sound = group & set(nodes)
            if len(sound) < copies(context.settings or {}) or lull.doubtful & set(nodes):
                continue
            seen = _during(answers.get(name, ()), lull)
            if seen and all(_names_one(s, name, ids, sound) for s in seen):
                due_ns = lull.at_ns + context.recovery_ns
                yield Window(name, lull, due_ns, tuple(sorted(group)), seen[-1])


def _asked(history: History, f: str) -> frozenset[str]:
    """All nodes that observers asked a question."""
    values = (op.value for op in history.of_f(f) if op.type == "invoke")
    return frozenset(str(v["node"]) for v in values if isinstance(v, dict) and "node" in v)


def _during(answers: Sequence[SetSighting], lull: Lull) -> list[SetSighting]:
    """Answers of a lull, in order of completion, and the last one before it."""
    told = sorted(answers, key=lambda s: s.at)
    before = [s for s in told if s.at < lull.at]
    return [*before[-1:], *(s for s in told if lull.at < s.at < lull.until)]


def _names_one(
    s: SetSighting, name: str, ids: Mapping[tuple[str, int | None], str], sound: frozenset[str]
) -> bool:
    """Whether an answer names one of them as member."""
    return any(ids.get((name, member)) in sound for member in s.view.sync_state_set)


def told_of(s: Served, context: Context) -> tuple[str, dict[str, object], tuple[int, ...]]:
    """A broken promise in words, its detail, and the operations that prove it."""
    w, t = s.window, s.tried
    said = (
        f"Broker set {w.set}: from {_s(w.lull.at_ns)} (op {w.lull.at}) to {_s(w.lull.until_ns)} "
        f"(op {w.lull.until}) nothing more befell the cluster; {listed(w.sound)} ran and were "
        f"connected, and its SyncStateSet was {listed(w.told.view.sync_state_set)} "
        f"({w.told.node}, op {w.told.at}). But of {t.tries} sends that were begun later than "
        f"{_s(context.recovery_ns)} after that (from op {t.first} to op {t.last}) none succeeded."
    )
    detail: dict[str, object] = {
        "set": w.set,
        "connected": list(w.sound),
        "gone": sorted(w.lull.gone),
        "sync-state-set": list(w.told.view.sync_state_set),
        "sends": t.tries,
        "for-ms": (w.lull.until_ns - w.lull.at_ns) // 1_000_000,
    }
    # All of them within the lull, so that the faults in force are told as such.
    return said, detail, tuple(op for op in (w.told.at, t.first, t.last) if op > w.lull.at)


def _s(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"
