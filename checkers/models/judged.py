"""A history judged by a model: every key decided by itself."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from maxq.checkers.counterexample import of_transactions
from maxq.checkers.linearizability.calls import FAILED, OK, OPEN, Calls, CallsMaker, calls_of
from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.linearizability.judge import decide
from maxq.checkers.linearizability.minimal import Smallest, smallest
from maxq.checkers.linearizability.model import Model
from maxq.checkers.linearizability.search import OVER_BUDGET
from maxq.checkers.linearizability.space import Over
from maxq.checkers.models.intake import Intake, Others, Taking
from maxq.checkers.models.transactions import TransactionModel
from maxq.checkers.transactions.judged import STRONGEST, Asked, Judged
from maxq.histories.history import History
from maxq.histories.op import ABSENT, RESOLVED

LOOKS_FIRST = 200  # at the budget, that a key gets before all others had their turn
SHRUNK_MAX = 4  # keys without a legal order of which a counterexample is made
NOTHING_TESTED = "no operation succeeded that could have shown a breach"
AS_FOUND = Intake()
OUTCOMES = {"ok": OK, "fail": FAILED, "info": OPEN}


class KeyJudged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one key; `calls` is how many there were on it, `smallest` a part of them that
    has no legal order by itself."""

    key: Any
    calls: int
    decided: Decided
    smallest: Smallest | None = None


class ModelJudged(msgspec.Struct, frozen=True, kw_only=True):
    """What became of all keys, in order of their names; `independent`: of Jepsen's independent
    keys. `passed` counts by kind the operations of clients that are none of the model's, `open` the
    calls without an answer; `why` says why nothing can be said of the whole. Transactions are one
    object, and all that is known of them is in `transactions`."""

    model: str
    keys: tuple[KeyJudged, ...]
    passed: dict[str, int] = {}
    open: int = 0
    independent: bool = False
    why: str = ""
    transactions: Judged | None = None

    @property
    def valid(self) -> bool | Literal["unknown"]:
        """Invalid if a key is; unknown if one could not be decided, or if there is none."""
        every = {k.decided.valid for k in self.keys}
        if self.why or not every:
            return "unknown"
        return False if False in every else True if every == {True} else "unknown"

    @property
    def counterexample(self) -> KeyJudged | None:
        """The key with the shortest part that has no legal order."""
        found = [key for key in self.keys if key.smallest]
        return min(found, key=_length, default=None)

    def of(self, valid: object) -> list[KeyJudged]:
        """The keys of one verdict."""
        return [k for k in self.keys if k.decided.valid is valid or k.decided.valid == valid]


def _length(key: KeyJudged) -> int:
    return len(key.smallest.begins) if key.smallest else 0


def judge(
    model: Model, history: History, over: Over, asked: Asked = STRONGEST, how: Intake = AS_FOUND
) -> ModelJudged:
    """Judge every key, and make counterexamples; the budget is for all of this together.

    Args:
        model: the model.
        history: the history.
        over: whether the budget is used up.
        asked: of transactions: the consistency model, and what may be assumed.
        how: what is said of the history beside its model.

    Raises:
        HistoryError: an operation has not the model's shape.
        ValueError: the consistency model cannot be said of the history.
    """
    if isinstance(model, TransactionModel):
        return _judge_transactions(model, history, over, asked, how)
    model.begun_with(how.initial, calls_of(()))  # refused before an operation is
    taken = taken_of(model, history, how)
    dealt = sorted(taken.calls.items(), key=lambda pair: repr(pair[0]))
    if taken.others.open_names:
        return _nothing_known(model, taken, dealt)
    # One key that takes long does not keep the others from being decided: it waits.
    of_key = [model.begun_with(how.initial, calls) for _, calls in dealt]
    first = [decide(one, calls, _some(over)) for one, (_, calls) in zip(of_key, dealt, strict=True)]
    less = _made_smaller(of_key, dealt, first, over)
    found = [
        decide(of_key[at], dealt[at][1], over) if one.name == OVER_BUDGET else one
        for at, one in enumerate(first)
    ]
    less = _made_smaller(of_key, dealt, found, over, less)
    keys = tuple(
        KeyJudged(key=key, calls=calls.size, decided=one, smallest=less.get(at))
        for at, ((key, calls), one) in enumerate(zip(dealt, found, strict=True))
    )
    tested = any(np.any((c.outcome == OK) & ~c.of(*model.blind)) for _, c in dealt)
    broken = any(key.decided.valid is False for key in keys)
    return taken.judged(model, keys, "" if tested or broken or not keys else NOTHING_TESTED)


def _nothing_known(model: Model, taken: "Taken", dealt: Sequence[tuple[Any, Calls]]) -> ModelJudged:
    """What is said where operations are left out that may have changed an object."""
    why = taken.others.why(model)
    unsure = Decided("unknown", "fast test", "unknown-operation", why)
    keys = (KeyJudged(key=key, calls=calls.size, decided=unsure) for key, calls in dealt)
    return taken.judged(model, tuple(keys), why)


def _some(over: Over) -> Over:
    """A budget of so many looks at another one."""
    left = iter(range(LOOKS_FIRST))
    return lambda: next(left, None) is None or over()


def _made_smaller(
    of_key: Sequence[Model],
    dealt: Sequence[tuple[Any, Calls]],
    found: Sequence[Decided],
    over: Over,
    known: Mapping[int, Smallest] | None = None,
) -> Mapping[int, Smallest]:
    """By position, the counterexamples of the first keys without a legal order."""
    less = dict(known or {})
    bad = [at for at, one in enumerate(found) if one.valid is False and at not in less]
    for at in bad[: SHRUNK_MAX - len(less)]:
        less[at] = smallest(of_key[at], dealt[at][1], found[at], over)
    return less


def _judge_transactions(
    model: TransactionModel, history: History, over: Over, asked: Asked, how: Intake
) -> ModelJudged:
    taking, others = Taking(model, history, how), Others()
    txns = model.columns(history, lambda begun, ended: others.add(taking, begun, ended))
    txns = model.begun_with_all(how.initial, txns)
    found = model.judge(txns, asked, over)
    if others.open_names:
        found = msgspec.structs.replace(found, valid="unknown", unknown=others.why(model))

    def again(part: History) -> Judged:
        return model.judge(model.begun_with_all(how.initial, model.columns(part)), asked, over)

    part = of_transactions.smallest(history, found, again, over)
    less = (
        None
        if part is None
        else Smallest(part.begins, _decided(part.judged, _decided(found).name), over(), part.keys)
    )
    key = KeyJudged(key=None, calls=txns.size, decided=_decided(found), smallest=less)
    unanswered = int((txns.outcome == OPEN).sum())
    return ModelJudged(
        model=model.name, keys=(key,), passed=dict(others.passed), open=unanswered,
        transactions=found,
    )  # fmt: skip


def _decided(found: Judged, first: str = "") -> Decided:
    """The verdict by its first anomaly, or the one of a name."""
    wrong = [a for a in found.anomalies if a.forbidden]
    wrong.sort(key=lambda a: a.name != first)
    name, why, witness = (
        (wrong[0].name, wrong[0].why, wrong[0].witness) if wrong else ("", found.unknown, ())
    )
    return Decided(found.valid, "dependencies", name, why, witness)


class Taken(NamedTuple):
    """The calls on each key, and the operations that the model does not know."""

    calls: dict[Any, Calls]
    others: Others
    independent: bool

    def judged(self, model: Model, keys: tuple[KeyJudged, ...], why: str) -> ModelJudged:
        """What became of them."""
        unanswered = sum(int((calls.outcome == OPEN).sum()) for calls in self.calls.values())
        return ModelJudged(
            model=model.name, keys=keys, passed=dict(self.others.passed), open=unanswered,
            independent=self.independent, why=why,
        )  # fmt: skip


def taken_of(model: Model, history: History, how: Intake = AS_FOUND) -> Taken:
    """The calls of a history.

    Raises:
        HistoryError: an operation has not the model's shape.
    """
    taking, others = Taking(model, history, how), Others()
    makers: dict[Any, CallsMaker] = defaultdict(CallsMaker)
    for op, ended in history.calls():
        if ended is not None and (ended.ext or {}).get(RESOLVED) == ABSENT:
            continue  # it never happened, as logs show
        outcome = OPEN if ended is None else OUTCOMES[ended.type]
        end = -1 if ended is None else ended.index
        rows = list(model.read(*taking.pair(op, ended)))
        for row in rows:
            makers[row.key].add(row, op.index, end, outcome, int(op.process))
        if not rows:
            others.add(taking, op, ended)
    calls = {key: maker.done() for key, maker in makers.items()}
    return Taken(calls, others, taking.independent)
