"""What is made of operations, what is refused, and the context, by example."""

from collections import Counter
from random import Random

import msgspec
import pytest
from generator_simulation import Simulated, Stuck, after, simulate

from maxq.harness import generators as gen
from maxq.harness.contracts.generator import PENDING, Context, Generator, Sleep, Step, start_context
from maxq.histories.op import Op

W = {"f": "write"}
R = {"f": "read"}


def fs(seen: Simulated) -> list[str]:
    return [op.f for op in seen.invocations]


def at_once(source: gen.Source) -> Simulated:
    return simulate(source, complete=after(0))


def numbered(count: int) -> list[gen.Source]:
    return [{"f": "n", "value": i} for i in range(count)]


def test_map_with_and_without_context() -> None:
    def doubled(op: Op) -> Op:
        return msgspec.structs.replace(op, value=op.value * 2)

    def dated(op: Op, ctx: Context) -> Op:
        return msgspec.structs.replace(op, value=(op.value, ctx.time))

    source = gen.map_(dated, gen.map_(doubled, [gen.sleep(1), *numbered(3)]))

    values = [op.value for op in simulate(gen.clients(source), concurrency=1).invocations]

    assert values == [(0, 1), (2, 11), (4, 21)]


def test_f_map() -> None:
    assert fs(at_once(gen.f_map({"write": "w"}, W))) == ["w"]
    assert fs(at_once(gen.f_map(str.upper, [W, R]))) == ["WRITE", "READ"]
    with pytest.raises(ValueError, match=r"no new name for 'read'; have \['write'\]"):
        simulate(gen.f_map({"write": "w"}, R))


def test_filter() -> None:
    source = gen.filter_(lambda op: op.value % 2, [gen.log("x"), *numbered(5)])

    seen = at_once(source)

    assert [op.value for op in seen.invocations] == [1, 3]
    assert len(seen.specials) == 1


def test_a_filter_that_drops_everything_is_given_up() -> None:
    with pytest.raises(ValueError, match="100000 operations in a row"):
        simulate(gen.filter_(lambda op: False, gen.repeat(W)))


def test_on_update_may_become_something_else() -> None:
    def react(this: Generator, ctx: Context, event: Op) -> gen.Source:
        return gen.limit(2, gen.repeat(R)) if event.type == "ok" else this

    seen = simulate(gen.clients(gen.on_update(react, gen.repeat(W))), concurrency=2)

    assert fs(seen) == ["write", "write", "read", "read"]


@pytest.mark.parametrize(
    "around",
    [
        lambda inner: gen.repeat(inner, 3),
        lambda inner: gen.cycle(inner, 3),
        lambda inner: gen.limit(3, inner),
        lambda inner: gen.delay(1, inner),
        lambda inner: gen.stagger(1, inner),
        lambda inner: gen.time_limit(50, inner),
        lambda inner: gen.until_ok(inner),
        lambda inner: gen.flip_flop(inner, gen.repeat(R)),
        lambda inner: gen.mix(inner, gen.repeat(R)),
        lambda inner: gen.any_of(inner, gen.repeat(R)),
        lambda inner: gen.clients(inner),
        lambda inner: gen.each_thread(inner),
        lambda inner: gen.reserve((1, inner), default=inner),
        lambda inner: gen.process_limit(9, inner),
        lambda inner: gen.synchronize(inner),
        lambda inner: gen.map_(lambda op: op, inner),
        lambda inner: gen.filter_(lambda op: True, inner),
        lambda inner: gen.trace("t", lambda line: None, inner),
        lambda inner: gen.validate(inner),
        lambda inner: [inner, W],
    ],
)
def test_updates_reach_what_is_inside(around: object) -> None:
    heard: list[Op] = []

    def hear(this: Generator, ctx: Context, event: Op) -> gen.Source:
        heard.append(event)
        return gen.lift({"f": "changed"})

    wrapped: gen.Source = around(gen.on_update(hear, W))  # type: ignore[operator]
    ctx, source = start_context(2, Random(0)), gen.lift(wrapped)
    event = Op(type="invoke", process=0, f="x", time=0)

    after_it = source.update(ctx, event)

    assert heard == [event]
    assert after_it is not source


def test_trace_tells_everything() -> None:
    lines: list[str] = []

    simulate(gen.trace("here", lines.append, gen.clients(W)), concurrency=1)

    assert [line.split(":")[0] for line in lines] == [
        "here op at 0",
        "here update at 0",
        "here op at 0",
        "here update at 10",
        "here op at 10",
    ]


class Broken:
    """Gives whatever it is told to."""

    def __init__(self, step: object) -> None:
        self.step = step

    def op(self, ctx: Context) -> Step | None:
        return self.step  # type: ignore[return-value]

    def update(self, ctx: Context, event: Op) -> "Broken":
        return self


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (Op(type="invoke", process=0, f="w", time=9), "process 0 is not free"),
        (Op(type="invoke", process=7, f="w", time=9), "no thread runs process 7"),
        (Op(type="invoke", process=1, f="w", time=4), "time 4 is in the past, now is 5"),
        (Op(type="invoke", process=1, f="w", time=5.5), "time 5.5 is not a whole number"),  # type: ignore[arg-type]
        (Op(type="ok", process=1, f="w", time=9), "type is 'ok', not 'invoke'"),
        (Op(type="invoke", process="nemesis", f="w", time=9), "type is 'invoke', not 'info'"),
        (Op(type="invoke", process=1, f=None, time=9), "f is None"),  # type: ignore[arg-type]
        (Sleep(process=1, duration_ns=-3, time=9), "negative duration -3"),
        ("write", "neither an operation nor a sleep or log"),
    ],
)
def test_validate_names_what_is_wrong(given: object, named: str) -> None:
    ctx = start_context(2, Random(0)).at(5).begun(0)

    with pytest.raises(gen.IllFormed, match=named):
        gen.validate(Broken((given, gen.EMPTY))).op(ctx)


def test_validate_refuses_a_broken_step() -> None:
    for step in (3, (PENDING,), (PENDING, None)):
        with pytest.raises(gen.IllFormed, match="neither None nor an operation"):
            gen.validate(Broken(step)).op(start_context(2, Random(0)))


def test_validate_changes_nothing_else() -> None:
    assert fs(at_once(gen.validate([W, R]))) == ["write", "read"]


# The context, and the simulator itself


def test_context_shows_threads_and_processes() -> None:
    ctx = start_context(2, Random(0)).begun(1)

    assert ctx.free == (0, "nemesis")
    assert ctx.workers == {0: 0, 1: 1, "nemesis": "nemesis"}
    retired = ctx.ended(1).retired(1).retired("nemesis")
    assert retired.workers == {0: 0, 1: 3, "nemesis": "nemesis"}
    assert not retired.is_free(1)


def test_some_free_process_is_fair() -> None:
    ctx = start_context(3, Random(0)).begun(1)

    chosen = Counter(ctx.some_free_process() for _ in range(3000))

    assert set(chosen) == {0, 2, "nemesis"}
    assert min(chosen.values()) > 900
    assert ctx.only(0b010).some_free_process() is None


def test_negative_concurrency_is_refused() -> None:
    with pytest.raises(ValueError, match="concurrency is negative: -1"):
        start_context(-1, Random(0))


def test_waiting_for_nothing_is_stuck() -> None:
    with pytest.raises(Stuck, match="pending at 0"):
        simulate(Broken((PENDING, Broken((PENDING, gen.EMPTY)))))
