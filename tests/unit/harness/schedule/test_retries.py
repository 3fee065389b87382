"""Producers that try another broker: which tries follow which answers, and where they go."""

import itertools
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.contracts.generator import Context, Generator, Roster, Step
from maxq.harness.schedule.retries import VALUE_BITS, Retrying, shunned_ms
from maxq.histories.op import Op
from maxq.workloads.queue import QUEUES, retries_of

REFUSED = ["SERVICE_NOT_AVAILABLE", "slave"]
SECOND_NS = 1_000_000_000
ANSWERS: dict[str, tuple[str, Any]] = {
    "ok": ("ok", None),
    "refused": ("fail", REFUSED),
    "not-sent": ("fail", ["not-sent", "connect"]),
    "no-route": ("fail", "no-route"),
    "lost": ("info", "connection-lost"),
    "stored": ("info", ["FLUSH_SLAVE_TIMEOUT", ""]),
    "late": ("info", "timeout"),
}


class Once(msgspec.Struct, frozen=True):
    """Sends so many messages to one queue."""

    key: int
    left: int

    def op(self, ctx: Context) -> Step | None:
        if not self.left:
            return None
        process = ctx.roster.processes[0]
        op = Op("invoke", process, "send", [["send", self.key, self.left]], time=ctx.time)
        return op, Once(self.key, self.left - 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


def performed(
    answers: list[str],
    *,
    sets: int,
    count: int,
    avoids: bool = False,
    messages: int = 1,
    key: int = 0,
) -> list[tuple[int, int, int]]:
    """The tries of one thread, each answered in turn, the last answer for good: (queue, message,
    number of the try)."""
    how = retries_of([f"b{s}" for s in range(sets) for _ in range(QUEUES)], count, avoids=avoids)
    assert how is not None
    gen: Generator = Retrying(Once(key, messages), how)
    process, now, tries = 0, 0, list[tuple[int, int, int]]()
    while True:
        roster = Roster((0,), (process,), dict.fromkeys(range(process + 1), 0))
        ctx = Context(now, Random(1), roster, 1, 1)
        step = gen.op(ctx)
        if step is None:
            return tries
        op, gen = step
        assert isinstance(op, Op)
        [[_, at, value]] = op.value
        tries.append((at, value & (1 << VALUE_BITS) - 1, (op.ext or {}).get("retry", 0)))
        assert value >> VALUE_BITS == tries[-1][2]
        gen = gen.update(ctx, op)
        kind, error = ANSWERS[answers[min(len(tries), len(answers)) - 1]]
        done = [["send", at, [7, value]]] if kind == "ok" else op.value
        now += 10_000_000
        gen = gen.update(
            ctx, msgspec.structs.replace(op, type=kind, error=error, value=done, time=now)
        )
        process += kind == "info"


@pytest.mark.parametrize("answer", sorted(ANSWERS))
def test_only_what_failed_at_once_is_tried_again(answer: str) -> None:
    tries = performed([answer, "ok"], sets=2, count=2)
    again = answer in ("refused", "not-sent", "no-route", "lost")
    assert tries == [(0, 1, 0), (2, 1, 1)][: 1 + again]


@given(st.integers(1, 4), st.integers(0, 5), st.integers(0, 7))
def test_each_try_goes_to_another_set_and_there_are_no_more_than_asked_for(
    sets: int, count: int, key: int
) -> None:
    key %= sets * QUEUES
    tries = performed(["refused"], sets=sets, count=count, avoids=not count, key=key)
    assert [number for _, _, number in tries] == list(range(count + 1))
    assert {message for _, message, _ in tries} == {1}
    for (before, _, _), (after, _, _) in itertools.pairwise(tries):
        assert before != after
        assert sets == 1 or before // QUEUES != after // QUEUES


def test_a_producer_keeps_away_from_a_set_that_failed_while_another_is_left() -> None:
    found = performed(["refused", "ok"], sets=2, count=1, avoids=True, messages=3)
    assert found == [(0, 3, 0), (2, 3, 1), (2, 2, 0), (2, 1, 0)]
    everywhere = performed(["refused"], sets=2, count=1, avoids=True, messages=2)
    assert everywhere == [(0, 2, 0), (2, 2, 1), (0, 1, 0), (2, 1, 1)]


def test_who_is_slow_is_kept_away_from_as_rocketmqs_tables_say() -> None:
    """``MQFaultStrategy``: latencyMax and notAvailableDuration."""
    assert [shunned_ms(n) for n in (549, 550, 1800, 3000, 5000, 15_000)] == [
        0, 2000, 5000, 6000, 10_000, 30_000
    ]  # fmt: skip
