"""Consumer groups keep their offset: no fail-over sends them back to what they read long ago.

An offset is copied from the master by every other replica, every ten seconds or so, beside the log;
how much of it a fail-over takes away is therefore bounded by time. An offset *counts* once it was
committed and then, for `COPIED_NS`, nothing was done to any node, no cut was in effect and no
broker was elected; nor since it was committed, since who was elected before it was copied never had
it. anyone who is asked for the offset of its group later, and says less, has forgotten it.

To be asked by the master that took the note shows nothing of a fail-over. coverage is a question
between which and that quiet time controllers reported another master of the group's broker set. So
elections must be seen: before controllers first reported a set, and after they last did, there may
have been any. Where brokers have no ids no answer shows it, and nothing is judged.

A key is a group of one process, whose commits grow and are each over before the next, so that none
can undo a later one. What a slave took or said because routes list no master does not count, nor
what one took that acts for its master: its table is replaced by its master's. A store that is
removed, on purpose, takes its copies with it: nothing is judged after that. Claim: O1.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import NEVER, SetSighting, set_sightings
from maxq.checkers.evidence.quiescence import Interval, Undisturbed
from maxq.checkers.evidence.story import when
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.messages.copied_offsets import (
    Circumstances,
    FailOver,
    Masters,
    Moves,
    Quiet,
)
from maxq.histories.fault_facts import AWAIT_RECOVERY, ELECT_MASTER, TAMPERS
from maxq.histories.history import History
from maxq.histories.observed import COMMIT_OFFSET, FETCH_OFFSET, SLAVE
from maxq.histories.op import HistoryError, Op

if TYPE_CHECKING:
    from maxq.checkers.core.columnar import Dealing, Groups, Unsure
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints


class Completed(NamedTuple):
    """A completed operation on an offset; `begun` is the index of its invocation."""

    begun: int
    begun_ns: int
    op: Op


class Kept(NamedTuple):
    """What was found of one key: broken, how many answers could have been, and how many may have
    come from another master than the one that it was committed to, whenever that was."""

    found: list[Found]
    judged: int
    elsewhere: int


class Offsets(KeyedChecker):
    """The checker. See the module's text."""

    name = "offsets"
    claims = ("O1",)
    reads = frozenset((COMMIT_OFFSET, FETCH_OFFSET))

    def prepare(self, history: History, context: Context) -> Circumstances:
        wipes = [op.index for op in history.ops if op.f in TAMPERS]
        sightings = set_sightings(history) if context.has_ids else {}
        elections = (*_ordered(history), *_elections(sightings))
        return Circumstances(
            spans=tuple(_quiet(history, context, elections)),
            elections=elections,
            fail_overs=tuple(_fail_overs(sightings)),
            sets=_sets(sightings),
            until=min(wipes, default=NEVER),
            masters=_masters(sightings),
        )

    def rows(self, event: Event, known: Circumstances) -> Iterator[tuple[int, Completed]]:
        op, begun = event.op, event.begun
        of_slave = (op.ext or {}).get(SLAVE)
        if op.type == "ok" and begun is not None and op.index < known.until and not of_slave:
            yield _value(op)[0], Completed(begun.index, begun.time, op)

    def judge(
        self, key: int, rows: Sequence[Completed], known: Circumstances, more: object = None
    ) -> Kept:
        moves = Moves(known)
        commits = [row for row in rows if row.op.f == COMMIT_OFFSET and _by_master(row, moves)]
        fetches = [row for row in rows if row.op.f == FETCH_OFFSET]
        counts = _counted(commits, fetches, Quiet(known), moves)
        indices = [row.op.index for row in commits]
        found: list[Found] = []
        judged = elsewhere = 0
        for row, (last, moved) in zip(fetches, counts, strict=True):
            before = bisect_left(indices, row.begun)
            elsewhere += before > 0 and _may_be_another(moves, commits[before - 1], row)
            judged += moved < row.begun
            if last is not None and _value(row.op)[1] < _value(last.op)[1]:
                found.append(_forgotten(key, last, row))
        return Kept(found, judged, elsewhere)

    def columns(self, rows: "Rows", chosen: "Ints", known: Circumstances) -> "Dealing":
        from maxq.checkers.messages import offset_columns  # numpy, for those who have columns

        return offset_columns.elements(rows, chosen, known.until, partial(self.rows, known=known))

    def judge_groups(self, groups: "Groups", known: Circumstances) -> "list[Kept | Unsure]":
        from maxq.checkers.messages import offset_columns

        answers = offset_columns.clean(groups, known)
        return [Kept([], *a) if isinstance(a, offset_columns.Clean) else a for a in answers]

    def evidence(self, results: Mapping[int, Kept]) -> Iterator[int]:
        yield from (at for kept in results.values() for f in kept.found for at in f.ops)

    def conclude(
        self,
        history: History,
        context: Context,
        known: Circumstances,
        results: Mapping[int, Kept],
    ) -> Verdict:
        judged = sum(kept.judged for kept in results.values())
        case = Case(
            found=[f for kept in results.values() for f in kept.found],
            counts={"groups": len(results), "offsets-judged": judged},
            judged={"O1": judged},
        )
        if not judged and any(kept.elsewhere for kept in results.values()):
            why = (
                "no offset was asked for after a fail-over before which it had been left "
                "undisturbed for 30 s"
            )
            case.doubt("O1", why, "--time-limit 90s --quiet-period 35s: a longer, quieter run")
        return rule(self, history, context, case)


def _counted(
    commits: Sequence[Completed], fetches: Sequence[Completed], quiet: Quiet, moves: Moves
) -> list[tuple[Completed | None, int]]:
    """Of the commits that count for each fetch: the first of the furthest, and the lowest index at
    which a fail-over after such a one was over.

    A commit counts for a fetch that was begun after it had ended, by index, and had been copied, by
    time; so fetches are looked at in order of time, and what is copied by then is looked up by its
    place among the commits.
    """
    copies = []
    for place, row in enumerate(commits):
        copied = quiet.copied(row.begun, row.op.time)
        if copied is not None:
            broker = (row.op.ext or {}).get("broker")
            moved = moves.earliest[moves.home(broker)].since(copied.until)
            copies.append((copied.at_ns, place, moved))
    copies.sort()
    indices = [row.op.index for row in commits]
    counting = _Counting(len(commits))
    added = 0
    found: list[tuple[Completed | None, int]] = [(None, NEVER)] * len(fetches)
    for number in sorted(range(len(fetches)), key=lambda n: fetches[n].begun_ns):
        fetch = fetches[number]
        while added < len(copies) and copies[added][0] < fetch.begun_ns:
            _, place, moved = copies[added]
            counting.add(place, _value(commits[place].op)[1], moved)
            added += 1
        last, moved = counting.before(bisect_left(indices, fetch.begun))
        found[number] = (None if last is None else commits[last]), moved
    return found


class _Counting:
    """Which of the commits before a place is the furthest, and the lowest index noted with any of
    them: a Fenwick tree over places."""

    def __init__(self, size: int) -> None:
        self._best: list[tuple[int, int] | None] = [None] * (size + 1)  # offset, -place
        self._least = [NEVER] * (size + 1)

    def add(self, place: int, offset: int, moved: int) -> None:
        at, mine = place + 1, (offset, -place)
        while at < len(self._best):
            best = self._best[at]
            self._best[at] = mine if best is None else max(best, mine)
            self._least[at] = min(self._least[at], moved)
            at += at & -at

    def before(self, place: int) -> tuple[int | None, int]:
        found: tuple[int, int] | None = None
        least, at = NEVER, place
        while at > 0:
            best = self._best[at]
            if best is not None:
                found = best if found is None else max(found, best)
            least = min(least, self._least[at])
            at -= at & -at
        return (None if found is None else -found[1]), least


def _by_master(row: Completed, moves: Moves) -> bool:
    """Whether a master may have taken a note, and no slave that acts for one."""
    broker = (row.op.ext or {}).get("broker")
    return moves.may_be_master(broker, row.begun, row.op.index)


def _may_be_another(moves: Moves, commit: Completed, fetch: Completed) -> bool:
    """Whether who is asked for an offset may be another one than who took the note."""
    took, asked = ((row.op.ext or {}).get("broker") for row in (commit, fetch))
    return took != asked or moves.latest[moves.home(took)].before(fetch.op.index) > commit.begun


def _value(op: Op) -> tuple[int, int]:
    value = op.value
    if not (isinstance(value, list | tuple) and len(value) == 2
            and all(isinstance(v, int) for v in value)):  # fmt: skip
        raise HistoryError(f"op {op.index}: {op.f} needs [key, offset], not {value!r}")
    return value[0], value[1]


def _quiet(history: History, context: Context, elections: Sequence[Interval]) -> Iterator[Interval]:
    """The times without an act of the nemesis and without an election."""
    acts = faults(history)
    nodes = {n for names in context.broker_sets.values() for n in names}
    nodes |= {n for act in acts if not act.harmless for n in act.nodes}
    told = (a for a in acts if a.kind != "question" or a.f == AWAIT_RECOVERY)
    for span in Undisturbed(told).of(nodes):
        left = [span]
        for election in elections:
            left = [part for whole in left for part in whole.without(election)]
        yield from left


def _ordered(history: History) -> Iterator[Interval]:
    """When an election was ordered."""
    return (_span(act) for act in faults(history) if act.effect == "order" or act.f == ELECT_MASTER)


def _span(act: Fault) -> Interval:
    ended, ended_ns = act.ended, act.ended_ns
    return Interval(
        act.begun,
        act.begun_ns,
        NEVER if ended is None else ended,
        NEVER if ended_ns is None else ended_ns,
    )


Sightings = Mapping[str, Sequence[SetSighting]]


def _elections(sightings: Sightings) -> Iterator[Interval]:
    """When an election may have taken place: between two answers of controllers with
    different master epochs, and where none is before or after."""
    if not sightings:
        yield Interval(-1, -1, NEVER, NEVER)
    for answers in sightings.values():
        first, last = answers[0], answers[-1]
        yield Interval(-1, -1, first.begun, first.begun_ns)
        yield Interval(last.at, last.at_ns, NEVER, NEVER)
        for before, after in pairwise(answers):
            if before.epoch != after.epoch:
                yield Interval(before.begun, before.begun_ns, after.at, after.at_ns)


def _fail_overs(sightings: Sightings) -> Iterator[FailOver]:
    """Between which two answers another broker became master. An answer from old state, which
    has a lower epoch than one before it, says nothing."""
    for name, answers in sightings.items():
        led: SetSighting | None = None  # the last answer that names a master
        older = newest = answers[0]  # the last one of an earlier epoch, and of the highest one
        for s in answers:
            if s.epoch < newest.epoch:
                continue
            if s.epoch > newest.epoch:
                older = newest
            newest = s
            if s.view.master is None:
                continue
            if led is not None and s.view.master != led.view.master:
                yield FailOver(name, older.begun, s.at)
            led = s


def _masters(sightings: Sightings) -> dict[str, Masters]:
    return {
        name: Masters(
            tuple(s.begun for s in answers),
            tuple(s.at for s in answers),
            tuple(s.view.master_address or "" for s in answers),
        )
        for name, answers in sightings.items()
    }


def _sets(sightings: Sightings) -> dict[str, str]:
    """The broker set of each address that a controller ever reported."""
    return {
        address: name
        for name, answers in sightings.items()
        for s in answers
        for address in (s.view.master_address, *s.view.replicas.values())
        if address
    }


def _forgotten(key: int, last: Completed, row: Completed) -> Found:
    offset, was = _value(row.op)[1], _value(last.op)[1]
    broker = (row.op.ext or {}).get("broker")
    return Found(
        "O1",
        "consumer-offset-regressed",
        (last.op.index, row.op.index),
        f"Group {key} committed offset {was} ({when(last.op)}), and later got {offset} "
        f"({when(row.op)}) by {broker}. In between nothing was wrong for long enough for "
        "every replica to copy it.",
        {"key": key, "committed": was, "fetched": offset, "broker": broker},
    )
