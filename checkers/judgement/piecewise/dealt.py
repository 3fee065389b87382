"""A run that is judged in pieces: what does not grow with its load is held, all else is dealt out.

`Judging` asks each check what it must know, has rows dealt out and keys judged by anyone who can
(`Found`), and puts the verdicts together, by the very functions that judge a history in memory.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from maxq.checkers.availability.attempts import Attempts, served_in
from maxq.checkers.availability.availability import Availability
from maxq.checkers.availability.recovery import Recoveries, Recovery, recovered
from maxq.checkers.core.api import Checker, Context, Verdict, unreadable
from maxq.checkers.core.keyed import BULK, Dealt, Keyed
from maxq.checkers.judgement.grounds import Ticks, standing
from maxq.checkers.judgement.runner import Results, judged_by
from maxq.checkers.replication.replicas import keys_of
from maxq.histories.columns.scan import Ints
from maxq.histories.history import NEVER_REASSIGNED, Breach, History, PartHistory, Reassigned
from maxq.histories.observed import REPLICA_LOG
from maxq.histories.op import HistoryError, Op

RECOVERIES, ATTEMPTS, TICKS = "recoveries", "attempts", "grounds"
LARGE = BULK - {REPLICA_LOG}  # kinds of which nothing is held
Found = Mapping[str, dict[Any, Any] | Exception]  # by task: each key's result, or why there is none


class Task(NamedTuple):
    """One check of one run. `more` restricts it to those keys, with what they need to know; `only`
    to operations with these indices, ascending."""

    check: Dealt[Any, Any, Any]
    known: Any
    more: Mapping[Any, Any] | None = None
    only: Ints | None = None


@dataclass(frozen=True)
class Small:
    """The small part of one run."""

    ops: list[Op]
    totals: Counter[tuple[str, str]]
    timings: Callable[[], Any] | None = None  # of all operations, where somebody can count them
    reassigned: Reassigned = NEVER_REASSIGNED

    @cached_property
    def alone(self) -> PartHistory:
        """It as a history, and nothing else."""
        return self.history()

    def history(self, more: Sequence[Op] = ()) -> PartHistory:
        """It as a history, with some operations more, which are taken for slim ones."""
        known = {op.index: op for op in [*self.ops, *more]}
        ops = (known[index] for index in sorted(known))
        found = PartHistory(ops, self.totals, self.timings, self.reassigned)
        if more:
            found.as_made_of(self.alone)
        return found


class Request(NamedTuple):
    """The checkers of a run, and what they know of it."""

    checkers: Sequence[Checker]
    context: Context


class Judged(NamedTuple):
    """The verdicts on a run, what is held of it (its small part at least), and how it recovered
    from each strike."""

    results: Results
    history: History
    recoveries: list[Recovery]


def slim(op: Op) -> Op:
    """Of a `replica-log` its set and one message of each queue, which is all that a check may ask
    of it before its rows are dealt out; any other operation as it is."""
    if op.f != REPLICA_LOG or not op.is_client or op.type != "ok":
        return op
    try:
        _, keys = keys_of(op)
    except HistoryError:
        return op  # the check that reads it says so
    records = [[key, 0, None] for key in sorted(keys)]
    return msgspec.structs.replace(op, value={**op.value, "digests": [], "records": records})


class Judging:
    """One run on its way to its verdicts."""

    def __init__(self, request: Request, small: Small) -> None:
        self._request = request
        self._small = small
        self._refused: dict[str, Exception] = {}  # by task: why nothing was dealt out
        self.tasks: dict[str, Task] = {}
        history = small.alone
        for checker in request.checkers:
            if isinstance(checker, Keyed):
                self._prepare(checker.name, checker, history)
        self._prepare(TICKS, Ticks(), history)
        if Recoveries().prepare(history, request.context):  # shown of every run that was struck
            self._prepare(RECOVERIES, Recoveries(), history)
        if any(isinstance(c, Availability) for c in request.checkers):
            self._prepare(ATTEMPTS, Attempts(), history)

    def _prepare(self, name: str, check: Any, history: PartHistory) -> None:
        try:
            known = check.prepare(history, self._request.context)
        except Exception as error:
            self._refused[name] = error
        else:
            self.tasks[name] = Task(check, known)

    def _results(self, name: str, found: Found) -> dict[Any, Any]:
        """Each key's result; raises what went wrong, as a judge of a history in memory would."""
        if name in self._refused:
            raise self._refused[name]
        results = found[name]
        if isinstance(results, Exception):
            raise results
        return results

    def again(self, found: Found) -> dict[str, Task]:
        """The tasks of which keys must know what others have found, with that."""
        tasks = {}
        for name, task in self.tasks.items():
            results = found[name]
            news = {} if isinstance(results, Exception) else task.check.again(results)
            if news:
                tasks[name] = task._replace(more=news)
        return tasks

    def evidence(self, found: Found) -> frozenset[int]:
        """The operations to be fetched, by index."""
        wanted: set[int] = set()
        for name, task in self.tasks.items():
            results = found[name]
            if isinstance(results, dict):
                wanted.update(task.check.evidence(results))
        return frozenset(wanted)

    def history(self, more: Sequence[Op]) -> PartHistory:
        """The small part, with some operations more."""
        return self._small.history(more) if more else self._small.alone

    def judged(self, found: Found, evidence: Sequence[Op], breaches: Sequence[Breach]) -> Judged:
        """Put everything together; breaches are those of well-formedness."""
        history = self.history(evidence)
        around = self._results(RECOVERIES, found) if RECOVERIES in self.tasks else {}
        recoveries = recovered(self._small.alone, around)

        def judge(checker: Checker) -> Verdict:
            if isinstance(checker, Availability):
                return self._available(checker, history, found)
            if isinstance(checker, Keyed):
                return self._conclude(checker, history, found)
            return checker.check(history, self._request.context)

        context = self._request.context
        ticked = self._results(TICKS, found)
        whole = standing(history, context, self.tasks[TICKS].known, ticked)
        results = judged_by(self._request.checkers, context, breaches, whole, judge)
        return Judged(results, history, recoveries)

    def _available(self, checker: Availability, history: PartHistory, found: Found) -> Verdict:
        try:
            of_queues = self._results(ATTEMPTS, found)
            sends = served_in(self.tasks[ATTEMPTS].known, of_queues)
        except HistoryError as error:
            return unreadable(checker, error)
        return checker.check_measured(history, self._request.context, sends)

    def _conclude(self, check: Keyed[Any, Any, Any], history: PartHistory, found: Found) -> Verdict:
        try:
            results = self._results(check.name, found)
            known = self.tasks[check.name].known
            return check.conclude(history, self._request.context, known, results)
        except HistoryError as error:
            return unreadable(check, error)


def merged(before: Found, again: Found) -> Found:
    """What was found, with what was found of the keys that were judged again."""
    whole = dict(before)
    for name, results in again.items():
        old = before[name]
        if isinstance(old, dict) and isinstance(results, dict):
            whole[name] = {key: results.get(key, kept) for key, kept in old.items()}
        else:
            whole[name] = results
    return whole
