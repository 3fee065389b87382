"""Judges histories on Spark: the same verdicts as `maxq.checkers.judgement.runner.check_all`, of
any size.

Three jobs for any number of runs: one collects the small part of each, one deals every check's rows
out and judges each key, one fetches the operations that anomalies name. A fourth is needed where
a key must know what another has found, which few histories show. What is put together in the end is
small, and put together here, by the very functions of the local engine.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from maxq.checkers.availability.availability import Availability
from maxq.checkers.availability.recovery import Recoveries, Recovery, recovered
from maxq.checkers.availability.write_availability import Attempts, served_in
from maxq.checkers.core.api import Checker, Context, Verdict, unreadable
from maxq.checkers.core.keyed import Keyed
from maxq.checkers.judgement.grounds import Ticks, standing
from maxq.checkers.judgement.runner import Results, judged_by
from maxq.histories.history import Breach, PartHistory
from maxq.histories.op import HistoryError
from maxq.spark_checkers.deal import Task, TaskId, deal
from maxq.spark_checkers.events import Small, collect_ops, collect_small, joined
from maxq.spark_checkers.rules import Rules, breaches_of

RULES, RECOVERIES, ATTEMPTS, TICKS = "rules", "recoveries", "attempts", "grounds"
Found = Mapping[TaskId, dict[Any, Any] | Exception]


class Request(NamedTuple):
    """The checkers of a run, and what they know of it."""

    checkers: Sequence[Checker]
    context: Context


class Judged(NamedTuple):
    """The verdicts on a run, its small part, and how it recovered from each strike."""

    results: Results
    history: PartHistory
    recoveries: list[Recovery]


def judge_runs(
    events: Any, requests: Mapping[str, Request], *, partitions: int
) -> dict[str, Judged]:
    """Judge every requested run.

    Args:
        events: an events table of one run or many, in any order and partitioning.
        requests: by run.
        partitions: into how many pieces rows are dealt.

    Raises:
        HistoryError: a row is no operation, or a pair is wrong.
    """
    parts = collect_small(events)
    runs = {
        run: _Run(run, request, parts.get(run, Small([], Counter())))
        for run, request in requests.items()
    }
    tasks = {(run, name): task for run, r in runs.items() for name, task in r.tasks.items()}
    whole = joined(events)
    found = deal(whole, tasks, partitions)
    found |= _again(whole, tasks, found, partitions)
    wanted = {run: r.evidence(found) for run, r in runs.items()}
    evidence = collect_ops(events, wanted)
    return {run: r.judged(found, evidence[run]) for run, r in runs.items()}


def _again(
    whole: Any, tasks: Mapping[TaskId, Task], found: Found, partitions: int
) -> dict[TaskId, dict[Any, Any] | Exception]:
    """Judge keys again that must know what others have found."""
    more = {}
    for task_id, task in tasks.items():
        results = found[task_id]
        news = {} if isinstance(results, Exception) else task.check.again(results)
        if news:
            more[task_id] = task._replace(more=news)
    merged: dict[TaskId, dict[Any, Any] | Exception] = {}
    for task_id, results in (deal(whole, more, partitions) if more else {}).items():
        before = found[task_id]
        if isinstance(before, dict) and isinstance(results, dict):
            merged[task_id] = {key: results.get(key, old) for key, old in before.items()}
        else:
            merged[task_id] = results
    return merged


class _Run:
    """One run on its way to its verdicts."""

    def __init__(self, run: str, request: Request, small: Small) -> None:
        self._run = run
        self._request = request
        self._small = small
        self._refused: dict[str, Exception] = {}  # by task: why nothing was dealt out
        self.tasks: dict[str, Task] = {}
        history = small.history()
        rules = Rules()
        self.tasks[RULES] = Task(rules, None)
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
        """Each key's result; raises what went wrong, as the local engine would."""
        if name in self._refused:
            raise self._refused[name]
        results = found[self._run, name]
        if isinstance(results, Exception):
            raise results
        return results

    def evidence(self, found: Found) -> frozenset[int]:
        """The operations to be fetched."""
        wanted: set[int] = set()
        for name, task in self.tasks.items():
            results = found[self._run, name]
            if isinstance(results, dict):
                wanted.update(task.check.evidence(results))
        return frozenset(wanted)

    def judged(self, found: Found, evidence: Sequence[Any]) -> Judged:
        """Put everything together."""
        history = self._small.history(evidence)
        breaches: list[Breach] = breaches_of(self._results(RULES, found))
        recoveries = recovered(self._small.history(), self._around(found))

        def judge(checker: Checker) -> Verdict:
            if isinstance(checker, Availability):
                return self._available(checker, history, found)
            if isinstance(checker, Keyed):
                return self._conclude(checker, history, found)
            return checker.check(history, self._request.context)

        context = self._request.context
        known = self.tasks[TICKS].known
        whole = standing(history, context, known, self._results(TICKS, found))
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

    def _around(self, found: Found) -> dict[Any, Any]:
        return self._results(RECOVERIES, found) if RECOVERIES in self.tasks else {}
