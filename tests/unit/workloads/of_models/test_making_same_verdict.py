"""What a model says of a history depends on neither the order of keys nor the seed of hashes."""

import os
import subprocess
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import judge
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.of_models.making import made
from maxq.workloads.of_models.request import ModelRequest

LOOKS = 2_000  # at the budget, for all keys
KEYS = 4


def history_of(name: str, seed: int, **more: Any) -> tuple[Op, ...] | None:
    """A history with an anomaly where one can be planted; None: of the model none is made."""
    for anomalies in ({"stale-answer": 1}, {"failed-effect": 1}, {}):
        request = ModelRequest(model=name, ops=60, seed=seed, anomalies=anomalies, **more)
        try:
            return made(request, models()[name]).ops
        except Refusal:
            continue
    return None


def told(name: str, ops: tuple[Op, ...]) -> Any:
    looks = iter(range(LOOKS))
    return judge(models()[name], History(ops), lambda: next(looks, None) is None)


def by_key(name: str, ops: tuple[Op, ...]) -> dict[str, tuple[Any, ...]]:
    return {
        repr(k.key): (k.calls, k.decided.valid, k.decided.by, k.decided.name)
        for k in told(name, ops).keys
    }


def shuffled(ops: tuple[Op, ...], random: Random) -> tuple[Op, ...]:
    """The same calls on each key in the same order, one key's among those of others otherwise."""
    lanes: dict[str, list[Op]] = {}
    for op in ops:
        lanes.setdefault(repr((op.ext or {}).get("key")), []).append(op)
    order = [lane for lane, own in lanes.items() for _ in own]
    random.shuffle(order)
    take = {lane: iter(own) for lane, own in lanes.items()}
    number = {lane: at for at, lane in enumerate(lanes)}
    found = []
    for at, lane in enumerate(order):
        op = next(take[lane])
        process = 1000 * number[lane] + int(op.process)  # of one key alone
        found.append(msgspec.structs.replace(op, index=at, time=at, process=process))
    return tuple(found)


def test_keys_may_come_in_any_order() -> None:
    judged = 0
    for name in sorted(set(models()) - {"list-append", "rw-register"}):  # those have no keys
        ops = history_of(name, 3, keys=KEYS)
        if ops is not None:
            expected = by_key(name, ops)
            judged += len(expected) == KEYS
            for seed in range(3):
                assert by_key(name, shuffled(ops, Random(seed))) == expected, name
    assert judged >= 10


def whole() -> Iterator[bytes]:
    """All that is said of one history of each model."""
    for name in sorted(models()):
        ops = history_of(name, 5)
        if ops is not None:
            yield msgspec.json.encode((name, told(name, ops)), enc_hook=repr)


def test_the_seed_of_hashes_changes_nothing() -> None:
    code = f"from {__name__} import whole; import sys; sys.stdout.buffer.writelines(whole())"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2", "77")
    }  # fmt: skip
    [said] = outputs
    assert said.count(b'"model":') >= 12, said[:400]
