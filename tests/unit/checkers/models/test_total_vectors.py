"""Small histories with known verdicts: of queues, sets, counters and ids.

Most verdicts are those of Jepsen's checkers; where ours differ the comment says why.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from maxq.checkers.linearizability.decided import Decided
from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import judge
from maxq.histories.history import History
from maxq.histories.op import Op

Step = tuple[int, str, str, Any]  # process, type, f, value


def ops(steps: Iterable[Step]) -> History:
    return History(
        Op(type=kind, process=process, f=f, value=value, index=at, time=at)  # type: ignore[arg-type]
        for at, (process, kind, f, value) in enumerate(steps)
    )


def whole(process: int, f: str, value: Any, kind: str = "ok", asked: Any = None) -> list[Step]:
    return [(process, "invoke", f, asked), (process, kind, f, value)]


def put(value: Any, kind: str = "ok") -> list[Step]:
    return whole(0, "enqueue", value, kind, asked=value)


def take(value: Any, kind: str = "ok") -> list[Step]:
    return whole(1, "dequeue", value, kind)


def drain(value: Any, kind: str = "ok") -> list[Step]:
    return whole(2, "drain", value, kind)


def add(value: Any, kind: str = "ok") -> list[Step]:
    return whole(0, "add", value, kind, asked=value)


def seen(value: Any) -> list[Step]:
    return whole(1, "read", value)


def during(outer: list[Step], inner: list[Step]) -> list[Step]:
    """One operation while another one is open."""
    return [outer[0], *inner, outer[1]]


VECTORS: dict[str, tuple[str, list[list[Step]], object, str]] = {
    "Q1": ("total-queue", [put(1), drain([1])], True, ""),
    "Q2": ("total-queue", [put(1), drain([1, 1, 7])], False, "unexpected"),
    "Q3": ("total-queue", [put(1, "info"), take(1)], True, ""),
    # Jepsen counts it as recovered, though its enqueue is said to have failed.
    "Q4": ("total-queue", [put(1, "fail"), take(1)], False, "aborted"),
    # Jepsen calls it lost, though the dequeue without an answer may have taken it.
    "Q5": ("total-queue", [put(1), take(None, "info")], "unknown", "maybe-consumed"),
    # Jepsen throws.
    "Q6": ("total-queue", [put(1), drain([1], "info")], True, ""),
    "lost": ("total-queue", [put(1), put(2), drain([2])], False, "lost"),
    "not drained": ("total-queue", [put(1)], "unknown", "not-drained"),
    "twice": ("total-queue", [put(1), drain([1, 1])], True, "duplicated"),
    "S1": ("set-full", [add(1), seen([]), seen([1])], True, "stale"),
    "S1, as a set": ("set", [add(1), seen([]), seen([1])], False, ""),
    "S2": ("set-full", [add(1), seen([1]), seen([])], False, "lost"),
    "S3": ("set-full", [add(1), seen([])], False, "lost"),
    "S4": ("set-full", [during(add(1), seen([]))], "unknown", "never-read"),
    "S5": ("set-full", [add(1, "info"), seen([])], "unknown", "never-read"),
    "S6": ("set-full", [add(1, "info"), seen([1]), seen([])], False, "lost"),
    # Jepsen passes the next three: a failed add, what nobody added, an element twice.
    "S7": ("set-full", [add(1, "fail"), seen([1])], False, "aborted"),
    "S8": ("set-full", [add(1), seen([1, 99])], False, "unexpected"),
    "S9": ("set-full", [add(1), seen([1, 1])], False, "duplicated"),
    "S10": ("set-full", [add(1)], "unknown", "never-read"),
    "C1": ("counter", [during(add(2), seen(3))], False, ""),
    "C2": ("counter", [during(add(2, "info"), seen(2))], True, ""),
    "C3": ("counter", [during(add(2, "fail"), seen(2))], False, ""),
    "U1": ("unique-ids", [whole(0, "generate", 5), whole(1, "generate", 5)], False, "duplicate"),
}


def decided(model: str, steps: list[list[Step]]) -> Decided:
    history = ops(step for part in steps for step in part)
    (key,) = judge(models()[model], history, lambda: False).keys
    return key.decided


@pytest.mark.parametrize("name", VECTORS)
def test_each_has_its_verdict(name: str) -> None:
    model, steps, valid, called = VECTORS[name]
    found = decided(model, steps)
    assert found.valid is valid or found.valid == valid == "unknown", found
    assert not called or found.name == called


@pytest.mark.parametrize("name", [n for n, v in VECTORS.items() if v[2] is False])
def test_each_invalid_one_has_a_counterexample_that_is_called_the_same(name: str) -> None:
    """An add without the reads that show it, or a put without who took it, would be another one's
    fault: a value is kept with all that tell of it."""
    model, steps, _, _ = VECTORS[name]
    long = [*steps, *([put(50), take(50), put(51), drain([51])] if model == "total-queue" else [])]
    (key,) = judge(models()[model], ops(s for part in long for s in part), lambda: False).keys
    assert key.smallest is not None
    assert key.smallest.decided.name == key.decided.name
    assert len(key.smallest.begins) <= sum(len(part) for part in steps) // 2


def emptied(error: object) -> History:
    """A value put in, and a dequeue that failed after it."""
    done = list(ops([*put(1), *take(None, "fail")]).ops)
    return History([*done[:-1], msgspec.structs.replace(done[-1], error=error)])


def test_only_a_dequeue_that_says_that_nothing_was_there_is_an_end() -> None:
    """One that failed for another reason took nothing, and shows nothing."""
    total = models()["total-queue"]
    verdicts = {error: judge(total, emptied(error), lambda: False).valid
                for error in ("empty", "timeout", None)}  # fmt: skip
    assert verdicts == {"empty": False, "timeout": "unknown", None: "unknown"}
    assert decided("total-queue", [take(None), put(1)]).valid == "unknown"
