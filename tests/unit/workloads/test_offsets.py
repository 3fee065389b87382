"""The offsets workload: groups of one process that move on, and what is asked at the end."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from generator_simulation import Simulated, after, simulate

from maxq.harness.client.session import Source
from maxq.harness.contracts.generator import Context
from maxq.harness.contracts.outcome import Fail, Ok, Outcome
from maxq.harness.contracts.target import Topology, plan
from maxq.harness.generators import delay, reserve, time_limit
from maxq.histories.observed import COMMIT_OFFSET, FETCH_OFFSET, FINAL
from maxq.histories.op import Op
from maxq.workloads.offsets import (
    GAP_NS,
    LAST_NS,
    LAST_OFFSET,
    Commits,
    Last,
    OffsetClient,
    offsets_workload,
)

SECOND_NS, MS_NS = 1_000_000_000, 1_000_000


def numbered(kind: Callable[[int], str]) -> Callable[[Context, Op], Op]:
    """Answers by the number of the operation."""
    count = 0

    def complete(ctx: Context, op: Op) -> Op:
        nonlocal count
        count += 1
        return after(MS_NS, kind(count))(ctx, op)

    return complete


def last(asks: bool, kind: Callable[[int], str] = lambda n: "ok") -> Simulated:
    ending = time_limit(LAST_NS, reserve((1, Last(4, asks))))
    return simulate(ending, concurrency=1, complete=numbered(kind))


def moves(kind: Callable[[int], str], seconds: int = 60) -> Simulated:
    turns = delay(GAP_NS, Commits())  # as far apart as a run's schedule has them
    limited = time_limit(seconds * SECOND_NS, reserve((1, turns)))
    return simulate(limited, concurrency=1, complete=numbered(kind))


# The main part.


def test_a_group_moves_on_and_asks_where_it_is() -> None:
    ops = moves(lambda n: "ok").invocations
    commits = [op.value for op in ops if op.f == COMMIT_OFFSET]
    assert commits == [[0, offset] for offset in range(1, len(commits) + 1)]
    assert len(commits) > 30
    assert {op.value for op in ops if op.f == FETCH_OFFSET} == {0}
    assert len({b.time - a.time for a, b in pairwise(ops)}) == 1


def test_a_commit_that_nobody_knows_of_ends_its_group() -> None:
    """It may come late, and would undo a later one: another process has a key of its own."""
    ops = moves(lambda n: "info" if n % 7 == 0 else "ok").invocations
    by_key: dict[int, list[tuple[int, int]]] = {}
    for op in ops:
        if op.f == COMMIT_OFFSET:
            key, offset = op.value
            assert key == op.process
            by_key.setdefault(key, []).append((offset, op.time))
    assert len(by_key) > 10
    for offsets in by_key.values():
        assert [offset for offset, _ in offsets] == list(range(1, len(offsets) + 1))


@pytest.mark.parametrize("kind", ["fail", "info"])
def test_after_what_was_not_ok_a_thread_asks_until_it_is_answered(kind: str) -> None:
    """What a broker that took over knows is seen before anybody commits to it."""
    count = 0
    failing: list[bool] = []

    def complete(ctx: Context, op: Op) -> Op:
        nonlocal count
        count += 1
        failing.append(count % 7 < 2)
        return after(MS_NS, kind if failing[-1] else "ok")(ctx, op)

    turns = time_limit(60 * SECOND_NS, reserve((1, delay(GAP_NS, Commits()))))
    ops = simulate(turns, concurrency=1, complete=complete).invocations
    after_failure = [op for op, failed in zip(ops[1:], failing, strict=False) if failed]
    assert after_failure[1:]
    assert {op.f for op in after_failure} == {FETCH_OFFSET}


def test_any_process_of_a_thread_asks_for_any_of_its_groups() -> None:
    ops = moves(lambda n: "info" if n % 7 == 0 else "ok").invocations
    asked = [(op.process, op.value) for op in ops if op.f == FETCH_OFFSET]
    assert any(key != process for process, key in asked)
    committed = {op.value[0] for op in ops if op.f == COMMIT_OFFSET}
    assert {key for _, key in asked} <= committed


# The end.


def test_a_last_place_lies_beyond_all_others() -> None:
    [op] = last(asks=False).invocations
    assert (op.f, op.value) == (COMMIT_OFFSET, [0, LAST_OFFSET])


@pytest.mark.parametrize("kind", ["fail", "info"])
def test_it_is_committed_until_that_has_succeeded(kind: str) -> None:
    ops = last(False, lambda n: kind if n < 4 else "ok").invocations
    assert len(ops) == 4
    assert all(op.value == [op.process, LAST_OFFSET] for op in ops), "a group of its own each time"
    assert len({op.process for op in ops}) == (4 if kind == "info" else 1)
    assert len({b.time - a.time for a, b in pairwise(ops)}) == 1


def test_the_last_question_names_its_thread() -> None:
    [op] = last(asks=True).invocations
    assert (op.f, op.value, op.ext) == (FETCH_OFFSET, 0, {FINAL: 4})


@pytest.mark.parametrize("kind", ["fail", "info"])
def test_it_is_put_again_for_the_same_group(kind: str) -> None:
    """That of the process that committed, also when another one goes on with the thread."""
    ops = last(True, lambda n: kind if n < 4 else "ok").invocations
    assert [op.value for op in ops] == [0] * 4
    assert all(op.ext == {FINAL: 4} for op in ops)


@pytest.mark.parametrize("asks", [False, True])
def test_it_is_given_up_at_its_bound(asks: bool) -> None:
    ops = last(asks, lambda n: "fail").invocations
    assert LAST_NS - 2 * GAP_NS < ops[-1].time < LAST_NS


def test_the_workload_commits_before_the_fail_over_and_asks_after_it() -> None:
    class View:
        nodes = plan(Topology(broker_sets=2, spares=1))
        dial: Any = None

        def by_role(self, role: object) -> list[Any]:
            return [n for n in self.nodes if n.role is role]

    view: Any = View()
    none: Any = None
    made = offsets_workload(view, none, none, clients=3)
    for part, f in ((made.settling, COMMIT_OFFSET), (made.final_generator, FETCH_OFFSET)):
        seen = simulate(part, concurrency=3, complete=after(MS_NS)).invocations
        assert sorted(op.process for op in seen) == [0, 1, 2]
        assert {op.f for op in seen} == {f}
    asked = simulate(made.final_generator, concurrency=3, complete=after(MS_NS)).invocations
    assert {(op.ext or {})[FINAL] for op in asked} == {0, 1, 2}


def test_an_update_of_somebody_else_changes_nothing() -> None:
    begun = Op("invoke", 0, COMMIT_OFFSET, [0, 1], time=5)
    mine = Last(4, asks=False)
    ctx: Any = None
    assert mine.update(ctx, begun) is mine
    assert mine.update(ctx, msgspec.structs.replace(begun, type="ok")) != mine


class Brokers:
    """A session of which `leads` takes everything."""

    def __init__(self) -> None:
        self.leads: str | None = "b0-0"
        self.offset = 0

    def asked(self, queue: object) -> Source | None:
        return Source(self.leads, slave=False) if self.leads else None

    async def commit(self, queue: object, group: str, offset: int) -> Outcome:
        self.offset = offset
        return Ok(ext={"broker": self.leads}) if self.leads else Fail("no-route")

    async def fetch(self, queue: object, group: str) -> Outcome:
        return Ok(self.offset, ext={"broker": self.leads})


def test_a_broker_that_took_over_is_asked_before_it_is_given_more() -> None:
    async def run() -> None:
        session: Any = Brokers()
        client = OffsetClient(session, "b0")

        async def does(f: str, value: Any) -> Any:
            done = await client.invoke(Op("invoke", 3, f, value))
            return done.error if isinstance(done, Fail) else done.value

        assert await does(COMMIT_OFFSET, [3, 1]) == [3, 1]
        session.leads = None
        assert await does(COMMIT_OFFSET, [3, 2]) == "no-route"
        for asks in (True, False):
            session.leads = "b0-1" if asks else "b0-0"
            session.offset = 1
            assert await does(COMMIT_OFFSET, [3, 3]) == "broker-changed"
            if asks:
                assert await does(FETCH_OFFSET, 3) == [3, 1]
            assert await does(COMMIT_OFFSET, [3, 4]) == [3, 4]

    asyncio.run(run())
