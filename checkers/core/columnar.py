"""A check that also judges a key by arrays: many times faster where there is nothing to find.

`Columnar` is a `Dealt` check that can say *nothing is wrong* of a key whose rows it never saw one
by one. It must be sure: whatever it is not sure of it leaves, and the key's rows are then judged as
always. So findings are made in one place, and what is quick is the proof that there are none.

What `columns` returns can be cut, pickled and joined: a key's arrays may come in pieces, in order
of the history, made in different processes. The answer of `judge_groups` follows from them alone.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from maxq.checkers.core.keyed import Dealt, KnownT, ResultT, RowT
from maxq.histories.columns.rows import Rows
from maxq.histories.columns.scan import Ints, order_of

Arrays = dict[str, Any]  # of equal length, by name
Named = tuple[tuple[str, ...], str]  # the names and the prefix of a `Dealing`


class Dealing(NamedTuple):
    """What one batch says of which keys.

    `key` is the key of each element of `arrays`, `row` the row of the batch that it is from;
    elements are in order of the history. `foreign` are rows that say something that no array holds,
    `unsure` the keys of which they say it. Where keys are no numbers, `names` are all keys that
    there may be, the same in every batch, and `key` counts in them; or all keys that arrays hold
    are a number behind one `prefix`, without a leading zero.
    """

    key: Ints
    row: Ints
    arrays: Arrays
    foreign: Ints
    unsure: frozenset[Any] = frozenset()
    names: tuple[str, ...] = ()
    prefix: str = ""


class Groups(NamedTuple):
    """Each key's elements are those from its bound to the next one, in order of the history."""

    keys: list[Any]
    bounds: Ints  # one more than there are keys
    arrays: Arrays

    @classmethod
    def of(cls, key: Any, arrays: Arrays) -> "Groups":
        """One key's."""
        count = len(next(iter(arrays.values())))
        return cls([key], np.array([0, count], np.int64), arrays)

    @property
    def number(self) -> Ints:
        """Which of the keys each element is of."""
        return np.repeat(np.arange(len(self.keys)), np.diff(self.bounds))

    def each(self) -> Iterator[tuple[Any, Arrays]]:
        """Each key with its own arrays. Once: those of the last one are given away, as they are
        most of what a large key takes."""
        for number, key in enumerate(self.keys):
            begin, end = self.bounds[number : number + 2]
            own = {name: column[begin:end] for name, column in self.arrays.items()}
            if number == len(self.keys) - 1:
                self.arrays.clear()
            yield key, own


class Unsure(NamedTuple):
    """The answer of `judge_groups` that leaves a key to its rows: to those of the operations with
    some indices, of completions or of what never completed (None: to all). With what arrays have
    found out, which `judge` gets as `more`."""

    ops: tuple[int, ...] | None = None
    more: Any = None


UNSURE = Unsure()


@runtime_checkable
class Columnar(Dealt[KnownT, RowT, ResultT], Protocol[KnownT, RowT, ResultT]):
    """See the module's text."""

    def columns(self, rows: Rows, chosen: Ints, known: KnownT) -> Dealing:
        """What some rows, of the kinds that the check reads, say of which keys.

        Raises:
            HistoryError: a value has a wrong shape.
        """
        ...

    def judge_groups(self, groups: Groups, known: KnownT) -> "list[ResultT | Unsure]":
        """The result of each key of which nothing is wrong, equal to that of its rows; `UNSURE` of
        others. In order of keys, of which there is one at least. May empty the groups' arrays,
        which are most of what a large key takes."""
        ...


def judged_groups(
    check: Columnar[KnownT, RowT, ResultT], groups: Groups, known: KnownT
) -> "list[ResultT | Unsure]":
    """What a check says of each of some keys, in order."""
    return check.judge_groups(groups, known) if groups.keys else []


class KeyArrays:
    """Collects what batches say, and gives each key its own."""

    def __init__(self) -> None:
        self._keys: list[Ints] = []
        self._pieces: list[Arrays] = []
        self._named: Named = ((), "")
        self.unsure: set[Any] = set()

    def take(self, dealing: Dealing) -> None:
        """Take what the next batch says."""
        if len(dealing.key):
            self._keys.append(dealing.key)
            self._pieces.append(dealing.arrays)
        self._named = dealing.names, dealing.prefix
        self.unsure |= dealing.unsure

    def groups(self) -> Groups:
        """Each key's arrays, in order of keys, but for those that are unsure. Once."""
        if not self._keys:
            return Groups([], np.zeros(1, np.int64), {})
        key = np.concatenate(self._keys)
        self._keys.clear()
        sorted_already = not (key[1:] < key[:-1]).any()
        order = None if sorted_already else order_of(key)
        if self.unsure:
            left = np.isin(key, numbers_of(self.unsure, *self._named))
            order = np.flatnonzero(~left) if order is None else order[~left[order]]
        arrays = {name: self._joined(name, order) for name in list(self._pieces[0])}
        self._pieces.clear()
        key = key if order is None else key[order]
        begins = np.flatnonzero(np.diff(key, prepend=key[:1] - 1))
        numbers = key[begins].tolist()
        return Groups(_keys(numbers, *self._named), np.append(begins, len(key)), arrays)

    def _joined(self, name: str, order: Ints | None) -> Any:
        whole = np.concatenate([piece.pop(name) for piece in self._pieces])
        return whole if order is None else whole[order]


def touching(dealing: Dealing, keys: frozenset[Any]) -> Ints:
    """The rows of a batch that may say something of some keys."""
    numbers = numbers_of(keys, dealing.names, dealing.prefix)
    return np.union1d(dealing.row[np.isin(dealing.key, numbers)], dealing.foreign)


def numbers_of(keys: Collection[Any], names: Sequence[str] = (), prefix: str = "") -> list[int]:
    """What some keys are in `Dealing.key`, where all have these names, or this prefix."""
    if prefix:
        texts = (key.removeprefix(prefix) for key in keys if key.startswith(prefix))
        return [int(text) for text in texts if _is_number(text)]
    return [at for at, name in enumerate(names) if name in keys] if names else list(keys)


def _is_number(text: str) -> bool:
    """Whether a text is what a plain number is written as."""
    return text.isascii() and text.isdecimal() and (text == "0" or text[0] != "0")


def _keys(numbers: list[int], names: Sequence[str], prefix: str) -> list[Any]:
    if prefix:
        return [f"{prefix}{number}" for number in numbers]
    return [names[number] for number in numbers] if names else numbers


def keys_of(found: Iterable[tuple[Any, Any]]) -> frozenset[Any]:
    """The keys of rows."""
    return frozenset(key for key, _ in found)
