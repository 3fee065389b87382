"""Histories as a model's objects answer them, with clients that overlap.

Each call takes effect at one instant between its invocation and its completion, on the state that
the object then has: so what comes out is linearizable. A call whose answer is lost took effect or
did not; its client goes on under another name. What is planted changes one call each.

A history is made in rounds, at whose ends nothing is open, so that it can be written as it is made.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from maxq.checkers.linearizability.model import Client, Model
from maxq.checkers.models.judged import judge
from maxq.checkers.models.transactions import TransactionModel
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.generated.columns.rows import Act
from maxq.workloads.of_models.calls import Call, Objects, Wrong
from maxq.workloads.of_models.request import JUDGED_MAX, ModelRequest
from maxq.workloads.of_models.stated import Stated
from maxq.workloads.of_models.store import Store

TRIES = 40  # places for what is planted
LOOKS_MAX = 2000  # at the budget, of a judgement whether what was planted shows
MOMENT_NS = 1_000_000
ROUND_CALLS = 1 << 14

KEYS = 3  # of transactions, where no other number is asked for

Round = Sequence[Act]


class Made(NamedTuple):
    """A history and what was planted in it."""

    ops: tuple[Op, ...]
    planted: tuple[Wrong, ...]


class Making:
    """A history that is being made: its rounds, and what was planted in those that were taken."""

    def __init__(self, rounds: Iterator[Round], planted: Sequence[Wrong]) -> None:
        self.rounds, self.planted = rounds, planted


def keys_of(model: Model) -> int:
    """How many objects, or of transactions keys at a time, a model has where nobody says."""
    return KEYS if isinstance(model, TransactionModel) else 1


def making(request: ModelRequest, model: Model) -> Making:
    """Make what is asked for, round by round.

    Of transactions what is planted shows by construction. Of other models it is planted only if the
    model then says that the history is invalid, for which all of it is held.

    Raises:
        Refusal: of the model no histories are made, or what is asked for cannot be planted.
    """
    request.checked()
    wanted = list(Counter(request.anomalies).elements())
    random = Random(f"{request.seed} 0")
    if isinstance(model, TransactionModel):
        if request.values:
            raise Refusal(f"--values {request.values}: {request.model} writes each value once")
        return _World(request, Store(request, model, random, wanted), random).making()
    if model.ask(model.initial, Client(0, lambda n: 0, lambda: 1)) is None:
        raise Refusal(f"of {request.model} no histories are made: its class has no `ask`")
    if not wanted:
        return _World(request, Stated(request, model, random, wanted), random).making()
    return _tried(request, model, wanted)


def made(request: ModelRequest, model: Model) -> Made:
    """All of it in memory.

    Raises:
        Refusal: as `making`.
    """
    coming = making(request, model)
    ops = _ops_of(coming.rounds)
    return Made(ops, tuple(coming.planted))


def _tried(request: ModelRequest, model: Model, wanted: Sequence[str]) -> Making:
    if request.ops > JUDGED_MAX:
        raise Refusal(f"--ops {request.ops}: at most {JUDGED_MAX:,} with --anomalies, since "
                      f"{request.model} must judge them")  # fmt: skip
    for attempt in range(TRIES):
        random = Random(f"{request.seed} {attempt}")
        coming = _World(request, Stated(request, model, random, wanted), random).making()
        rounds = list(coming.rounds)
        if len(coming.planted) == len(wanted) and _is_invalid(model, _ops_of(iter(rounds))):
            return Making(iter(rounds), coming.planted)
    planted = ", ".join(f"{kind}={n}" for kind, n in request.anomalies.items())
    raise Refusal(f"{planted}: no place was found where {request.model} shows it in "
                  f"{request.ops:,} operations")  # fmt: skip


def _ops_of(rounds: Iterator[Round]) -> tuple[Op, ...]:
    ops = [op for acts in rounds for act in acts for op in act if op is not None]
    return tuple(sorted(ops, key=lambda op: op.index))


def _is_invalid(model: Model, ops: tuple[Op, ...]) -> bool:
    looks = iter(range(LOOKS_MAX))
    return judge(model, History(ops), lambda: next(looks, None) is None).valid is False


class _World:
    """Clients, and the objects that they call."""

    def __init__(self, request: ModelRequest, objects: Objects, random: Random) -> None:
        self._request, self._objects, self._random = request, objects, random
        self._threads = list(range(request.concurrency))  # of each its process
        self._calls = self._events = 0
        self._planted: list[Wrong] = []

    def making(self) -> Making:
        """The rounds, none of which is made before it is asked for."""
        return Making(self._rounds(), self._planted)

    def _rounds(self) -> Iterator[Round]:
        while self._calls < self._request.ops or self._objects.unfinished:
            yield self._round(max(self._request.ops, self._calls + 1))

    def _round(self, most: int) -> Round:
        """Calls until there are so many in all, or as many as a round has."""
        random, objects, acts = self._random, self._objects, list[Act]()
        most = min(most, self._calls + ROUND_CALLS)
        busy: dict[int, Call] = {}
        while self._calls < most or busy:
            thread = random.randrange(len(self._threads))
            call = busy.get(thread)
            if call is None:
                if self._calls < most:
                    busy[thread] = self._begun(self._threads[thread])
            elif call.drawn is None:
                objects.take_effect(call)
            else:
                del busy[thread]
                acts.append(self._ended(call))
                if call.outcome == "info":
                    self._threads[thread] += self._request.concurrency
        return acts

    def _begun(self, process: int) -> Call:
        key = self._random.randrange(self._objects.keys)
        call = Call(process, self._calls, key, self._events)
        self._calls += 1
        self._events += 1
        self._objects.begun(call)
        return call

    def _ended(self, call: Call) -> Act:
        drawn, end = call.drawn, self._events
        if drawn is None:
            raise RuntimeError("a call ends after it took effect")
        self._events += 1
        self._objects.ended(call)
        if call.wrong:
            self._planted.append(Wrong(call.wrong, (call.begun, end)))
        answer = drawn.answer if call.outcome == "ok" else drawn.value
        return Act(self._op("invoke", call, drawn.value, call.begun, dict(drawn.ext)),
                   self._op(call.outcome, call, answer, end, {}))  # fmt: skip

    def _op(self, kind: Any, call: Call, value: Any, index: int, ext: dict[str, Any]) -> Op:
        if self._objects.keys > 1:
            ext["key"] = call.key
        f = call.drawn.f if call.drawn is not None else ""
        return Op(kind, call.process, f, value, None, index, index * MOMENT_NS, ext or None)
