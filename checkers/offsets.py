"""Consumer groups keep their place: a fail-over does not send them back to what they read long ago.

A place is copied from the master by every other replica, every ten seconds or so, beside the log;
how much of it a fail-over takes away is therefore bounded by time. A place *counts* once it was
committed and then, for `COPIED_NS`, nothing was done to any node, no cut was in force and nobody
was elected. Whoever is asked for the place of its group later, and says less, has forgotten it.

A key is a group of one process, whose commits grow and are each over before the next, so that none
can undo a later one. A store that is removed, on purpose, takes its copies with it: nothing is
judged after that. Claim: O1.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from checkers.acts import QUESTIONS
from checkers.api import Context, Verdict
from checkers.faults import Fault, faults
from checkers.force import HARMLESS, calms
from checkers.keyed import Alone, Event, check_keyed
from checkers.ruling import Case, Found, rule, unreadable
from checkers.sightings import NEVER, set_sightings
from checkers.story import when
from histories.history import History
from histories.observed import COMMIT_PLACE, COPIED_NS, FETCH_PLACE, WIPE
from histories.op import HistoryError, Op

ORDERS = frozenset(("order-election", "elect-master"))


class Quiet(NamedTuple):
    """From index `at`, and `since_ns`, until another one."""

    at: int
    since_ns: int
    until: int
    until_ns: int

    def without(self, other: "Quiet") -> Iterator["Quiet"]:
        """What is left of it before and after another time."""
        if other.until <= self.at or other.at >= self.until:
            yield self
            return
        if self.at < other.at:
            yield Quiet(self.at, self.since_ns, other.at, other.since_ns)
        if other.until < self.until:
            yield Quiet(other.until, other.until_ns, self.until, self.until_ns)


class Calmness(NamedTuple):
    """When nothing happened, and until which operation anything is judged."""

    spans: tuple[Quiet, ...]
    until: int


class Moved(NamedTuple):
    """A completed operation on a place; `begun` is the index of its invocation."""

    begun: int
    begun_ns: int
    op: Op


class Kept(NamedTuple):
    """What was found of one key: broken, and how many answers could have been."""

    found: list[Found]
    judged: int


class Offsets(Alone):
    """The checker. See the module's text."""

    name = "offsets"
    claims = ("O1",)
    reads = frozenset((COMMIT_PLACE, FETCH_PLACE))

    def check(self, history: History, context: Context) -> Verdict:
        return check_keyed(self, history, context)

    def prepare(self, history: History, context: Context) -> Calmness:
        wipes = [op.index for op in history.ops if op.f == WIPE]
        return Calmness(tuple(_quiet(history, context)), min(wipes, default=NEVER))

    def rows(self, event: Event, known: Calmness) -> Iterator[tuple[int, Moved]]:
        op, begun = event.op, event.begun
        if op.type == "ok" and begun is not None and op.index < known.until:
            yield _value(op)[0], Moved(begun.index, begun.time, op)

    def judge(self, key: int, rows: Sequence[Moved], known: Calmness, more: object = None) -> Kept:
        commits = [row for row in rows if row.op.f == COMMIT_PLACE]
        kept = Kept([], 0)
        for row in rows:
            if row.op.f != FETCH_PLACE:
                continue
            counted = [c for c in commits if _counts(c, row, known.spans)]
            if not counted:
                continue
            kept = Kept(kept.found, kept.judged + 1)
            last = max(counted, key=lambda c: _value(c.op)[1])
            if _value(row.op)[1] < _value(last.op)[1]:
                kept.found.append(_forgotten(key, last, row))
        return kept

    def conclude(
        self,
        history: History,
        context: Context,
        known: Calmness,
        results: Mapping[int, Kept],
    ) -> Verdict:
        judged = sum(kept.judged for kept in results.values())
        case = Case(
            found=[f for kept in results.values() for f in kept.found],
            counts={"groups": len(results), "places-judged": judged},
            judged={"O1": judged},
        )
        if not judged:
            why = "no offset was asked for that had been left undisturbed for 30 s"
            case.doubt("O1", why, "--time-limit 90s --lull 35s: a longer run with quiet periods")
        return rule(self, history, context, case)

    def unreadable(self, error: HistoryError) -> Verdict:
        return unreadable(self, error)


def _value(op: Op) -> tuple[int, int]:
    value = op.value
    if not (isinstance(value, list | tuple) and len(value) == 2
            and all(isinstance(v, int) for v in value)):  # fmt: skip
        raise HistoryError(f"op {op.index}: {op.f} needs [key, place], not {value!r}")
    return value[0], value[1]


def _quiet(history: History, context: Context) -> Iterator[Quiet]:
    """The times in which nothing was done to anybody and nobody was elected."""
    acts = faults(history)
    nodes = {n for names in context.broker_sets.values() for n in names}
    nodes |= {n for act in acts if act.f not in HARMLESS for n in act.nodes}
    begun_ns = {act.begun: act.begun_ns for act in acts}
    breaks = [_span(act) for act in acts if act.f in ORDERS]
    breaks += _elections(history)
    for span in calms([a for a in acts if a.f not in QUESTIONS], nodes):
        left = [Quiet(span.at, span.since_ns, span.until, begun_ns.get(span.until, NEVER))]
        for broken in breaks:
            left = [part for whole in left for part in whole.without(broken)]
        yield from left


def _span(act: Fault) -> Quiet:
    ended, ended_ns = act.ended, act.ended_ns
    return Quiet(
        act.begun,
        act.begun_ns,
        NEVER if ended is None else ended,
        NEVER if ended_ns is None else ended_ns,
    )


def _elections(history: History) -> Iterator[Quiet]:
    """Between which two answers of controllers another master was elected."""
    for answers in set_sightings(history).values():
        for before, after in pairwise(answers):
            if before.view.master_epoch != after.view.master_epoch:
                yield Quiet(before.begun, before.begun_ns, after.at, after.at_ns)


def _counts(commit: Moved, fetch: Moved, spans: Sequence[Quiet]) -> bool:
    """Whether a place was copied everywhere before it was asked for."""
    return commit.op.index < fetch.begun and any(
        min(span.until_ns, fetch.begun_ns) - max(span.since_ns, commit.op.time) > COPIED_NS
        for span in spans
    )


def _forgotten(key: int, last: Moved, row: Moved) -> Found:
    place, was = _value(row.op)[1], _value(last.op)[1]
    broker = (row.op.ext or {}).get("broker")
    return Found(
        "O1",
        "place-forgotten",
        (last.op.index, row.op.index),
        f"Group {key} committed place {was} ({when(last.op)}), and was told {place} "
        f"({when(row.op)}) by {broker}, although nothing was wrong for long enough in between for "
        "every replica to copy it.",
        {"key": key, "place": was, "told": place, "broker": broker},
    )
