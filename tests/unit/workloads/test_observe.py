"""Observers' last questions: each until it is answered, and no longer than need be."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from generator_simulation import Simulated, after, simulate

from maxq.harness.contracts.generator import Context
from maxq.harness.generators import any_of, delay, reserve
from maxq.histories.observed import OBSERVE_CONTROLLER, OBSERVE_REPLICA, REPLICA_LOG
from maxq.histories.op import Op
from maxq.workloads.observe import (
    AGAIN_NS,
    ASKED_MAX,
    BACK_TIMES,
    NOT_LEADER,
    SOON_NS,
    Absent,
    Answered,
    Logs,
    Rounds,
)

MS_NS, SECOND_NS = 1_000_000, 1_000_000_000
C0, C1, B0 = (OBSERVE_CONTROLLER, "c0"), (OBSERVE_CONTROLLER, "c1"), (OBSERVE_REPLICA, "b0-0")
ALL = (C0, C1, B0)
Answer = Callable[[str, int], Any]  # node and how often it was asked -> kind, or an error


def asked(answer: Answer, *questions: tuple[str, str], threads: int = 4) -> Simulated:
    count: Counter[str] = Counter()

    def complete(ctx: Context, op: Op) -> Op:
        node = op.value["node"]
        count[node] += 1
        told = answer(node, count[node])
        kind = told if isinstance(told, str) else "fail"
        done = after(MS_NS, kind)(ctx, op)
        return done if isinstance(told, str) else msgspec.structs.replace(done, error=told)

    questions = questions or ALL
    return simulate(reserve((threads, Answered(questions))), concurrency=threads,
                    complete=complete)  # fmt: skip


def tries(seen: Simulated) -> Counter[str]:
    return Counter(op.value["node"] for op in seen.invocations)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_question_is_put_once_where_it_is_answered(threads: int) -> None:
    seen = asked(lambda node, n: "ok", threads=threads)
    assert [(op.f, op.value["node"]) for op in seen.invocations] == list(ALL)


def test_several_are_asked_at_a_time_but_nobody_twice() -> None:
    seen = asked(lambda node, n: "ok" if n > 2 else "fail")
    assert [op.type for op in seen.history[:3]] == ["invoke"] * 3
    open_: set[str] = set()
    nodes: dict[Any, str] = {}
    for op in seen.history:
        if op.type == "invoke":
            assert op.value["node"] not in open_
            nodes[op.process] = op.value["node"]
            open_.add(nodes[op.process])
        else:
            open_.remove(nodes.pop(op.process))


@pytest.mark.parametrize("kind", ["fail", "info"])
def test_who_does_not_answer_is_asked_again_after_a_while(kind: str) -> None:
    seen = asked(lambda node, n: "ok" if node != "c1" or n == 4 else kind)
    assert tries(seen) == {"c0": 1, "c1": 4, "b0-0": 1}
    times = [op.time for op in seen.invocations if op.value["node"] == "c1"]
    assert all(b - a == AGAIN_NS + MS_NS for a, b in pairwise(times))


def test_who_never_answers_is_given_up() -> None:
    seen = asked(lambda node, n: "fail" if node == "c1" else "ok")
    assert tries(seen) == {"c0": 1, "c1": ASKED_MAX, "b0-0": 1}


def test_that_a_controller_does_not_lead_is_an_answer() -> None:
    seen = asked(lambda node, n: [NOT_LEADER, "ask another"] if node == "c1" else "ok")
    assert tries(seen)["c1"] == 1
    other = asked(lambda node, n: ["SYSTEM_ERROR", "busy"] if node == "c1" else "ok")
    assert tries(other)["c1"] == ASKED_MAX


def test_one_that_waits_for_its_turn_holds_up_no_other() -> None:
    """On one thread: the others are asked while the first is not due yet."""
    seen = asked(lambda node, n: "ok" if node != "c0" or n > 1 else "fail", threads=1)
    nodes = [op.value["node"] for op in seen.invocations]
    assert nodes == ["c0", "c1", "b0-0", "c0"]


def test_answers_to_others_are_none_of_its_own() -> None:
    """Nor is what a retired process says later."""
    gen = Answered((C0,), (1,), ((3, 0),))
    ctx: Any = None
    for op in (Op("ok", 4, "send", None), Op("invoke", 3, OBSERVE_CONTROLLER, {"node": "c0"})):
        assert gen.update(ctx, op) is gen
    assert Answered(()).op(ctx) is None


def test_rounds_go_on_for_ever_and_ask_everybody_in_turn() -> None:
    seen = simulate(reserve((2, Rounds(ALL))), concurrency=2, complete=after(MS_NS, "fail"),
                    ops_max=9)  # fmt: skip
    assert [(op.f, op.value["node"]) for op in seen.invocations] == list(ALL * 3)


def observed(answers: Callable[[str, int], str], ops_max: int, rest_ns: int = 0) -> Simulated:
    """Rounds over three brokers, one question a second, and questions to those that are away."""

    def complete(ctx: Context, op: Op) -> Op:
        kind = answers(op.value["node"], op.time)
        return after(rest_ns if kind == "info" else MS_NS, kind)(ctx, op)

    brokers = tuple((OBSERVE_REPLICA, node) for node in ("b0-0", "b0-1", "b0-2"))
    gen = any_of(delay(SECOND_NS, Rounds(brokers)), Absent())
    return simulate(reserve((4, gen)), concurrency=4, complete=complete, ops_max=ops_max)


def test_a_broker_that_is_away_is_asked_sooner_until_it_has_been_back_for_a_while() -> None:
    """Others are asked in turn, as often as ever."""
    back_ns = 5 * SECOND_NS
    seen = observed(lambda node, at: "fail" if node == "b0-1" and at < back_ns else "ok", 60)
    at = [op.time for op in seen.invocations if op.value["node"] == "b0-1"]
    first = next(time for time in at if time >= back_ns)
    assert first - back_ns <= SOON_NS + MS_NS
    soon = [b for a, b in pairwise(at) if b - a < SECOND_NS]
    assert len([time for time in soon if time > back_ns]) >= BACK_TIMES
    assert soon[-1] < back_ns + 2 * BACK_TIMES * SOON_NS
    others = [op.time for op in seen.invocations if op.value["node"] == "b0-0"]
    assert {b - a for a, b in pairwise(others)} == {3 * SECOND_NS}


def test_a_silent_broker_occupies_one_observer_beside_those_in_turn() -> None:
    seen = observed(lambda node, at: "info" if node == "b0-1" else "ok", 40, 2 * SECOND_NS)
    others = [op.time for op in seen.invocations if op.value["node"] == "b0-0"]
    assert {b - a for a, b in pairwise(others)} == {3 * SECOND_NS}
    at = [op.time for op in seen.invocations if op.value["node"] == "b0-1"]
    assert len(at) > len(others)
    assert all(sum(a <= time < a + 2 * SECOND_NS for a in at) <= 2 for time in at)


@pytest.mark.parametrize(("epochs", "threads"), [(1, 1), (3, 1), (3, 4)])
def test_each_epoch_of_each_log_is_read_one_after_the_other(epochs: int, threads: int) -> None:
    def complete(ctx: Context, op: Op) -> Op:
        done = after(MS_NS)(ctx, op)
        return msgspec.structs.replace(done, ext={"more": op.value["at"] + 1 < epochs})

    seen = simulate(reserve((threads, Logs(("b0-0", "b0-1")))), concurrency=threads,
                    complete=complete)  # fmt: skip
    assert {op.f for op in seen.invocations} == {REPLICA_LOG}
    read = [(op.value["node"], op.value["at"]) for op in seen.invocations]
    assert read == [(node, at) for node in ("b0-0", "b0-1") for at in range(epochs)]
    assert [op.type for op in seen.history] == ["invoke", "ok"] * len(read)


@pytest.mark.parametrize("kind", ["fail", "info"])
def test_a_log_that_cannot_be_read_is_left_for_the_next(kind: str) -> None:
    seen = simulate(reserve((1, Logs(("b0-0", "b0-1")))), concurrency=1,
                    complete=after(MS_NS, kind))  # fmt: skip
    assert [op.value["node"] for op in seen.invocations] == ["b0-0", "b0-1"]
