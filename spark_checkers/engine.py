"""Judges histories on Spark: the same verdicts as `maxq.checkers.judgement.runner.check_all`, of
any size.

Three jobs for any number of runs: one collects the small part of each, one deals every check's rows
out and judges each key, one fetches the operations that anomalies name. A fourth is needed where
a key must know what another has found, which few histories show. What is put together in the end is
small, and put together here, by `maxq.checkers.judgement.dealt`.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from maxq.checkers.judgement.dealt import Found, Judged, Judging, Request, Small, Task, merged
from maxq.histories.history import Breach
from maxq.spark_checkers.deal import TaskId, deal
from maxq.spark_checkers.events import collect_ops, collect_small, joined
from maxq.spark_checkers.rules import Rules, breaches_of

RULES = "rules"  # the name of their task


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
        run: Judging(request, parts.get(run, Small([], Counter())))
        for run, request in requests.items()
    }
    whole = joined(events)
    rules = Task(Rules(), None)
    found = _dealt(whole, {run: {**r.tasks, RULES: rules} for run, r in runs.items()}, partitions)
    found, breaches = _ruled(whole, found, partitions)
    more = {run: r.again(found[run]) for run, r in runs.items()}
    if any(more.values()):
        again = _dealt(whole, more, partitions)
        found = {run: merged(found[run], again[run]) for run in runs}
    wanted = {run: r.evidence(found[run]) for run, r in runs.items()}
    evidence = collect_ops(events, wanted)
    return {run: r.judged(found[run], evidence[run], breaches[run]) for run, r in runs.items()}


def _ruled(
    whole: Any, found: Mapping[str, Found], partitions: int
) -> tuple[dict[str, Found], dict[str, list[Breach]]]:
    """The same without what was found of the rules of well-formedness; and all breaches of them.
    Chunks that must know the highest time before them are looked at again."""
    rules = Rules()
    results: dict[str, dict[Any, Any]] = {}
    for run, of_run in found.items():
        of_rules = of_run[RULES]
        if isinstance(of_rules, Exception):
            raise of_rules
        results[run] = of_rules
    more = {run: {RULES: Task(rules, None, news)} for run, r in results.items()
            if (news := rules.again(r))}  # fmt: skip
    if more:
        for run, again in _dealt(whole, more, partitions).items():
            known = merged({RULES: results[run]}, again)[RULES]
            results[run] |= known if isinstance(known, dict) else {}
    rest: dict[str, Found] = {
        run: {n: r for n, r in of.items() if n != RULES} for run, of in found.items()
    }
    return rest, {run: breaches_of(r) for run, r in results.items()}


def _dealt(
    whole: Any, tasks: Mapping[str, Mapping[str, Task]], partitions: int
) -> dict[str, Found]:
    each: dict[TaskId, Task] = {(r, name): t for r, of in tasks.items() for name, t in of.items()}
    found = deal(whole, each, partitions)
    return {run: {name: found[run, name] for name in of} for run, of in tasks.items()}
