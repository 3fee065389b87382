"""Keys dealt over buckets, so that one bucket after the other, or each elsewhere, is judged.

What is said of a key always goes to the same bucket. Here they are files: what is held at a time is
one piece and one bucket, however long the history is.
"""

import pickle
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import IO, Any

import numpy as np

from maxq.checkers.core.api import TooLargeError
from maxq.checkers.core.columnar import Dealing, numbers_of
from maxq.checkers.judgement.piecewise.dealt import Task
from maxq.checkers.judgement.piecewise.memory import Memory
from maxq.checkers.judgement.piecewise.pieces import Collected, Failed, Said
from maxq.histories.columns.scan import order_of

ROW_BYTES = 240  # what any check holds of a row of the history, as arrays, at most
FINER, BUCKETS_MAX = 3, 500  # times as many as suffice, as keys are unequal; files that are open
HELD, HELD_AS_ROWS = 4, 10  # so much of a bucket's file is in memory while it is judged
_NONE = np.zeros(0, np.int64)
OfTasks = dict[str, dict[Any, Any] | Failed]


def buckets_for(rows: int, memory: int) -> int:
    """How many buckets a history of so many rows needs.

    Args:
        rows: of the history.
        memory: what a bucket may take, in bytes.
    """
    least = -(-rows * ROW_BYTES // memory)
    return 1 if least <= 1 else min(FINER * least, BUCKETS_MAX)


class Buckets:
    """What pieces say, in files; to be taken in any order, and judged once, a task of a bucket at a
    time.

    Args:
        tasks: who judges.
        files: one for each bucket, empty.
        memory: says what a task of one of them may take, now.
        held: how many bytes there are in memory for each in a file.
    """

    def __init__(
        self,
        tasks: Mapping[str, Task],
        files: Sequence[IO[bytes]],
        memory: Callable[[], Memory],
        held: int = HELD,
    ) -> None:
        self._tasks, self._files = tasks, files
        self._memory, self._held = memory, held
        self._said = [{name: _Places() for name in tasks} for _ in files]

    def take(self, number: int, said: Said) -> None:
        """Take the next piece's; `number` is the piece's own."""
        for bucket, name, content in packed(number, said, len(self._files)):
            self.put(bucket, name, number, content)

    def put(self, bucket: int, name: str, number: int, content: bytes, part: int = 0) -> None:
        """Take what a piece says to one task, as `packed` has it, or the part of it with this
        number."""
        file = self._files[bucket]
        self._said[bucket][name].add(number, part, file.tell(), len(content))
        file.write(content)

    def judged(self) -> OfTasks:
        """As of `Collected`. A task of a bucket that does not fit into memory has no results."""
        found: OfTasks = {name: {} for name in self._tasks}
        for file, said in zip(self._files, self._said, strict=True):
            for name, places in said.items():
                found[name] = _both(found[name], self._of(file, name, places))
            file.truncate(0)
        return found

    def _of(self, file: IO[bytes], name: str, places: "_Places") -> dict[Any, Any] | Failed:
        """What the keys of one task come to in one bucket."""
        most = self._memory().most  # has what is free given back
        if (failed := too_large(self._held * places.size, most)) is not None:
            return failed
        collected = Collected({name: self._tasks[name]})
        for parts in places.in_order():
            content = b"".join(_read(file, begins, size) for begins, size in parts)
            collected.take(*pickle.loads(content))
        return collected.judged()[name]


class _Places:
    """Where a file has what is said to a task, and how many bytes that is."""

    def __init__(self) -> None:
        self._numbers, self._parts = array("q"), array("q")
        self._begins, self._sizes = array("q"), array("q")
        self.size = 0

    def add(self, number: int, part: int, begins: int, size: int) -> None:
        """A piece says it, or a part of it, here."""
        self._numbers.append(number)
        self._parts.append(part)
        self._begins.append(begins)
        self._sizes.append(size)
        self.size += size

    def in_order(self) -> Iterator[list[tuple[int, int]]]:
        """Where the parts begin, and their sizes, of each piece in order."""
        order = np.lexsort((np.array(self._parts), np.array(self._numbers))).tolist()
        for _, parts in groupby(order, self._numbers.__getitem__):
            yield [(self._begins[n], self._sizes[n]) for n in parts]


def _read(file: IO[bytes], begins: int, size: int) -> bytes:
    file.seek(begins)
    return file.read(size)


def packed(number: int, said: Said, buckets: int) -> Iterator[tuple[int, str, bytes]]:
    """What a piece says, pickled, by bucket and task; `number` is the piece's own. Spends what it
    says: one check's part of it is copied at a time, and of that one bucket's."""
    for name, alone in _by_task(said):
        for bucket, own in _split(alone, buckets) if buckets > 1 else [(0, alone)]:
            yield bucket, name, pickle.dumps((number, own), pickle.HIGHEST_PROTOCOL)


def _by_task(said: Said) -> Iterator[tuple[str, Said]]:
    for name in {**said.failed, **said.dealings, **said.rows}:
        own = [{name: of.pop(name)} if name in of else {} for of in said]
        yield name, Said(*own)  # type: ignore[arg-type]


def too_large(takes: int, most: int) -> Failed | None:
    """Why a task of a bucket is not judged that takes so much memory (bytes), where there is so
    much; None: it fits."""
    if takes <= most:
        return None
    why = (f"the events of one queue, lock or broker set take about {_mb(takes)} of memory "
           f"to judge, and {_mb(most)} are left")  # fmt: skip
    return Failed((2, 0), TooLargeError(why))


def _mb(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def merged(one: OfTasks, other: OfTasks) -> OfTasks:
    """What two buckets came to; of what went wrong the first counts."""
    return {name: _both(found, other[name]) for name, found in one.items()}


def _both(one: dict[Any, Any] | Failed, other: dict[Any, Any] | Failed) -> dict[Any, Any] | Failed:
    failed = [each for each in (one, other) if isinstance(each, Failed)]
    if failed:
        return min(failed, key=lambda failure: failure.at)
    return {**one, **other}  # type: ignore[dict-item]


def whole(found: OfTasks) -> dict[str, dict[Any, Any] | Exception]:
    """What all buckets came to, in order of keys."""
    return {
        name: one.error if isinstance(one, Failed) else dict(sorted(one.items()))
        for name, one in found.items()
    }


def _split(said: Said, buckets: int) -> Iterator[tuple[int, Said]]:
    """What a piece says to one task, by bucket; what went wrong is in the first."""
    found = defaultdict[int, Said](lambda: Said({}, {}, {}))
    if said.failed:
        found[0].failed.update(said.failed)
    for name, rows in said.rows.items():
        for key, more in rows.items():
            found[_by_text(key, buckets)].rows.setdefault(name, {})[key] = more
    yield from found.items()
    for name, dealing in said.dealings.items():  # of which rows and failures have none
        for bucket, own in _split_arrays(dealing, buckets):
            yield bucket, Said({name: own}, {}, {})


def _by_text(key: Any, buckets: int) -> int:
    return zlib.crc32(repr(key).encode()) % buckets


def _split_arrays(dealing: Dealing, buckets: int) -> Iterator[tuple[int, Dealing]]:
    unsure = defaultdict[int, set[Any]](set)
    for key in dealing.unsure:
        numbers = numbers_of([key], dealing.names, dealing.prefix)
        at = numbers[0] % buckets if numbers else _by_text(key, buckets)
        unsure[at].add(key)
    of = dealing.key % buckets
    order = order_of(of)
    bounds = np.searchsorted(of[order], np.arange(buckets + 1))
    for bucket in range(buckets):
        mine = order[bounds[bucket] : bounds[bucket + 1]]
        if not len(mine) and bucket not in unsure:
            continue
        arrays = {name: column[mine] for name, column in dealing.arrays.items()}
        doubted = frozenset(unsure[bucket])
        names, prefix = dealing.names, dealing.prefix
        yield bucket, Dealing(dealing.key[mine], _NONE, arrays, _NONE, doubted, names, prefix)
