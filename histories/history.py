"""A whole history in memory: operations in order, paired, looked at from several sides.

`index` is an operation's name and never changes, so a filtered history is sparse: `ops[i]` need not
have index i, and partners are found through a map. Everything here tolerates malformed histories,
because `wellformed` must be able to say what is wrong with them.

Source: docs/spec/history-format.md 4 to 7.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from maxq.histories.fault_facts import Kinds
from maxq.histories.grounds import RUN, kinds_of
from maxq.histories.observed import ASSIGNMENTS
from maxq.histories.op import Op
from maxq.histories.text import TYPES

T = TypeVar("T")


class Reassigned(NamedTuple):
    """The completions of assignments, by process and in order of the history: 16 bytes each.

    An assignment says what it lists. Which other keys its process had read or written, and forgets,
    it does not say. Those before which their process had done nothing may be missing here: they
    forget nothing, and most are such.
    """

    process: "array[int]"
    at: "array[int]"  # index

    @classmethod
    def of_ops(cls, ops: Iterable[Op]) -> "Reassigned":
        """Those among some operations."""
        done = sorted(
            (op.process, op.index) for op in ops
            if op.f in ASSIGNMENTS and op.is_client and op.type in ("ok", "info")
        )  # fmt: skip
        return cls(*(array("q", [int(pair[n]) for pair in done]) for n in range(2)))

    def by(self, processes: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Those of some processes: process and index."""
        for process in processes:
            low = bisect_left(self.process, process)
            for at in self.at[low : bisect_right(self.process, process, low)]:
                yield process, at


NEVER_REASSIGNED = Reassigned(array("q"), array("q"))


class History:
    """Operations in index order, each invocation paired with its completion.

    Client processes pair by process. Nemesis operations are all `info` and alternate: begin, end.
    """

    def __init__(self, ops: Iterable[Op]) -> None:
        self.ops: Sequence[Op] = tuple(ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __iter__(self) -> Iterator[Op]:
        return iter(self.ops)

    def __getitem__(self, index: int) -> Op:
        """The operation of that index (not position).

        Raises:
            KeyError: this history holds none.
        """
        return self.ops[self._position(index)]

    def _position(self, index: int) -> int:
        if 0 <= index < len(self.ops) and self.ops[index].index == index:
            return index
        return self._positions[index]

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {op.index: at for at, op in enumerate(self.ops)}

    @cached_property
    def _partners(self) -> "array[int]":
        """By position, the position of the other half; -1 if there is none."""
        return partners(self.ops)

    def completion(self, invocation: Op) -> Op | None:
        """The completion of an invocation; None while open."""
        return self._other(invocation)

    def invocation(self, completion: Op) -> Op | None:
        """The invocation of a completion."""
        return self._other(completion)

    def pair_index(self, op: Op) -> int:
        """The other half's index; -1 if there is none."""
        other = self._other(op)
        return -1 if other is None else other.index

    def _other(self, op: Op) -> Op | None:
        try:
            at = self._partners[self._position(op.index)]
        except KeyError:
            return None
        return None if at < 0 else self.ops[at]

    def calls(self) -> Iterator[tuple[Op, Op | None]]:
        """Each invocation of a client with its completion, in order of invocations; what it holds
        meanwhile are those since the longest call began that has an end."""
        begun: deque[tuple[Op, int]] = deque()
        ended: dict[int, Op] = {}
        for at, (op, other) in enumerate(zip(self.ops, self._partners, strict=True)):
            if not op.is_client:
                continue
            if op.type == "invoke":
                begun.append((op, other))
            elif other >= 0:
                ended[at] = op
            while begun and (begun[0][1] < 0 or begun[0][1] in ended):
                first, end = begun.popleft()
                yield first, ended.pop(end, None)

    @cached_property
    def clients(self) -> tuple[Op, ...]:
        """Operations of clients and observers."""
        return tuple(op for op in self.ops if op.is_client)

    @cached_property
    def nemesis(self) -> tuple[Op, ...]:
        """Operations of every process that is not a client, nor the run itself."""
        return tuple(op for op in self.ops if not op.is_client and op.process != RUN)

    @cached_property
    def run(self) -> tuple[Op | None, Op | None]:
        """The declaration with which the run began, and the operation that says that it ended
        (``maxq.histories.grounds``); None where the history has none."""
        ops = [op for op in self.ops if op.process == RUN]
        return (ops[0] if ops else None), (ops[1] if len(ops) > 1 else None)

    @cached_property
    def kinds(self) -> Kinds:
        """What there is to know of the faults that it may hold."""
        return kinds_of(self.run[0])

    @cached_property
    def totals(self) -> Counter[tuple[str, str]]:
        """How many operations of clients there are, by `f` and type."""
        return Counter((op.f, op.type) for op in self.clients)

    @cached_property
    def reassigned(self) -> Reassigned:
        """When clients were assigned other keys."""
        return Reassigned.of_ops(self.of_f(*ASSIGNMENTS))

    @cached_property
    def open_faults(self) -> tuple[Op, ...]:
        """Nemesis operations that began and never ended."""
        return tuple(op for op in self.nemesis if self._other(op) is None)

    @cached_property
    def _places(self) -> dict[str, "array[int]"]:
        """The positions of the operations of each kind."""
        places: dict[str, array[int]] = {}
        for at, op in enumerate(self.ops):
            if op.f not in places:
                places[op.f] = array("q")
            places[op.f].append(at)
        return places

    def of_f(self, *names: str) -> tuple[Op, ...]:
        """The operations of some kinds, in order."""
        places = [self._places[name] for name in {*names} if name in self._places]
        chosen = places[0] if len(places) == 1 else sorted(chain.from_iterable(places))
        return tuple(self.ops[at] for at in chosen)

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """What is made of this history under a name; several who ask have one answer, and none may
        change it. It is made of operations that a part of a history has, too (`PartHistory`)."""
        if what not in self._made:
            self._made[what] = make()
        made: T = self._made[what]
        return made

    @cached_property
    def _made(self) -> dict[Hashable, Any]:
        return {}

    def filter(self, keep: Callable[[Op], bool]) -> "History":
        """A sparse history of some operations, indices unchanged."""
        return History(op for op in self.ops if keep(op))


class PartHistory(History):
    """Some operations of a history that is too big to be held, and how many there are of all.

    `reassigned` are those of all. `timings` gives those of all
    (`maxq.histories.columns.timings`); None where nobody counted them.
    """

    def __init__(
        self,
        ops: Iterable[Op],
        totals: Counter[tuple[str, str]],
        timings: Callable[[], Any] | None = None,
        reassigned: Reassigned = NEVER_REASSIGNED,
    ) -> None:
        super().__init__(ops)
        self.timings = timings
        # What would be counted here would be too few.
        self.__dict__.update(totals=totals, reassigned=reassigned)

    def as_made_of(self, part: "PartHistory") -> None:
        """Take what was made `once` of a part, which has all but single operations of this one."""
        self._made.update(part._made)


def partners(ops: Iterable[Op]) -> "array[int]":
    """By position, the position of each operation's other half; -1 if there is none."""
    found = array("q")
    open_by: dict[int | str, int] = {}
    for at, op in enumerate(ops):
        found.append(-1)
        process = op.process
        begins = process not in open_by if type(process) is str else op.type == "invoke"
        if begins:
            open_by[process] = at
        elif (begun := open_by.pop(process, -1)) >= 0:
            found[begun], found[at] = at, begun
    return found


RuleId = Literal["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"]


class Breach(msgspec.Struct, frozen=True):
    """One operation that breaks a rule of well-formedness. A warning spoils no verdict."""

    rule: RuleId
    index: int  # as the operation says, whatever that is
    text: str
    warning: bool = False


def wellformed(history: History) -> list[Breach]:
    """Find every breach of W1 to W8, in order of the history.

    W6 is a warning: some recorders reuse process numbers. A time that falls is none: order is by
    index, but how long anything took is no longer known. W9 (the shape of values) and W10 are for
    the checker of each workload.
    """
    breaches: list[Breach] = []
    order, processes = OrderRules(), ProcessRules()
    for op in history.ops:
        breaches += order.step(op)
        breaches += processes.step(op)
    return breaches


class OrderRules:
    """W1 and W8, a fold over operations in order; a piece of a history starts where one left off.

    `last_index` and `last_time` are the highest so far; -1 before the first.
    """

    def __init__(self, last_index: int = -1, last_time: int = -1) -> None:
        self.last_index = last_index
        self.last_time = last_time

    def step(self, op: Op) -> Sequence[Breach]:
        """Take the next operation."""
        found: list[Breach] = []
        if type(op.index) is not int or op.index <= self.last_index:
            twice = op.index == self.last_index
            text = f"index {op.index} after {self.last_index}"
            text = f"another operation has index {op.index}" if twice else text
            found.append(Breach("W1", op.index, text))
        else:
            self.last_index = op.index
        if type(op.time) is not int:
            found.append(Breach("W8", op.index, f"time is not an integer: {op.time!r}"))
        elif op.time != -1:
            if op.time < self.last_time:
                text = f"time {op.time} ns goes back, after {self.last_time} ns"
                found.append(Breach("W8", op.index, text))
            self.last_time = max(self.last_time, op.time)
        return found


class ProcessRules:
    """W2 to W7, a fold over operations in order; those of one process alone give the same."""

    def __init__(self) -> None:
        self._open: dict[int, Op] = {}
        self._retired: set[int] = set()

    def step(self, op: Op) -> Sequence[Breach]:
        """Take the next operation."""
        if op.type not in TYPES:
            return (Breach("W2", op.index, f"unknown type {op.type!r}"),)
        if type(op.process) is not int:
            if op.type == "info":
                return ()
            return (Breach("W7", op.index, f"{op.process} is no client and used {op.type!r}"),)
        return self._client(op, op.process)

    def _client(self, op: Op, process: int) -> Sequence[Breach]:
        found: list[Breach] = []
        if process in self._retired:
            text = f"process {process} goes on after an info completion"
            found.append(Breach("W6", op.index, text, warning=True))
        if op.type == "invoke":
            if process in self._open:
                text = f"process {process} invokes while {self._open[process].index} is open"
                found.append(Breach("W3", op.index, text))
            self._open[process] = op
            return found
        begun = self._open.pop(process, None)
        if begun is None:
            text = f"process {process} completes what it did not invoke"
            found.append(Breach("W4", op.index, text))
        elif begun.f != op.f:
            text = f"completes {op.f!r}, invoked {begun.f!r} at {begun.index}"
            found.append(Breach("W5", op.index, text))
        if op.type == "info":
            self._retired.add(process)
        return found
