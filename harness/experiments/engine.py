"""The loop of every experiment: what is missing is run, some at a time, until the budget is spent.

A client names the next trial, given those that run; says how one is performed, mostly in a worker;
and takes what came of it. That is a line of its journal (`maxq.harness.experiments.journal`), so
that the same command goes on where one was cut off: by its budget, by a signal, or by a crash.
"""

import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import TypeVar

from maxq.harness.experiments.worker_pool import workers

JOURNAL = "journal.jsonl"
SPENT = "the budget is spent; run the same command again to go on"

T = TypeVar("T")
R = TypeVar("R")


def run_missing(
    next_trial: Callable[[Collection[T]], T | None],
    perform: Callable[[T], R],
    folder: Path,
    *,
    jobs: int = 1,
    inline: bool = False,
    budget_ns: int | None = None,
) -> Iterator[tuple[T, R]]:
    """Each trial and what came of it, in the order in which they end.

    Args:
        next_trial: which is next, given those that run; None: none, at least until one ends.
        perform: runs one.
        folder: of the experiment; no other command works there meanwhile.
        jobs: how many at a time.
        inline: in this process, one at a time.
        budget_ns: no trial begins after so long; None: no limit.

    Raises:
        Occupied: another command is at work on the folder.
    """
    until_ns = None if budget_ns is None else time.monotonic_ns() + budget_ns
    at_work: dict[Future[R], T] = {}
    with workers(jobs, folder, inline=inline) as pool:
        while True:
            while len(at_work) < jobs:
                in_time = until_ns is None or time.monotonic_ns() < until_ns
                trial = next_trial(at_work.values()) if in_time else None
                if trial is None:
                    break
                at_work[pool.submit(perform, trial)] = trial
            if not at_work:
                return
            for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                yield at_work.pop(future), future.result()
