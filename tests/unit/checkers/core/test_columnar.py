"""A key's arrays may come in pieces, made and judged by processes that are no part of the harness.

So any engine can carry them. A history is dealt in three pieces, each by a process of its own. The
arrays of each key are cut in three, sent as Arrow sends them, and taken one after the other by
three processes, which give what they hold to the next one as a pickle; a fourth one judges. A key
of which arrays cannot say that nothing is wrong is judged by its rows, in pieces as well. What
comes of it is compared with the key's arrays as they are, and with its rows, judged here.
"""

import pickle
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plain_worker
import pytest
from lock_histories import lock_history
from offset_histories import offset_case
from plain_worker import deal, sent, table_of
from queue_histories import queue_history
from replica_histories import replica_case

from maxq.checkers.core.api import Context
from maxq.checkers.core.columnar import (
    Arrays,
    Columnar,
    Dealing,
    Groups,
    KeyArrays,
    Named,
    Unsure,
    numbers_of,
)
from maxq.checkers.core.keyed import Event, events_of, results_of
from maxq.harness.run.judging import every_checker
from maxq.harness.schedule.generated import options_of
from maxq.histories.columns.outline import batches_of, outline_of, rows_of
from maxq.histories.columns.rows import Rows
from maxq.histories.history import History
from maxq.histories.op import HistoryError
from maxq.histories.tables import events_table
from maxq.workloads.generated.asked.kinds import WORKLOADS
from maxq.workloads.generated.asked.request import Request
from maxq.workloads.generated.memory import made

PIECES = 3
SEEDS = 40
OURS, ALLOWED = "maxq.", ("maxq.checkers", "maxq.histories")
NEVER_NEEDED = {"pyspark", "py4j", "pytest", "_pytest", "hypothesis"}
CHECKS: dict[str, Any] = {c.name: c for c in every_checker() if isinstance(c, Columnar)}
SMALL: dict[str, Any] = {
    "durability": lambda seed: (queue_history(seed), Context()),
    "locks": lambda seed: (lock_history(seed), Context()),
    "offsets": offset_case,
    "replicas": replica_case,
}


class Case(NamedTuple):
    """A history for one check, whole and in pieces; what some keys must hear of others, and what
    rows prove, key by key."""

    check: Any
    known: Any
    more: Mapping[Any, Any]
    events: list[Event]
    whole: Dealing
    pieces: list[Rows]
    by_rows: dict[Any, Any]
    wrong: bool  # whether the check has findings

    @property
    def name(self) -> str:
        found: str = self.check.name
        return found


class Key(NamedTuple):
    """A key whose rows say something. `alone` is what all of its arrays say at once."""

    case: Case
    key: Any
    arrays: Arrays | None  # None: something that no array holds is said of it
    alone: Any


def histories(name: str) -> Iterator[tuple[History, Context]]:
    """Small ones made for a check, right or nearly so; and a longer one of each workload."""
    for seed in range(SEEDS) if name in SMALL else ():
        yield SMALL[name](seed)
    for workload in WORKLOADS:
        request = Request(workload=workload, ops=300, seed=5)
        one = made(request)
        options = options_of(request, one.outcome.main_ns, learners=0, trims=False)
        yield History(one.ops), options.context()


def cases(check: Any) -> Iterator[Case]:
    for history, context in histories(check.name):
        table = events_table(history.ops, run_id="r")
        known = check.prepare(history, context)
        try:
            events = [*events_of(history, check.reads)]
            more = heard(check, events, known)
            by_rows = results_of(check, history, known)
        except HistoryError:
            continue  # refused by any way
        for whole in pieces_of(table, max(len(table), 1)):
            pieces = pieces_of(table, -(-len(table) // PIECES))
            wrong = bool(check.check(history, context).anomalies)
            dealt = deal(check, known, whole)
            yield Case(check, known, more, events, dealt, pieces, by_rows, wrong)


def pieces_of(table: Any, rows: int) -> list[Rows]:
    reading = batches_of(table, rows)
    return [*rows_of(reading, outline_of(reading(None)))]


def heard(check: Any, events: Sequence[Event], known: Any) -> Mapping[Any, Any]:
    """By rows: what some keys must know of the others."""
    dealt = defaultdict[Any, list[Any]](list)
    for event in events:
        for key, row in check.rows(event, known):
            dealt[key].append(row)
    found: Mapping[Any, Any] = check.again(
        {key: check.judge(key, rows, known) for key, rows in sorted(dealt.items())}
    )
    return found


def keys_of(case: Case) -> Iterator[Key]:
    """Each key of a history, its arrays made in this process at once."""
    held = KeyArrays()
    held.take(copied(case.whole))
    own = dict(held.groups().each())
    for key in case.by_rows:
        arrays = own.get(key)
        if arrays is not None:
            (alone,) = case.check.judge_groups(Groups.of(key, dict(arrays)), case.known)
            yield Key(case, key, arrays, alone)
        else:
            yield Key(case, key, None, Unsure())


def copied(dealing: Dealing) -> Dealing:
    return dealing._replace(arrays=dict(dealing.arrays))


def cut(count: int) -> list[slice]:
    """So many rows in three pieces."""
    bounds = [count * n // PIECES for n in range(PIECES + 1)]
    return [slice(*pair) for pair in pairwise(bounds)]


class Workers:
    """Processes that do their jobs and end; and what they needed."""

    def __init__(self) -> None:
        self.needed: set[str] = set()

    def do(self, jobs: Sequence[tuple[str, tuple[Any, ...]]]) -> list[Any]:
        """What one of them makes of some jobs."""
        done = subprocess.run(
            [sys.executable, str(Path(plain_worker.__file__))],
            input=pickle.dumps(jobs), capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        answers, modules = pickle.loads(done.stdout)
        self.needed.update(modules)
        found: list[Any] = answers
        return found

    def judged(self, keys: Sequence[Key]) -> list[Any]:
        """Of keys with arrays what is said of each in three pieces."""
        states = [b""] * len(keys)
        for n in range(PIECES):
            states = self.do([("take", (s, *piece(key, n)))
                              for s, key in zip(states, keys, strict=True)])  # fmt: skip
        return self.do([("judge", (*said_of(key), state))
                        for key, state in zip(keys, states, strict=True)])  # fmt: skip

    def by_rows(self, keys: Sequence[Key]) -> list[Any]:
        """The same of keys that are left to their rows."""
        states = [b""] * len(keys)
        for n in range(PIECES):
            states = self.do([
                ("hear", (*said_of(k)[:3], s, k.case.events[cut(len(k.case.events))[n]]))
                for s, k in zip(states, keys, strict=True)
            ])  # fmt: skip
        return self.do([("judge_rows", (*said_of(key), state))
                        for key, state in zip(keys, states, strict=True)])  # fmt: skip


def piece(key: Key, n: int) -> tuple[int, Named, bytes]:
    named = key.case.whole.names, key.case.whole.prefix
    (number,) = numbers_of([key.key], *named)
    arrays = key.arrays or {}
    span = cut(len(next(iter(arrays.values()))))[n]
    return number, named, sent(table_of({name: column[span] for name, column in arrays.items()}))


def said_of(key: Key) -> tuple[Any, Any, Any, Any]:
    return key.case.check, key.key, key.case.known, key.case.more.get(key.key)


@pytest.fixture(scope="module")
def every_case() -> list[Case]:
    return [case for check in CHECKS.values() for case in cases(check)]


@pytest.fixture(scope="module")
def workers() -> Workers:
    return Workers()


def test_pieces_of_a_history_are_dealt_as_the_whole(
    every_case: list[Case], workers: Workers
) -> None:
    parts = [
        workers.do([("deal", (c.check, c.known, c.pieces[n])) for c in every_case
                    if n < len(c.pieces)])
        for n in range(PIECES)
    ]  # fmt: skip
    for case in every_case:
        mine = [part.pop(0) for part, _ in zip(parts, case.pieces, strict=False)]
        assert frozenset().union(*(d.unsure for d in mine)) == case.whole.unsure, case.name
        assert np.array_equal(np.concatenate([d.key for d in mine]), case.whole.key), case.name
        for name, column in case.whole.arrays.items():
            joined = np.concatenate([d.arrays[name] for d in mine])
            assert alike(joined, column), (case.name, name)


def alike(a: Any, b: Any) -> bool:
    """Whether two arrays, or objects in them, are equal."""
    if isinstance(a, np.ndarray) and a.dtype != object:
        return np.array_equal(a, b)
    if isinstance(a, tuple | np.ndarray):
        return len(a) == len(b) and all(map(alike, a, b))
    return bool(a == b)


def test_pieces_of_a_key_give_the_answer_of_the_whole_and_of_its_rows(
    every_case: list[Case], workers: Workers
) -> None:
    keys = [key for case in every_case for key in keys_of(case)]
    with_arrays = [key for key in keys if key.arrays is not None]
    said: Counter[tuple[str, str]] = Counter()
    left = [key for key in keys if key.arrays is None]
    for key, answer in zip(with_arrays, workers.judged(with_arrays), strict=True):
        name, heard = key.case.name, key.key in key.case.more  # then its rows are judged
        assert type(answer) is type(key.alone), (name, key.key)
        if not isinstance(answer, Unsure):
            assert answer == key.alone, (name, key.key)
        said[name, "heard"] += heard
        if isinstance(answer, Unsure) or heard:
            left.append(key)
        else:
            said[name, "sure"] += 1
            assert answer == key.case.by_rows[key.key], (name, key.key)
    for key, answer in zip(left, workers.by_rows(left), strict=True):
        said[key.case.name, "left"] += 1
        said[key.case.name, "wrong"] += key.case.wrong
        assert answer == key.case.by_rows[key.key], (key.case.name, key.key)

    for name in CHECKS:
        assert said[name, "sure"] > 10, said
    for name in SMALL:
        assert said[name, "wrong"] > 5, said  # and where something is wrong rows say it
    assert said["durability", "heard"], said


def test_a_worker_needs_neither_the_harness_nor_spark_nor_pytest(
    every_case: list[Case], workers: Workers
) -> None:
    keys = [key for case in every_case[:: len(every_case) // 8] for key in keys_of(case)]
    workers.judged([key for key in keys if key.arrays is not None])
    workers.by_rows(keys)
    assert {"numpy", "maxq.checkers.core.columnar"} <= workers.needed
    ours = [m for m in workers.needed if m.startswith(OURS) and not m.startswith(ALLOWED)]
    others = [m for m in workers.needed if m.split(".")[0] in NEVER_NEEDED]
    assert not ours + others, sorted(ours + others)
