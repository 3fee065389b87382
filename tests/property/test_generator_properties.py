"""Generators of random shape keep their promises, in virtual time and through the interpreter."""

import asyncio
from itertools import pairwise
from random import Random
from typing import Any, cast

from generator_simulation import Complete, simulate
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_recorder import MemoryRecorder

from maxq.harness import generators as gen
from maxq.harness.contracts.generator import Context
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome
from maxq.harness.run.interpreter import run
from maxq.harness.simulation.loop import Scheduler, SimLoop
from maxq.histories.op import Op

OPS_MAX = 150

templates = st.sampled_from(["read", "write", "cas"]).map(lambda f: {"f": f})
leaves = st.one_of(
    templates,
    templates.map(gen.repeat),
    templates.map(lambda made: [made] * 5),
    templates.map(lambda made: lambda: made),
    st.integers(0, 50).map(gen.sleep),
    st.sampled_from([None, gen.log("x")]),
)


def around(inner: st.SearchStrategy[gen.Source]) -> st.SearchStrategy[gen.Source]:
    few = st.lists(inner, min_size=1, max_size=3)
    count, gap = st.integers(1, 20), st.integers(0, 40)
    return st.one_of(
        few,
        few.map(lambda many: gen.mix(*many)),
        few.map(lambda many: gen.any_of(*many)),
        few.map(lambda many: gen.flip_flop(*many)),
        few.map(lambda many: gen.phases(*many)),
        few.map(lambda many: gen.reserve((1, many[0]), default=many[-1])),
        st.builds(gen.repeat, inner, count),
        st.builds(gen.cycle, inner, count),
        st.builds(gen.limit, count, inner),
        st.builds(gen.delay, gap, inner),
        st.builds(gen.stagger, gap, inner),
        st.builds(gen.time_limit, st.integers(1, 400), inner),
        st.builds(gen.process_limit, st.integers(1, 9), inner),
        inner.map(gen.each_thread),
        inner.map(gen.until_ok),
        inner.map(gen.synchronize),
        inner.map(lambda one: gen.clients(one)),
        inner.map(gen.validate),
    )


sources = st.recursive(leaves, around, max_leaves=8)


def answers(seed: int) -> Complete:
    """Random types, random latencies."""
    rng = Random(seed)

    def complete(ctx: Context, op: Op) -> Op:
        kind = rng.choice(["ok", "fail", "info"]) if isinstance(op.process, int) else "info"
        return Op(kind, op.process, op.f, op.value, None, -1, ctx.time + rng.randrange(30), None)  # type: ignore[arg-type]

    return complete


def simulated(source: gen.Source, seed: int, concurrency: int = 3) -> list[Op]:
    try:
        return simulate(
            source,
            concurrency=concurrency,
            seed=seed,
            complete=answers(seed),
            ops_max=OPS_MAX,
        ).history
    except ValueError as error:
        if "reserve needs" in str(error):
            return []
        raise


def assert_well_formed(history: list[Op]) -> None:
    """W1, W3 to W8 of docs/spec/history-format.md 7."""
    outstanding: dict[int | str, Op] = {}
    retired: set[int | str] = set()
    for i, op in enumerate(history):
        assert op.index == i
        assert op.process not in retired
        assert i == 0 or op.time >= history[i - 1].time
        if op.process in outstanding:
            assert outstanding.pop(op.process).f == op.f
            if isinstance(op.process, int):
                assert op.type != "invoke"
                if op.type == "info":
                    retired.add(op.process)
        else:
            assert op.type == ("invoke" if isinstance(op.process, int) else "info")
            outstanding[op.process] = op


def begun(history: list[Op], f: str = "") -> list[Op]:
    return [op for op in history if op.type == "invoke" and f in ("", op.f)]


@given(source=sources, seed=st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_histories_are_well_formed_and_repeat_from_their_seed(
    source: gen.Source, seed: int
) -> None:
    history = simulated(source, seed)

    assert_well_formed(history)
    assert simulated(source, seed) == history


@given(source=sources, count=st.integers(0, 8), seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_a_limit_is_never_exceeded(source: gen.Source, count: int, seed: int) -> None:
    history = simulated(gen.clients(gen.limit(count, source)), seed)

    assert len(begun(history)) <= count


@given(source=sources, limit_ns=st.integers(0, 100), seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_a_time_limit_is_respected(source: gen.Source, limit_ns: int, seed: int) -> None:
    # Sleeps may begin a time limit, so the first operation is made to.
    bounded = gen.time_limit(limit_ns, [{"f": "first"}, source])
    history = begun(simulated(gen.clients(bounded), seed))

    assert all(op.time - history[0].time < limit_ns for op in history)


@given(source=sources, most=st.integers(1, 8), seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_a_process_limit_is_respected(source: gen.Source, most: int, seed: int) -> None:
    history = simulated(gen.clients(gen.process_limit(most, source)), seed)

    assert len({op.process for op in history}) <= most


@given(first=st.integers(1, 3), second=st.integers(1, 3), seed=st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_reserve_partitions(first: int, second: int, seed: int) -> None:
    concurrency = first + second + 1
    source = gen.clients(
        gen.reserve(
            (first, gen.repeat({"f": "a"})),
            (second, gen.repeat({"f": "b"})),
            default=gen.repeat({"f": "c"}),
        )
    )

    for op in simulated(source, seed, concurrency):
        thread = int(op.process) % concurrency
        assert op.f == ("a" if thread < first else "b" if thread < first + second else "c")


@given(gap=st.integers(1, 100), seed=st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_a_delay_is_never_undercut(gap: int, seed: int) -> None:
    history = begun(simulated(gen.clients(gen.delay(gap, gen.repeat({"f": "w"}))), seed))

    assert all(b.time - a.time >= gap for a, b in pairwise(history))


class RandomClient:
    """Answers at random, after a random time."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    async def open(self) -> None:
        if self.rng.random() < 0.1:
            raise ConnectionError("refused")

    async def invoke(self, op: Op) -> Outcome:
        await asyncio.sleep(self.rng.randrange(30) / 1e9)
        outcomes: list[Outcome] = [Ok(op.value), Fail("no"), Info("who knows")]
        return self.rng.choice(outcomes)

    async def close(self) -> None:
        await asyncio.sleep(0)


def interpreted(source: gen.Source, seed: int) -> list[Op]:
    """The same through the interpreter, on a simulated loop without a network."""
    scheduler = Scheduler(seed)
    loop = SimLoop(scheduler, "client", cast(Any, None))
    recorder = MemoryRecorder()
    bounded = gen.time_limit(gen.SECOND_NS, gen.limit(OPS_MAX, source))
    task = loop.create_task(
        run(
            # The first operation starts the time limit, whatever the source is waiting for.
            gen.time_limit(gen.SECOND_NS, [{"f": "first", "process": 0}, bounded]),
            concurrency=3,
            client=lambda thread: RandomClient(scheduler.rng(f"client/{thread}")),
            nemesis=RandomClient(scheduler.rng("nemesis")),
            recorder=recorder,
            rng=scheduler.rng("generator"),
            now_ns=lambda: scheduler.now_ns,
        )
    )
    scheduler.run_until(task.done)
    error = task.exception()
    assert error is None or "reserve needs" in str(error)
    scheduler.close()
    return recorder.ops


@given(source=sources, seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_interpreted_histories_are_well_formed_and_repeat(source: gen.Source, seed: int) -> None:
    history = interpreted(source, seed)

    assert_well_formed(history)
    assert interpreted(source, seed) == history
