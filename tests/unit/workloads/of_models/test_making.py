"""Histories that are made up keep to their model, but for what is planted in them."""

import itertools

import pytest

from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import judge
from maxq.checkers.models.transactions import TransactionModel
from maxq.histories.history import History, wellformed
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.of_models.making import made
from maxq.workloads.of_models.request import ANOMALIES, ModelRequest

# Their rules have no states.
NONE = {"bank", "kafka", "lease", "long-fork", "set-full", "total-queue"}
MADE = sorted(set(models()) - NONE)


def request(model: str, **more: object) -> ModelRequest:
    return ModelRequest(**{"model": model, "ops": 60, "concurrency": 4, "seed": 3, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_is_valid(name: str) -> None:
    model = models()[name]
    transactions = isinstance(model, TransactionModel)
    one = transactions or name == "multi-register"
    for keys, values in ((1, 0), (1 if one else 3, 0 if transactions else 5)):
        asked = request(name, keys=keys, values=values, info=0.1)
        ops = made(asked, model).ops
        history = History(ops)
        assert not [breach for breach in wellformed(history) if not breach.warning]
        assert judge(model, history, lambda: False).valid is True
        assert len({op.type for op in ops}) > 2
        assert made(asked, model).ops == ops


def test_what_is_planted_is_seen() -> None:
    seen = set()
    for name, kind in itertools.product(MADE, ANOMALIES):
        model = models()[name]
        try:
            done = made(request(name, anomalies={kind: 1}), model)
        except Refusal:
            continue
        seen.add(kind)
        assert judge(model, History(done.ops), lambda: False).valid is False
        (wrong,) = done.planted
        begun, ended = (done.ops[at] for at in wrong.ops)
        assert (begun.type, begun.process, begun.f) == ("invoke", ended.process, ended.f)
        assert ended.type == ("fail" if kind == "failed-effect" else "ok")
    assert seen == set(ANOMALIES)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (request("lease"), "its class has no `ask`"),
        (request("register", ops=0), "--ops 0: 1 to"),
        (request("register", anomalies={"lost-write": 1}), "lost-write is not planted in models"),
        (request("register", anomalies={"double-effect": 1}), "no place was found"),
        (request("multi-register", keys=2), "multi-register is one object"),
        (request("list-append", values=5), "list-append writes each value once"),
    ],
)
def test_what_cannot_be_made_is_refused(asked: ModelRequest, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        made(asked, models()[asked.model])
