"""Histories that are made up keep to their model, but for what is planted in them."""

import itertools
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import judge
from maxq.checkers.models.transactions import TransactionModel
from maxq.histories.history import History, wellformed
from maxq.histories.op import Op
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.of_models.making import ROUND_CALLS, made, making
from maxq.workloads.of_models.request import ANOMALIES, ModelRequest
from maxq.workloads.of_models.store import PARTS_MAX, WRITES

# Their rules have no states.
NONE = {"bank", "kafka", "lease", "long-fork", "set-full", "total-queue"}
MADE = sorted(set(models()) - NONE)
TRANSACTIONS = {"list-append", "rw-register"}


def request(model: str, **more: object) -> ModelRequest:
    return ModelRequest(**{"model": model, "ops": 60, "concurrency": 4, "seed": 3, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_is_valid(name: str) -> None:
    model = models()[name]
    transactions = isinstance(model, TransactionModel)
    for keys, values in ((1, 0), (1 if name == "multi-register" else 3, 0 if transactions else 5)):
        asked = request(name, keys=keys, values=values, info=0.1)
        ops = made(asked, model).ops
        history = History(ops)
        assert not [breach for breach in wellformed(history) if not breach.warning]
        assert judge(model, history, lambda: False).valid is True
        assert len({op.type for op in ops}) > 2
        assert made(asked, model).ops == ops


def test_what_is_planted_is_seen() -> None:
    seen = set()
    for name, kind in itertools.product(sorted(set(MADE) - TRANSACTIONS), ANOMALIES):
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
        (request("list-append", ops=9, anomalies={"lost-effect": 5}), "each takes two of the 9"),
        (request("rw-register", anomalies={"double-effect": 1}), "written twice holds the same"),
        (request("register", ops=2_000_000, anomalies={"lost-effect": 1}), "at most 1,000,000"),
    ],
)
def test_what_cannot_be_made_is_refused(asked: ModelRequest, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        made(asked, models()[asked.model])


@pytest.mark.parametrize("name", sorted(TRANSACTIONS))
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(ANOMALIES)), st.integers(1, 40), st.integers(1, 8), st.integers(1, 30),
    st.sampled_from((0, 0.05, 0.5)), st.integers(0, 1 << 20),
)  # fmt: skip
def test_each_thing_planted_in_transactions_is_seen_by_itself(
    name: str, kind: str, keys: int, concurrency: int, count: int, info: float, seed: int
) -> None:
    assume(name == "list-append" or kind != "double-effect")
    model = models()[name]
    asked = request(name, ops=2 * count, keys=keys, concurrency=concurrency, info=info, seed=seed,
                    anomalies={kind: count})  # fmt: skip
    done = made(asked, model)
    assert not [breach for breach in wellformed(History(done.ops)) if not breach.warning]
    assert Counter(wrong.kind for wrong in done.planted) == {kind: count}
    for wrong in done.planted[:3]:
        _, key, _ = done.ops[wrong.ops[0]].value[1]
        assert judge(model, History(on_key(done.ops, key)), lambda: False).valid is False
    valid = made(msgspec.structs.replace(asked, anomalies={}, ops=60), model)
    assert judge(model, History(valid.ops), lambda: False).valid is True


def on_key(ops: Sequence[Op], key: int) -> list[Op]:
    """What is done to one key, numbered anew."""
    parts = [(op, [p for p in op.value if p[1] == key]) for op in ops]
    kept = [msgspec.structs.replace(op, value=own) for op, own in parts if own]
    return [msgspec.structs.replace(op, index=at) for at, op in enumerate(kept)]


def test_a_history_of_transactions_is_made_in_rounds_of_short_lists() -> None:
    model = models()["list-append"]
    asked = request("list-append", ops=3 * ROUND_CALLS, keys=20, anomalies={"stale-answer": 500})
    coming = making(asked, model)
    rounds, longest, keys = [], 0, set()
    for acts in coming.rounds:
        rounds.append(len(acts))
        lists = {
            (p[1], len(p[2] or ()))
            for act in acts
            if act.done
            for p in act.done.value
            if p[0] == "r"
        }
        longest = max(longest, *(n for _, n in lists))
        keys |= {key for key, _ in lists}
    assert max(rounds) <= ROUND_CALLS
    assert sum(rounds) >= asked.ops
    assert longest <= WRITES + PARTS_MAX
    assert len(keys) > 1000
    assert len(coming.planted) == 500
