"""Transactions as arrays: what each read and wrote, in order.

A *part* is one read or write inside a transaction. Positions are indices of the history. Of a
transaction that failed, or has no answer, only what it asked to write is known.
"""

from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import (
    FAILED,
    NEVER,
    NOTHING,
    OK,
    OPEN,
    Ints,
    Mask,
    shortened,
)
from maxq.histories.history import History
from maxq.histories.lines.sessions import SESSIONS
from maxq.histories.op import HistoryError, Op

UNREAD = -1  # the length of a read whose answer is not known
OUTCOMES = {"ok": OK, "fail": FAILED, "info": OPEN}
READ = "r"
STAMPS = ("start-ts", "commit-ts")  # of a completion: the database's own timestamps


class Transactions(NamedTuple):
    """In order of begins. Shapes: of the first four and of the stamps (n,), of `first` (n + 1,),
    of `writes` to `length` (parts,), of `elements` (elements of all lists that were read,).

    The parts of transaction t are ``first[t]`` to ``first[t + 1]``. `value` is what was written or,
    of a register, read, as a place in `values`; NOTHING: nil. Of a read `length` is UNREAD, or how
    many elements from `start` on its list has; 0 for a register.
    """

    begun: Ints
    ended: Ints
    outcome: Ints
    process: Ints
    first: Ints
    writes: Mask
    key: Ints
    value: Ints
    start: Ints
    length: Ints
    elements: Ints
    keys: Sequence[Any]
    values: Sequence[Any]
    timed: bool = True  # whether one that ended before another began came before it
    stamps: tuple[Ints, Ints] | None = None  # when its snapshot was taken, and when it committed

    @property
    def size(self) -> int:
        """How many transactions there are."""
        return len(self.begun)

    @property
    def parts(self) -> int:
        """How many reads and writes there are."""
        return len(self.key)

    def owner(self) -> Ints:
        """The transaction of each part."""
        return np.repeat(np.arange(self.size), np.diff(self.first))

    def list_of(self, part: int) -> list[Any]:
        """What a read of a list returned."""
        at = int(self.start[part])
        return [self.values[v] for v in self.elements[at : at + int(self.length[part])].tolist()]

    def value_of(self, part: int) -> Any:
        """What a part wrote, or read of a register."""
        code = int(self.value[part])
        return None if code == NOTHING else self.values[code]

    def key_of(self, part: int) -> Any:
        """The key of a part."""
        return self.keys[int(self.key[part])]


class Codes(dict[Any, int]):
    """Gives each different value a number; 1, 1.0 and true are three values."""

    def __init__(self) -> None:
        super().__init__()
        self.decoded: list[Any] = []

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self.decoded)
        self.decoded.append(value)
        return number

    def code(self, value: Any) -> int:
        """The number of a value; NOTHING for None."""
        if value is None:
            return NOTHING
        if type(value) is int or type(value) is str:
            return self[value]
        text = (type(value).__name__, str(value)) if isinstance(value, str) else repr(value)
        name = (type(value), text)
        number = self.get(name)
        if number is None:
            number = self[name] = len(self.decoded)
            self.decoded.append(value)
        return number

    def all(self, values: list[Any]) -> list[int]:
        """The numbers of values."""
        if set(map(type, values)) <= {int, str}:
            return list(map(self.__getitem__, values))
        return list(map(self.code, values))


class Maker:
    """Collects transactions whose writes have one name, and whose reads return lists or values."""

    def __init__(self, write: str, *, lists: bool) -> None:
        self._write, self._lists = write, lists
        self._keys, self._values = Codes(), Codes()
        self._rows = array("q")  # four numbers of each, and five of a part
        self._first = array("q", [0])
        self._parts = array("q")
        self._elements = array("q")
        self._stamps = array("q")
        self._timed = True

    def add(self, begun: Op, ended: Op | None) -> bool:
        """Take an operation; whether it is a transaction.

        Raises:
            HistoryError: it is one of another shape.
        """
        outcome = OPEN if ended is None else OUTCOMES[ended.type]
        answered = ended is not None and outcome == OK
        asked = ended.value if ended is not None and answered else begun.value
        named = begun.f in ("", "txn")
        if not named and not self._is_txn(asked):
            return False
        if not isinstance(asked, list):
            if not answered:
                return False
            raise HistoryError(f"op {begun.index}: a txn wants a list, not {asked!r:.100}")
        for part in asked:
            self._part(begun, part, answered=answered)
        end = NEVER if ended is None or outcome == OPEN else ended.index
        self._rows.extend((begun.index, end, outcome, int(begun.process)))
        self._first.append(len(self._parts) // 5)
        self._timed = self._timed and not (begun.ext or {}).get(SESSIONS, False)
        self._stamp(ended)
        return True

    def _is_txn(self, asked: Any) -> bool:
        """Whether a value is a list of reads and writes, as those of other names than `txn` are."""
        names = (READ, self._write)
        return isinstance(asked, list) and bool(asked) and all(
            isinstance(part, list) and len(part) == 3 and str(part[0]) in names for part in asked
        )  # fmt: skip

    def _part(self, op: Op, part: Any, *, answered: bool) -> None:
        if not isinstance(part, list) or len(part) != 3:
            raise HistoryError(f"op {op.index}: a part of a txn wants [f key value], not "
                               f"{shortened(repr(part))}")  # fmt: skip
        name, key, value = str(part[0]), self._keys.code(part[1]), part[2]
        if key == NOTHING:
            raise HistoryError(f"op {op.index}: a part of a txn without a key")
        if name == self._write:
            if value is None:
                raise HistoryError(f"op {op.index}: {self._write} wants a value")
            self._parts.extend((1, key, self._values.code(value), 0, UNREAD))
        elif name != READ:
            raise HistoryError(f"op {op.index}: {shortened(name)} is neither {READ} nor "
                               f"{self._write}")  # fmt: skip
        elif not answered:
            self._parts.extend((0, key, NOTHING, 0, UNREAD))
        elif self._lists:
            found = [] if value is None else value
            if not isinstance(found, list):
                raise HistoryError(f"op {op.index}: a read of a list returned {found!r:.100}")
            self._parts.extend((0, key, NOTHING, len(self._elements), len(found)))
            self._elements.extend(self._values.all(found))
        else:
            self._parts.extend((0, key, self._values.code(value), 0, 0))

    def _stamp(self, ended: Op | None) -> None:
        ext = (ended.ext if ended is not None else None) or {}
        given = [ext.get(name) for name in STAMPS]
        if all(type(stamp) is int for stamp in given):
            self._stamps.extend((given[0], given[1]))  # type: ignore[arg-type]
        else:
            self._stamps.extend((-1, -1))

    def done(self) -> Transactions:
        """All of them."""
        rows = np.array(self._rows, np.int64).reshape(-1, 4)
        parts = np.array(self._parts, np.int64).reshape(-1, 5)
        stamps = np.array(self._stamps, np.int64).reshape(-1, 2)
        stamped = bool(len(stamps)) and bool(np.all(stamps[rows[:, 2] == OK] >= 0))
        begun, ended, outcome, process = np.ascontiguousarray(rows.T)
        writes, key, value, start, length = np.ascontiguousarray(parts.T)
        return Transactions(
            begun, ended, outcome, process, np.array(self._first, np.int64),
            writes.astype(np.bool_), key, value, start, length,
            np.array(self._elements, np.int64), self._keys.decoded, self._values.decoded,
            self._timed, (stamps[:, 0].copy(), stamps[:, 1].copy()) if stamped else None,
        )  # fmt: skip


def transactions_of(
    history: History,
    write: str,
    *,
    lists: bool,
    passed: Callable[[Op, Op | None], None] = lambda begun, ended: None,
) -> Transactions:
    """The transactions of a history; operations that are none are given to `passed`.

    Raises:
        HistoryError: a transaction is of another shape.
    """
    maker = Maker(write, lists=lists)
    for begun, ended in history.calls():
        if not maker.add(begun, ended):
            passed(begun, ended)
    return maker.done()


def with_first_shown(t: Transactions) -> Transactions:
    """The same, of registers that began with what was read of them and nobody wrote, where that is
    one value and nobody read nil: it counts as nil."""
    reads = ~t.writes & (t.length >= 0)
    pack = t.key * max(len(t.values), 1) + t.value
    unwritten = reads & (t.value != NOTHING) & ~np.isin(pack, pack[t.writes])
    different = np.unique(pack[unwritten]) // max(len(t.values), 1)
    keys, count = np.unique(different, return_counts=True)
    began = np.setdiff1d(keys[count == 1], t.key[reads & (t.value == NOTHING)])
    return t._replace(value=np.where(unwritten & np.isin(t.key, began), NOTHING, t.value))
