"""Histories of two objects whose clients are the same, judged whole: as both at once are."""

from collections.abc import Hashable, Iterable
from random import Random

from benchmarks.differential.oracle import drawn, exhaustive
from benchmarks.differential.subjects import INFO, WRONG, never
from maxq.checkers.linearizability.calls import NEVER, OPEN, Call, Calls, Row
from maxq.checkers.linearizability.model import Model, State
from maxq.checkers.models.judged import NOTHING_TESTED, judge
from maxq.histories.history import History
from maxq.histories.op import Op

KEYS = ("x", "y")


class Both(Model):
    """Two objects of one model as one; the key of a call is its `other` beside it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.initial = (model.initial, model.initial)

    def read(self, begun: Op, ended: Op | None) -> Iterable[Row]:
        """None: no history is read as this."""
        return ()

    def step(self, state: State, call: Call) -> Iterable[State]:
        before: tuple[State, State] = state  # type: ignore[assignment]
        key, own = call.kind.split(":")
        at = KEYS.index(key)
        for new in self._model.step(before[at], call._replace(kind=own)):
            yield (new, before[1]) if at == 0 else (before[0], new)


def _ask(random: Random, state: Hashable) -> tuple[Row, Hashable]:
    """Registers whose values are their own."""
    have: tuple[Hashable, ...] = state  # type: ignore[assignment]
    at = random.randrange(2)
    if random.random() < 0.5:
        return Row(None, f"{KEYS[at]}:read", result=have[at]), state
    value = random.randrange(1, 100)
    return Row(None, f"{KEYS[at]}:write", value), (value, have[1]) if at == 0 else (have[0], value)


def compared(model: Model, number: int) -> tuple[str, bool]:
    """What is wrong with a verdict (empty: nothing), and whether some client had two calls open, of
    both keys."""
    random = Random(f"two keys {number}")
    both = Both(model)
    calls = drawn(_ask, both, random, info=INFO[number % 3], wrong=random.choice(WRONG), length=8)
    ops, two_open = _history(calls)
    judged = judge(model, History(ops), never)
    legal = exhaustive(both, calls)
    # One that tests nothing is not called valid.
    right = ("unknown",) if not calls.size or (legal and judged.why == NOTHING_TESTED) else (legal,)
    wrong = "" if judged.valid in right else f"{judged.valid}: {ops}"
    return wrong, two_open


def _history(calls: Calls) -> tuple[list[Op], bool]:
    """The events of calls. A client whose call has no answer is told so, and goes on."""
    every = [calls.call(at) for at in range(calls.size)]
    moments = [(c.begun, False, n) for n, c in enumerate(every)]
    moments += [(c.ended, True, n) for n, c in enumerate(every) if c.ended < NEVER]
    free, mine, ops = list(range(8)), dict[int, int](), list[Op]()
    lasting: dict[int, set[str]] = {}
    two_open = False
    for _, ends, n in sorted(moments):
        call = every[n]
        key, kind = call.kind.split(":")
        if ends:
            ops.append(_op("ok", mine[n], kind, key, call.result or call.argument, len(ops)))
            free.insert(0, mine[n])
            continue
        mine[n] = process = free.pop(0)
        two_open |= bool(lasting.get(process, set()) - {key})
        ops.append(_op("invoke", process, kind, key, call.argument, len(ops)))
        if call.outcome == OPEN:
            ops.append(_op("info", process, kind, key, call.argument, len(ops)))
            lasting.setdefault(process, set()).add(key)
            free.insert(0, process)
    return ops, two_open


def _op(kind: str, process: int, f: str, key: str, value: object, index: int) -> Op:
    return Op(type=kind, process=process, f=f, value=value, index=index, ext={"key": key})  # type: ignore[arg-type]
