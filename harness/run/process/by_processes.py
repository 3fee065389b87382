"""Judges a table by several processes of this machine: each reads and judges a share of it.

A part of the pieces is dealt out to one file, in which what is said of a bucket to a check lies
together (`_Sheaf`). So a bucket is judged from all files, a check at a time, and nothing but what
is small, and each key's result, comes to the process that asks. The plan is that of every carrier
(`maxq.checkers.judgement.piecewise.by_columns`).

Files have no names: others reach them by the process that wrote them, so that nothing of them
outlives that, however it ends.
"""

import os
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import numpy as np

from maxq.checkers.judgement.piecewise.asks import (
    Ask,
    Deal,
    Each,
    Reread,
    Survey,
    carried_out,
    named,
    silent,
)
from maxq.checkers.judgement.piecewise.buckets import (
    HELD,
    HELD_AS_ROWS,
    OfTasks,
    buckets_for,
    merged,
    packed,
    too_large,
    whole,
)
from maxq.checkers.judgement.piecewise.by_columns import judging_of
from maxq.checkers.judgement.piecewise.dealt import Judged, Request, Task
from maxq.checkers.judgement.piecewise.memory import Memory
from maxq.checkers.judgement.piecewise.parts import Part, grouped, looked_at, parts_of, surveyed
from maxq.checkers.judgement.piecewise.pieces import Collected, Dealer, Surveyed
from maxq.histories.columns.outline import Reading
from maxq.histories.columns.scan import Ints
from maxq.histories.op import without_cycles
from maxq.histories.parquet import TIMED, Files, pieces_of, read_coded, rows_of

PARTS, BUCKETS = 8, 4  # for each process at least: they are unequal, and nobody is to wait long
HELD_BYTES = 64 << 20  # of what pieces say, before it is written
MemoryOf = Callable[[], Memory]
_NUMBERS = count()


class Workers(NamedTuple):
    """Who judges: `pool` has so many `processes`, each of which asks `memory` what it may take now.
    `done` hears after each share of a step how many are, and of how many."""

    pool: Executor
    processes: int
    memory: MemoryOf
    done: Callable[[int, int], None] = lambda done, of: None


def judge_table(
    files: Files, request: Request, workers: Workers, begins: Callable[[str], None] = silent
) -> Judged:
    """Judge one history.

    Args:
        files: of its events table, whose rows lie in order.
        request: by whom it is judged.
        workers: as above.
        begins: hears of each step, for people.

    Raises:
        HistoryError: a row is no operation.
    """
    asked = _Asked(files, workers, begins)

    def answer(ask: Ask) -> Any:
        begins(named(ask))
        return asked.answer(ask)

    with without_cycles():
        return carried_out(judging_of(request), answer)


class _Asked:
    """One table, and who reads it."""

    def __init__(self, files: Files, workers: Workers, begins: Callable[[str], None]) -> None:
        self._files, self._workers, self._begins = files, workers, begins
        self._groups = grouped(pieces_of(files), PARTS * workers.processes)

    def answer(self, ask: Ask) -> Any:
        match ask:
            case Survey():
                return self._survey()
            case Each(look) as wanted:
                parts = parts_of(wanted, self._files, self._groups)
                return [one for of in self._each(partial(looked_at, look), parts) for one in of]
            case Deal():
                return whole(self._judged(ask))
            case Reread():
                reading: Reading = partial(read_coded, self._files, TIMED)
                return reading

    def _each(self, act: Callable[[Any], Any], asked: Sequence[Any]) -> Iterator[Any]:
        """What somebody answers to each, in order."""
        answers = self._workers.pool.map(act, asked)
        for done, answer in enumerate(answers, start=1):
            self._workers.done(done, len(asked))
            yield answer

    def _survey(self) -> Iterator[Surveyed]:
        for of in self._each(surveyed, [Part(self._files, group) for group in self._groups]):
            yield from of

    def _judged(self, ask: Deal) -> OfTasks:
        with TemporaryFile() as file:
            file.write(pickle.dumps((ask.tasks, ask.by_rows)))
            file.flush()
            return self._judged_by(ask, _Question(next(_NUMBERS), _path_of(file)))

    def _judged_by(self, ask: Deal, asked: "_Question") -> OfTasks:
        aim = self._workers.memory().aim
        least = buckets_for(rows_of(self._files), aim)
        buckets = least if least == 1 else max(least, BUCKETS * self._workers.processes)
        parts = parts_of(ask, self._files, self._groups)
        dealt = partial(_dealt, asked, buckets)
        sheaves = [s for own in self._each(dealt, parts) for s in own]
        self._begins("judging queues, locks and broker sets")
        found: OfTasks = {name: {} for name in ask.tasks}
        judged = partial(_judged, asked, self._workers.memory)
        of = [[s.of(bucket, len(ask.tasks)) for s in sheaves] for bucket in range(buckets)]
        for of_bucket in self._each(judged, of):
            found = merged(found, of_bucket)
        return found


class _Question(NamedTuple):
    """A `Deal`, for other processes: its number, as paths come again, and where its tasks are."""

    number: int
    path: Path


class _Sheaf(NamedTuple):
    """Where in a file what is said to each task of each bucket begins, and where the last ends."""

    path: Path
    places: Ints

    def of(self, bucket: int, tasks: int) -> "_Sheaf":
        """The same, for one bucket."""
        return _Sheaf(self.path, self.places[bucket * tasks : (bucket + 1) * tasks + 1])


class _Here(NamedTuple):
    """The tasks of a question, and the file of this process that has what was said to them."""

    tasks: Mapping[str, Task]
    by_rows: bool
    file: IO[bytes]


_known: dict[int, _Here] = {}  # in this process, by the number of the last question


def _here(asked: _Question) -> _Here:
    """A question; nobody needs the file of the one before any more."""
    if asked.number not in _known:
        while _known:
            _known.popitem()[1].file.close()
        tasks, by_rows = pickle.loads(asked.path.read_bytes())
        _known[asked.number] = _Here(tasks, by_rows, TemporaryFile())  # noqa: SIM115
    return _known[asked.number]


def _path_of(file: IO[bytes]) -> Path:
    """Where other processes find a file without a name."""
    return Path(f"/proc/{os.getpid()}/fd/{file.fileno()}")


def _dealt(asked: _Question, buckets: int, part: Part) -> list[_Sheaf]:
    """Deal the pieces of a part out to files."""
    tasks, by_rows, file = _here(asked)
    dealer = Dealer(tasks, {}, by_rows=by_rows)
    at = {name: n for n, name in enumerate(tasks)}
    held, size, sheaves = defaultdict[int, list[bytes]](list), 0, list[_Sheaf]()

    def written() -> _Sheaf:
        places = [file.tell()]
        for place in range(buckets * len(at)):
            file.writelines(held[place])
            places.append(file.tell())
        file.flush()
        held.clear()
        return _Sheaf(_path_of(file), np.array(places, np.int64))

    with without_cycles():
        for piece, rows in part.rows():
            for bucket, name, said in packed(piece, dealer.read(rows), buckets):
                held[bucket * len(at) + at[name]].append(said)
                size += len(said)
            if size >= HELD_BYTES:
                sheaves.append(written())
                size = 0
        return [*sheaves, written()] if held else sheaves


def _judged(asked: _Question, memory: MemoryOf, sheaves: Sequence[_Sheaf]) -> OfTasks:
    """What the keys of a bucket come to, a check at a time."""
    tasks, by_rows, _ = _here(asked)
    found: OfTasks = {}
    with without_cycles():
        for at, (name, task) in enumerate(tasks.items()):
            size = sum(int(s.places[at + 1] - s.places[at]) for s in sheaves)
            takes = (HELD_AS_ROWS if by_rows else HELD) * size
            failed = too_large(takes, memory().most)  # has what is free given back
            found[name] = failed or _of_task(name, task, at, sheaves)
    return found


def _of_task(name: str, task: Task, at: int, sheaves: Sequence[_Sheaf]) -> Any:
    collected = Collected({name: task})
    for sheaf in sheaves:
        begins, ends = sheaf.places[at : at + 2].tolist()
        with sheaf.path.open("rb") as file:
            file.seek(begins)
            said = BytesIO(file.read(ends - begins))
        while said.tell() < ends - begins:
            collected.take(*pickle.load(said))
    return collected.judged()[name]
