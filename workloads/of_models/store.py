"""Keys that transactions read and write, so many of them in use at a time.

A key is left for a new one after `WRITES` writes, as Elle's generator does: lists stay short, and
what is held does not grow with the history.

What is planted takes two transactions on a key that no other one uses from then on. Both read it,
and the first also writes it. The second begins after the first one's answer. So each planted call
contradicts strict serializability, whatever else happens:

- a lost write is acknowledged, and the later read lacks it,
- a stale answer lacks a write that was acknowledged before it was asked,
- a write that is said to have failed is read,
- an element that was appended twice is read twice.
"""

from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from maxq.checkers.linearizability.model import Drawn
from maxq.checkers.models.transactions import TransactionModel
from maxq.checkers.transactions.columns import READ
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.of_models.calls import Call, Values, places
from maxq.workloads.of_models.request import ModelRequest
from maxq.workloads.of_models.stated import STALE

WRITES = 8  # to a key
PARTS_MAX = 2  # of a transaction
READS = 0.5  # of these


class _Step(NamedTuple):
    """One of the two transactions of what is planted: the first if `key` is -1. The second reads
    the key; `before` is what it held before the first one."""

    kind: str
    key: int = -1
    before: Any = None


class Store:
    """All keys of transactions.

    Args:
        request: what is asked for.
        model: of lists or of registers.
        random: for what is drawn.
        wanted: what is to be planted.

    Raises:
        Refusal: it cannot be planted.
    """

    keys = 1  # a transaction has several, which are drawn as it takes effect

    def __init__(
        self, request: ModelRequest, model: TransactionModel, random: Random, wanted: Sequence[str]
    ) -> None:
        self._model, self._random, self._info = model, random, request.info
        if not model.lists and "double-effect" in wanted:
            raise Refusal(f"double-effect=1: a register of {request.model} that is written twice "
                          "holds the same")  # fmt: skip
        if 2 * len(wanted) > request.ops:
            raise Refusal(f"{len(wanted)} anomalies: each takes two of the {request.ops:,} "
                          "transactions")  # fmt: skip
        self._plan = places(request, random, wanted)
        self._values = Values(request, random)
        self._active = list(range(request.keys))
        self._last = len(self._active) - 1
        self._have: dict[int, Any] = {}
        self._writes: dict[int, int] = {}
        self._waiting: deque[_Step] = deque()
        self._steps: dict[int, _Step] = {}  # of calls under way, by their numbers

    @property
    def unfinished(self) -> bool:
        """Whether a call more is needed, so that something planted shows."""
        return bool(self._waiting)

    def begun(self, call: Call) -> None:
        """A call begins: the next one of something planted, or any."""
        if (kind := self._plan.pop(call.number, None)) is not None:
            self._waiting.append(_Step(kind))
        if self._waiting:
            self._steps[call.number] = self._waiting.popleft()

    def ended(self, call: Call) -> None:
        """A call has its answer."""
        if (step := self._steps.pop(call.number, None)) is not None:
            self._waiting.appendleft(step)  # its second one

    def take_effect(self, call: Call) -> None:
        """Draw what a call asks, its answer and its outcome, and do it."""
        step = self._steps.get(call.number)
        if step is None:
            self._any(call)
        elif step.key < 0:
            self._steps[call.number] = self._first(call, step.kind)
        else:
            self._second(call, step)

    def _any(self, call: Call) -> None:
        random, active = self._random.random, self._active
        parts: list[list[Any]] = []
        own: dict[int, Any] = {}
        for _ in range(int(random() * PARTS_MAX) + 1):
            key = active[int(random() * len(active))]
            if random() < READS:
                parts.append([READ, key, own.get(key, self._held(key))])
            else:
                parts.append(self._written(key, own))
        call.drawn = _drawn(parts)
        lost = random() < self._info
        call.outcome = "info" if lost else "ok"
        if not lost or random() < 0.5:
            self._have |= own
            self._count([key for name, key, _ in parts if name != READ])

    def _held(self, key: int) -> Any:
        return self._have.get(key, [] if self._model.lists else None)

    def _written(self, key: int, own: dict[int, Any]) -> list[Any]:
        """A part that writes to a key, of which `own` then has what the transaction sees."""
        value = self._values.next()
        own[key] = [*own.get(key, self._held(key)), value] if self._model.lists else value
        return [self._model.write, key, value]

    def _count(self, written: list[int]) -> None:
        """Count writes, and leave the keys that have enough."""
        for key in written:
            self._writes[key] = self._writes.get(key, 0) + 1
        for key in dict.fromkeys(written):
            if self._writes[key] >= WRITES:
                self._leave(key)
                self._forget(key)

    def _leave(self, key: int) -> None:
        """Use a new key in place of one."""
        self._last += 1
        self._active[self._active.index(key)] = self._last

    def _forget(self, key: int) -> None:
        self._have.pop(key, None)
        self._writes.pop(key, None)

    def _first(self, call: Call, kind: str) -> _Step:
        """Read and write a key."""
        key = self._random.choice(self._active)
        self._leave(key)
        before, own = self._held(key), dict[int, Any]()
        call.drawn = _drawn([self._other(), [READ, key, before], self._written(key, own)])
        call.outcome = "fail" if kind == "failed-effect" else "ok"
        call.wrong = "" if kind == STALE else kind
        if kind != "lost-effect":
            self._have |= own
        if kind == "double-effect":
            self._have[key] = [*own[key], own[key][-1]]
        return _Step(kind, key, before)

    def _other(self) -> list[Any]:
        """A right read of a key that others use."""
        key = self._random.choice(self._active)
        return [READ, key, self._held(key)]

    def _second(self, call: Call, step: _Step) -> None:
        """Read it again."""
        stale = step.kind == STALE
        seen = step.before if stale else self._held(step.key)
        call.drawn = _drawn([self._other(), [READ, step.key, seen]])
        call.wrong = step.kind if stale else ""
        self._forget(step.key)
        del self._steps[call.number]


def _drawn(parts: list[list[Any]]) -> Drawn:
    asked = [[f, key, None if f == READ else value] for f, key, value in parts]
    return Drawn("txn", asked, parts)
