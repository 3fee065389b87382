"""A history too long to be held as objects: a tenth of their room, made again where it is read.

Some thousand operations at a time are packed. Who reads in order unpacks each once; who asks for
single ones in about the order of the history finds them among the last that were unpacked.
"""

import marshal
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import overload

from msgspec.structs import astuple

from maxq.histories.history import History
from maxq.histories.op import Op

TOGETHER = 1 << 12  # operations
UNPACKED_MAX = 8  # pieces held at a time

Piece = bytes | tuple[Op, ...]  # the latter where a value cannot be packed


class PackedOps(Sequence[Op]):
    """Operations in order, equal to those that it was made of."""

    def __init__(self, ops: Iterable[Op]) -> None:
        self.names: set[str] = set()  # of all that happened
        self._pieces: list[Piece] = []
        self._count = 0
        left = iter(ops)
        while some := tuple(islice(left, TOGETHER)):
            self.names.update(op.f for op in some)
            self._pieces.append(_packed(some))
            self._count += len(some)
        self._unpacked = lru_cache(UNPACKED_MAX)(self._piece)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Op]:
        for piece in self._pieces:
            yield from _ops(piece)

    @overload
    def __getitem__(self, at: int) -> Op: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Op, ...]: ...

    def __getitem__(self, at: int | slice) -> Op | tuple[Op, ...]:
        if isinstance(at, slice):
            return tuple(self[place] for place in range(*at.indices(self._count)))
        place = at + self._count if at < 0 else at
        if not 0 <= place < self._count:
            raise IndexError(at)
        return self._unpacked(place // TOGETHER)[place % TOGETHER]

    def _piece(self, number: int) -> tuple[Op, ...]:
        return tuple(_ops(self._pieces[number]))


def _packed(ops: tuple[Op, ...]) -> Piece:
    try:
        return marshal.dumps([astuple(op) for op in ops])
    except ValueError:  # a value of a class of its own: a keyword
        return ops


def _ops(piece: Piece) -> Iterable[Op]:
    return piece if isinstance(piece, tuple) else (Op(*row) for row in marshal.loads(piece))


def history_of(ops: Sequence[Op]) -> History:
    """The history of some operations, packed where these are."""
    return PackedHistory(ops) if isinstance(ops, PackedOps) else History(ops)


class PackedHistory(History):
    """A history of packed operations.

    `calls` and whatever goes through it once in order stays small; what `History` keeps of an
    operation it keeps here, too.
    """

    def __init__(self, ops: PackedOps) -> None:
        self.ops = ops
        self._names = ops.names

    def of_f(self, *names: str) -> tuple[Op, ...]:
        """The operations of some kinds, in order."""
        if self._names.isdisjoint(names):
            return ()
        return tuple(op for op in self.ops if op.f in names)
