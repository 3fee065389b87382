"""What sends to each queue, and each broker set, came to while writes should have been served.

The windows are those of `write_availability`. Of a window those sends count that were begun when it
was due and were over before it was.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.availability.lost_masters import Attempt, Lost
from maxq.checkers.availability.write_availability import MARGIN_NS, Window, windows
from maxq.checkers.core.api import Context
from maxq.checkers.core.keyed import Alone, Event, results_of
from maxq.checkers.evidence.observations import NEVER, listed
from maxq.histories.history import History

if TYPE_CHECKING:
    from maxq.checkers.core.columnar import Arrays, Dealing, Groups, Unsure
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

ATTEMPTS_MIN = 5
PINNED = "pinned"  # ext of what a client did that stays with one broker


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

    def columns(self, rows: "Rows", chosen: "Ints", known: tuple[Window, ...]) -> "Dealing":
        from maxq.checkers.availability import attempt_columns  # numpy, for those who have columns

        spans = [attempt_columns.Span(w.due_ns, w.time.until) for w in known]
        chosen, decode = chosen if known else chosen[:0], partial(self.rows, known=known)
        return attempt_columns.elements(rows, chosen, spans, _sets(known), decode)

    def judge_groups(
        self, groups: "Groups", known: tuple[Window, ...]
    ) -> "list[dict[int, Tried] | Unsure]":
        return [self._by_arrays(arrays, known) for _, arrays in groups.each()]

    def _by_arrays(self, arrays: "Arrays", known: tuple[Window, ...]) -> dict[int, Tried]:
        from maxq.checkers.availability import attempt_columns

        sets, number = _sets(known), attempt_columns.only_set(arrays)
        part, found = attempt_columns.Part(arrays), {}
        for at, w in enumerate(known):
            if number >= 0 and sets[number] == w.set:
                tried = _tried_of(part.of(attempt_columns.Span(w.due_ns, w.time.until)))
                found[at] = tried._replace(led=0 if w.lost is None else part.led(w.lost))
        return found

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


def _tried_of(a: "Arrays") -> Tried:
    """As `_tried`, of arrays."""
    ok, routed = int(a["ok"].sum()), a["routed"]
    if not routed.any():
        return NOTHING._replace(ok=ok)
    begun, begun_ns = a["begun"][routed], a["begun_ns"][routed]
    return Tried(
        tries=int(routed.sum()),
        ok=ok,
        first=int(begun.min()),
        last=int(a["at"][routed].max()),
        first_ns=int(begun_ns.min()),
        last_ns=int(begun_ns.max()),
    )


def _sets(known: Sequence[Window]) -> list[str]:
    return sorted({w.set for w in known})


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


def finding_of(s: Served, context: Context) -> tuple[str, dict[str, object], tuple[int, ...]]:
    """A broken promise in words, its detail, and the operations that prove it."""
    w, t = s.window, s.tried
    members = list(w.reported.members) if w.reported is not None else []
    known = (
        f"Its SyncStateSet was {listed(members)} ({w.reported.node}, op {w.reported.at})."
        if w.reported is not None
        else "All its replicas were among them, so every member of its SyncStateSet was."
    )
    said = (
        f"Broker set {w.set}: from {_s(w.time.at_ns)} (op {w.time.at}) to {_s(w.time.until_ns)} "
        f"(op {w.time.until}) nothing more happened to the cluster. {listed(w.sound)} ran and were "
        f"connected. {known} {_none_succeeded(s, context)}"
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
        f"{_s(w.time.until_ns)} (op {w.time.until}) nothing more happened to the cluster. "
        f"{listed(w.sound)} ran and were connected. The last acknowledged message shows that "
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
