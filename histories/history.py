"""A whole history in memory: operations in order, paired."""

from collections.abc import Iterator, Sequence

from histories.op import Op


class History:
    """Operations in index order, each invocation paired with its completion.

    Client processes pair by process. Nemesis operations are all `info` and alternate: begin, end.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = tuple(ops)
        self._pairs = pair_up(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def completion(self, invocation: Op) -> Op | None:
        """The completion of an invocation; None while open."""
        return self._other(invocation)

    def invocation(self, completion: Op) -> Op | None:
        """The invocation of a completion."""
        return self._other(completion)

    def _other(self, op: Op) -> Op | None:
        pair = self._pairs.get(op.index, -1)
        return None if pair < 0 else self.ops[pair]


def pair_up(ops: Sequence[Op]) -> dict[int, int]:
    """Map each paired operation's index to its other half's, both ways."""
    pairs: dict[int, int] = {}
    open_by: dict[int | str, int] = {}
    for op in ops:
        begun = open_by.pop(op.process, None)
        if begun is None:
            open_by[op.process] = op.index
        else:
            pairs[begun], pairs[op.index] = op.index, begun
    return pairs
