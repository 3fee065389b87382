"""Well-formedness of histories that no machine holds: W2 to W7 by process, W1 and W8 by chunk.

A chunk is a range of indices; of those before it only the highest time matters, so chunks in
which that shows are looked at again. Pairs are taken from a column of the file, and it is checked
here, process by process, that they are what pairing gives.

Rows come in order of index, whatever the order of the file: an index that is there twice breaks W1,
and one that is out of place cannot be.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from maxq.checkers.core.api import Context
from maxq.checkers.core.keyed import Event
from maxq.histories.history import Breach, History, OrderRules, ProcessRules, partners
from maxq.histories.op import HistoryError, Op

CHUNK_OPS = 1 << 16

Key = tuple[str, int | str]


class _Every(frozenset[str]):
    """All kinds of operations."""

    def __contains__(self, f: object) -> bool:
        return True


class Ruled(NamedTuple):
    """Breaches of one process or chunk; of a chunk also its lowest and highest known time."""

    breaches: list[Breach]
    low_ns: int = -1
    high_ns: int = -1


class Slim(NamedTuple):
    """An operation without its value; `begun` is its pair as the file says, of completions."""

    at: int
    time: int
    type: Any
    process: int | str
    f: str
    begun: int | None


class Rules:
    """The rules of well-formedness, made like a check."""

    name = "rules"
    reads: frozenset[str] = _Every()

    def prepare(self, history: History, context: Context) -> None:
        """Nothing."""

    def rows(self, event: Event, known: None) -> Iterator[tuple[Key, Slim]]:
        """Each event goes to its process and to its chunk."""
        op = event.op
        begun = None if event.begun is None else event.begun.index
        slim = Slim(op.index, op.time, op.type, op.process, op.f, begun)
        # Names and numbers of processes do not sort together.
        yield ("process" if op.is_client else "name", op.process), slim
        yield ("chunk", op.index // CHUNK_OPS), slim

    def judge(self, key: Key, rows: Sequence[Slim], known: None, more: Any = None) -> Ruled:
        """Judge one process or one chunk."""
        ops = [Op(s.type, s.process, s.f, None, None, s.at, s.time) for s in rows]
        if key[0] == "chunk":
            return _chunk(ops, -1 if more is None else more)
        processes = ProcessRules()
        breaches = [b for op in ops for b in processes.step(op)]
        if not any(not b.warning for b in breaches) and key[0] == "process":
            _check_pairs(ops, rows)
        return Ruled(breaches)

    def again(self, results: Mapping[Key, Ruled]) -> Mapping[Key, int]:
        """The chunks that have a time below one of a chunk before."""
        found: dict[Key, int] = {}
        high_ns = -1
        for key in sorted(k for k in results if k[0] == "chunk"):
            chunk = results[key]
            if 0 <= chunk.low_ns < high_ns:
                found[key] = high_ns
            high_ns = max(high_ns, chunk.high_ns)
        return found

    def evidence(self, results: Mapping[Key, Ruled]) -> Iterable[int]:
        """No operation."""
        return ()


def breaches_of(results: Mapping[Key, Ruled]) -> list[Breach]:
    """All breaches, in order of the history; of one operation those of order first."""
    parts = sorted(results.items(), key=lambda part: part[0][0])  # chunk, name, process
    return sorted((b for _, ruled in parts for b in ruled.breaches), key=lambda b: b.index)


def _chunk(ops: Sequence[Op], high_ns: int) -> Ruled:
    order = OrderRules(-1, high_ns)
    breaches = [b for op in ops for b in order.step(op)]
    times = [op.time for op in ops if op.time != -1]
    return Ruled(breaches, min(times, default=-1), order.last_time)


def _check_pairs(ops: Sequence[Op], rows: Sequence[Slim]) -> None:
    for row, other in zip(rows, partners(ops), strict=True):
        begun = None if row.type == "invoke" or other < 0 else rows[other].at
        if row.type != "invoke" and begun != row.begun:
            raise HistoryError(f"the pair of op {row.at} is {row.begun}, and should be {begun}")
