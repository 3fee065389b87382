"""A whole history in memory: operations in order, paired, looked at from several sides.

`index` is an operation's name and never changes, so a filtered history is sparse: `ops[i]` need not
have index i, and partners are found through a map. Everything here tolerates malformed histories,
because `wellformed` must be able to say what is wrong with them.

Source: history-format 4 to 7.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal

import msgspec

from histories.op import Op, OpType
from histories.text import TYPES


class History:
    """Operations in index order, each invocation paired with its completion.

    Client processes pair by process. Nemesis operations are all `info` and alternate: begin, end.
    """

    def __init__(self, ops: Iterable[Op]) -> None:
        self.ops = tuple(ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __getitem__(self, index: int) -> Op:
        """The operation of that index (not position).

        Raises:
            KeyError: this history holds none.
        """
        if 0 <= index < len(self.ops) and self.ops[index].index == index:
            return self.ops[index]
        return self.ops[self._positions[index]]

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {op.index: at for at, op in enumerate(self.ops)}

    @cached_property
    def _pairs(self) -> dict[int, int]:
        return pair_up(self.ops)

    def completion(self, invocation: Op) -> Op | None:
        """The completion of an invocation; None while open."""
        return self._other(invocation)

    def invocation(self, completion: Op) -> Op | None:
        """The invocation of a completion."""
        return self._other(completion)

    def pair_index(self, op: Op) -> int:
        """The other half's index; -1 if there is none."""
        return self._pairs.get(op.index, -1)

    def _other(self, op: Op) -> Op | None:
        pair = self._pairs.get(op.index)
        return None if pair is None else self[pair]

    @cached_property
    def clients(self) -> tuple[Op, ...]:
        """Operations of clients and observers."""
        return tuple(op for op in self.ops if op.is_client)

    @cached_property
    def nemesis(self) -> tuple[Op, ...]:
        """Operations of every process that is not a client."""
        return tuple(op for op in self.ops if not op.is_client)

    @cached_property
    def open_invocations(self) -> tuple[Op, ...]:
        """Client operations that never completed: nobody knows, for ever."""
        pairs = self._pairs
        return tuple(op for op in self.clients if op.type == "invoke" and op.index not in pairs)

    @cached_property
    def open_faults(self) -> tuple[Op, ...]:
        """Nemesis operations that began and never ended."""
        pairs = self._pairs
        return tuple(op for op in self.nemesis if op.index not in pairs)

    def of_f(self, *names: str) -> tuple[Op, ...]:
        return tuple(op for op in self.ops if op.f in names)

    def of_type(self, *types: OpType) -> tuple[Op, ...]:
        return tuple(op for op in self.ops if op.type in types)

    def filter(self, keep: Callable[[Op], bool]) -> "History":
        """A sparse history of some operations, indices unchanged."""
        return History(op for op in self.ops if keep(op))


def pair_up(ops: Sequence[Op]) -> dict[int, int]:
    """Map each paired operation's index to its other half's, both ways."""
    pairs: dict[int, int] = {}
    open_by: dict[int | str, int] = {}
    for op in ops:
        process = op.process
        begins = process not in open_by if type(process) is str else op.type == "invoke"
        if begins:
            open_by[process] = op.index
        elif (begun := open_by.pop(process, -1)) >= 0:
            pairs[begun], pairs[op.index] = op.index, begun
    return pairs


RuleId = Literal["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"]


class Breach(msgspec.Struct, frozen=True):
    """One operation that breaks a rule of well-formedness. A warning spoils no verdict."""

    rule: RuleId
    index: int  # as the operation says, whatever that is
    text: str
    warning: bool = False


def wellformed(history: History) -> list[Breach]:
    """Find every breach of W1 to W8, in order of the history.

    W6 and a decreasing time are warnings: some recorders reuse process numbers, and order is by
    index, never by time. W9 (the shape of values) and W10 are for the checker of each workload.
    """
    breaches: list[Breach] = []
    last_index = -1
    last_time = -1
    open_by: dict[int, Op] = {}
    retired: set[int] = set()

    def breach(rule: RuleId, op: Op, text: str, *, warning: bool = False) -> None:
        breaches.append(Breach(rule, op.index, text, warning))

    for op in history.ops:
        if type(op.index) is not int or op.index <= last_index:
            breach("W1", op, f"index {op.index} after {last_index}")
        else:
            last_index = op.index
        if type(op.time) is not int:
            breach("W8", op, f"time is not an integer: {op.time!r}")
        elif op.time != -1:
            if op.time < last_time:
                breach("W8", op, f"time {op.time} after {last_time}", warning=True)
            last_time = max(last_time, op.time)
        if op.type not in TYPES:
            breach("W2", op, f"unknown type {op.type!r}")
        elif type(op.process) is not int:
            if op.type != "info":
                breach("W7", op, f"{op.process} is no client and used {op.type!r}")
        else:
            for rule, text in _client_breaches(op, op.process, open_by, retired):
                breach(rule, op, text, warning=rule == "W6")
    return breaches


def _client_breaches(
    op: Op, process: int, open_by: dict[int, Op], retired: set[int]
) -> Iterator[tuple[RuleId, str]]:
    """Rules of one client operation; updates who is open and who is retired."""
    if process in retired:
        yield "W6", f"process {process} goes on after an info completion"
    if op.type == "invoke":
        if process in open_by:
            yield "W3", f"process {process} invokes while {open_by[process].index} is open"
        open_by[process] = op
        return
    begun = open_by.pop(process, None)
    if begun is None:
        yield "W4", f"process {process} completes what it did not invoke"
    elif begun.f != op.f:
        yield "W5", f"completes {op.f!r}, invoked {begun.f!r} at {begun.index}"
    if op.type == "info":
        retired.add(process)
