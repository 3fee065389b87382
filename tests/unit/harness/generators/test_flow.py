"""How often, when, which and who, by example, in virtual time."""

from collections import Counter
from random import Random

import msgspec
import pytest
from generator_simulation import Simulated, after, simulate

from maxq.harness import generators as gen
from maxq.harness.contracts.generator import (
    PENDING,
    Context,
    Generator,
    Log,
    Sleep,
    Step,
    start_context,
)
from maxq.harness.generators.flow import soonest
from maxq.histories.op import Op

W = {"f": "write"}
R = {"f": "read"}


def fs(seen: Simulated) -> list[str]:
    return [op.f for op in seen.invocations]


def times(seen: Simulated) -> list[int]:
    return [op.time for op in seen.invocations]


def at_once(source: gen.Source, concurrency: int = 2) -> Simulated:
    return simulate(source, concurrency=concurrency, complete=after(0))


def numbered(count: int) -> list[gen.Source]:
    return [{"f": "n", "value": i} for i in range(count)]


def only(source: gen.Source, concurrency: int = 1) -> tuple[Context, Generator]:
    return start_context(concurrency, Random(0)), gen.lift(source)


# What stands for a generator


def test_nothing_is_exhausted() -> None:
    assert simulate(None).history == []
    assert simulate([]).history == []
    assert simulate([None, [], None]).history == []


def test_a_dict_is_one_operation() -> None:
    seen = simulate({"f": "write", "value": 3, "poll-ms": 7}, concurrency=1, seed=1)

    op = seen.invocations[0]
    assert (op.f, op.value, op.ext, op.time) == ("write", 3, {"poll-ms": 7}, 0)
    assert len(seen.invocations) == 1


def test_the_type_follows_the_process() -> None:
    history = simulate(gen.clients(W, {"f": "kill"})).history

    assert {(op.f, op.type) for op in history} == {
        ("write", "invoke"),
        ("write", "ok"),
        ("kill", "info"),
    }


@pytest.mark.parametrize("bad", [{}, {"f": 3}, {"f": "w", "index": 1}])
def test_a_dict_that_is_no_operation_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"needs f|recorder's"):
        gen.lift(bad)


def test_an_operation_keeps_its_process_and_waits_for_it() -> None:
    one = Op(type="invoke", process=1, f="write")

    seen = simulate([one, one], concurrency=3)

    assert [(op.process, op.time) for op in seen.invocations] == [(1, 0), (1, 10)]


def test_an_operation_of_a_process_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="no thread runs process 9 of 'write'"):
        simulate(Op(type="invoke", process=9, f="write"))


def test_a_dict_may_name_its_time() -> None:
    assert times(simulate([W | {"time": 500}, W])) == [500, 500]


def test_functions_are_called_until_none() -> None:
    left = [3, 2, 1]

    def pop() -> gen.Source:
        return {"f": "pop", "value": left.pop()} if left else None

    seen = simulate(gen.clients(pop), concurrency=1)

    assert [op.value for op in seen.invocations] == [1, 2, 3]


def test_functions_may_take_the_context_and_return_anything() -> None:
    def two(ctx: Context) -> gen.Source:
        return [{"f": "a", "value": ctx.time}, [{"f": "b"}]] if ctx.time < 20 else None

    seen = simulate(gen.clients(two), concurrency=1)

    assert [(op.f, op.value) for op in seen.invocations] == [("a", 0), ("b", None)]


def test_a_default_argument_is_the_functions_own() -> None:
    seen = at_once(gen.limit(2, lambda n=7: {"f": "n", "value": n}))

    assert [op.value for op in seen.invocations] == [7, 7]


def test_a_function_is_not_called_while_nobody_is_free() -> None:
    calls = []

    def called() -> gen.Source:
        calls.append(1)
        return W

    ctx, source = only(called)
    busy = ctx.begun(0).begun("nemesis")

    assert source.op(busy) == (PENDING, source)
    assert calls == []


def test_a_function_without_operations_is_given_up() -> None:
    with pytest.raises(ValueError, match="1000 results without an operation"):
        simulate(lambda: [[], None])


def test_what_stands_for_nothing_is_refused() -> None:
    for bad in ("write", 3):
        with pytest.raises(TypeError, match="not a generator"):
            gen.lift(bad)  # type: ignore[arg-type]


def test_lists_go_one_after_the_other() -> None:
    seen = at_once(gen.concat(numbered(2), [], None, W, [[R]]))

    assert fs(seen) == ["n", "n", "write", "read"]


# How often


def test_repeat() -> None:
    assert fs(at_once(gen.repeat([W, R], 3))) == ["write"] * 3
    assert len(at_once(gen.limit(7, gen.repeat(W))).invocations) == 7
    assert fs(at_once(gen.repeat(None))) == []


def test_cycle() -> None:
    assert fs(at_once(gen.cycle([W, R], 2))) == ["write", "read"] * 2
    assert fs(at_once(gen.limit(5, gen.cycle([W, R])))) == ["write", "read"] * 2 + ["write"]
    assert fs(at_once(gen.cycle(None))) == []


def test_limit_and_once() -> None:
    assert len(at_once(gen.limit(3, gen.repeat(W))).invocations) == 3
    assert len(at_once(gen.limit(3, W)).invocations) == 1
    assert len(at_once(gen.limit(0, W)).invocations) == 0
    assert len(at_once(gen.once(gen.repeat(W))).invocations) == 1


@pytest.mark.parametrize("make", [gen.repeat, gen.cycle])
def test_negative_counts_are_refused(make: object) -> None:
    with pytest.raises(ValueError, match="negative count: -1"):
        make(W, -1)  # type: ignore[operator]


def test_pending_does_not_use_up_a_limit() -> None:
    ctx, source = only(gen.limit(1, gen.clients(W)))
    waiting = source.op(ctx.begun(0))
    assert waiting is not None
    assert waiting[0] is PENDING

    step = waiting[1].op(ctx)

    assert step is not None
    assert isinstance(step[0], Op)


def test_until_ok() -> None:
    answers = iter(["fail", "info", "ok", "ok", "ok"])

    def complete(ctx: Context, op: Op) -> Op:
        done = after(10)(ctx, op)
        return msgspec.structs.replace(done, type=next(answers))

    source = gen.clients(gen.until_ok(gen.repeat(W)))

    types = [op.type for op in simulate(source, concurrency=1, complete=complete).history]

    assert types == ["invoke", "fail", "invoke", "info", "invoke", "ok"]


def test_until_ok_counts_only_its_own_operations() -> None:
    tries = gen.until_ok(gen.repeat({"f": "try"}))
    source = gen.clients(gen.any_of(gen.limit(20, gen.repeat(R)), gen.limit(20, tries)))

    def complete(ctx: Context, op: Op) -> Op:
        return after(10, "fail" if op.f == "try" else "ok")(ctx, op)

    seen = simulate(source, concurrency=3, complete=complete)

    assert Counter(fs(seen)) == {"read": 20, "try": 20}


def test_until_ok_takes_no_credit_for_what_follows_a_sleep() -> None:
    ctx, source = only(gen.until_ok([gen.sleep(5), W]))
    step = source.op(ctx)
    assert step is not None
    slept, rest = step
    assert isinstance(slept, Sleep)

    somebody = Op(type="ok", process=slept.process, f="read", time=9)

    assert rest.update(ctx, somebody).op(ctx) is not None


# When


def test_delay_is_exact() -> None:
    assert times(at_once(gen.delay(7, numbered(4)))) == [0, 7, 14, 21]


def test_a_late_operation_delays_those_after_it() -> None:
    seen = simulate(gen.clients(gen.delay(7, numbered(4))), concurrency=1, complete=after(10))

    assert times(seen) == [0, 10, 20, 30]


def test_stagger_is_uniform_over_all_threads() -> None:
    seen = at_once(gen.limit(3000, gen.stagger(1000, gen.repeat(W))), concurrency=5)
    gaps = [b - a for a, b in zip(times(seen), times(seen)[1:], strict=False)]

    assert times(seen)[0] == 0
    assert 0 <= min(gaps) < 50
    assert 1950 < max(gaps) < 2000
    assert 960 < sum(gaps) / len(gaps) < 1040


def test_time_limit_counts_from_the_first_operation() -> None:
    late = [gen.sleep(1000), gen.time_limit(30, gen.delay(10, gen.repeat(W)))]

    assert times(simulate(gen.clients(late), concurrency=1, complete=after(0))) == [
        1000,
        1010,
        1020,
    ]


def test_time_limit_ends_what_is_pending() -> None:
    ctx, source = only(gen.time_limit(30, [W, gen.synchronize(W)]))
    step = source.op(ctx)
    assert step is not None
    busy = ctx.begun(0)

    waiting = step[1].op(busy.at(29))

    assert waiting is not None
    assert waiting[0] is PENDING
    assert waiting[1].op(busy.at(30)) is None


def test_negative_durations_are_refused() -> None:
    for make in (gen.delay, gen.stagger, gen.time_limit):
        with pytest.raises(ValueError, match="negative duration: -1 ns"):
            make(-1, W)


# Which


def test_flip_flop_ends_with_the_first_to_end() -> None:
    source = gen.flip_flop(numbered(2), gen.repeat(R))

    assert fs(at_once(source)) == ["n", "read", "n", "read"]
    assert fs(at_once(gen.flip_flop())) == []


def test_flip_flop_waits_for_its_turn() -> None:
    source = gen.flip_flop(gen.on_threads({0}, gen.repeat(W)), gen.on_threads({1}, numbered(2)))

    assert fs(simulate(source)) == ["write", "n", "write", "n", "write"]


def test_mix_is_fair_and_outlives_its_parts() -> None:
    source = gen.mix(gen.repeat(W), gen.repeat(R), numbered(3))

    counts = Counter(fs(at_once(gen.limit(2000, source))))

    assert counts["n"] == 3
    assert 900 < counts["write"] < 1100
    assert fs(at_once(gen.mix())) == []


def test_mix_passes_over_what_is_pending() -> None:
    ctx, source = only(
        gen.mix(gen.on_threads({0}, gen.repeat(W)), gen.on_threads({1}, gen.repeat(R))), 2
    )

    for _ in range(20):
        step = source.op(ctx.begun(0))
        assert step is not None
        op, source = step
        assert isinstance(op, Op)
        assert op.f == "read"
    assert source.op(ctx.begun(0).begun(1)) is not None  # pending, not exhausted


def test_any_of_picks_the_soonest() -> None:
    late = gen.delay(100, [W, W])
    source = gen.any_of(late, gen.delay(30, numbered(5)))

    assert sorted(zip(times(at_once(source)), fs(at_once(source)), strict=True)) == [
        (0, "n"),
        (0, "write"),
        (30, "n"),
        (60, "n"),
        (90, "n"),
        (100, "write"),
        (120, "n"),
    ]


def test_any_of_prefers_an_operation_to_a_pending_one() -> None:
    source = gen.any_of(gen.synchronize(gen.repeat(W)), gen.clients(gen.limit(4, gen.repeat(R))))

    assert len(simulate(gen.limit(8, source)).invocations) == 8
    assert fs(at_once(gen.any_of())) == []


def test_ties_are_broken_by_weight() -> None:
    rng = Random(1)
    one, two, late = (
        (Op(type="invoke", process=i, f="w", time=time), gen.EMPTY)
        for i, time in enumerate([5, 5, 6])
    )
    steps: list[Step | None] = [None, (PENDING, gen.EMPTY), one, late, two]

    chosen = Counter(
        found[0] for _ in range(4000) if (found := soonest(steps, [9, 9, 1, 9, 3], rng))
    )

    assert set(chosen) == {2, 4}
    assert 2850 < chosen[4] < 3150
    assert soonest([None, steps[1]], [1, 1], rng) == (1, steps[1])
    assert soonest([None, None], [1, 1], rng) is None


# Who


def test_on_threads() -> None:
    for threads in ({0, 2}, lambda thread: thread in (0, 2)):
        seen = simulate(gen.limit(50, gen.on_threads(threads, gen.repeat(W))), concurrency=4)
        assert {op.process for op in seen.invocations} == {0, 2}
    assert simulate(gen.on_threads({7}, W)).history == []


def test_clients_and_nemesis_go_side_by_side() -> None:
    seen = simulate(gen.clients(gen.limit(4, gen.repeat(W)), gen.limit(2, gen.repeat({"f": "k"}))))
    same = simulate(gen.nemesis(gen.limit(2, gen.repeat({"f": "k"})), gen.limit(4, gen.repeat(W))))

    for found in (seen, same):
        who = Counter((op.f, isinstance(op.process, int)) for op in found.invocations)
        assert who == {("write", True): 4, ("k", False): 2}


def test_each_thread_has_a_copy_and_a_context_of_its_own() -> None:
    views = []

    def view(ctx: Context) -> gen.Source:
        views.append(ctx.workers)
        return W

    seen = simulate(gen.each_thread(gen.limit(2, view)), concurrency=3)

    assert Counter(op.process for op in seen.invocations) == {0: 2, 1: 2, 2: 2, "nemesis": 2}
    assert all(len(view) == 1 for view in views)


def test_each_thread_hears_of_its_own_thread_only() -> None:
    heard: list[tuple[Context, Op]] = []

    def hear(this: Generator, ctx: Context, event: Op) -> gen.Source:
        heard.append((ctx, event))
        return this

    simulate(gen.each_thread(gen.on_update(hear, [W, W])), concurrency=2)

    assert len(heard) == 12
    assert all(list(ctx.workers.values()) == [event.process] for ctx, event in heard)


def test_each_thread_goes_on_after_a_process_retires() -> None:
    source = gen.clients(gen.each_thread([W, W]))

    seen = simulate(source, concurrency=2, complete=after(10, "info"))

    assert sorted(op.process for op in seen.invocations if isinstance(op.process, int)) == [
        0,
        1,
        2,
        3,
    ]


def test_each_thread_waits_for_the_busy() -> None:
    ctx, source = only(gen.clients(gen.each_thread([W, R])))
    step = source.op(ctx)
    assert step is not None

    waiting = step[1].op(ctx.begun(0))

    assert waiting is not None
    assert waiting[0] is PENDING


def test_each_thread_takes_the_soonest() -> None:
    source = gen.clients(gen.each_thread(lambda ctx: W | {"time": 100 - 10 * ctx.free[0]}))

    assert times(simulate(gen.limit(1, source), concurrency=4)) == [70]


def test_reserve_partitions_the_threads_that_are_here() -> None:
    def busy(name: str) -> gen.Source:
        return gen.repeat({"f": name})

    inner = gen.reserve((2, busy("a")), (1, busy("b")), default=busy("c"))
    source = gen.on_threads({1, 2, 3, 4, 5}, inner)

    seen = simulate(gen.limit(300, source), concurrency=6)

    where: dict[str, set[int | str]] = {}
    for op in seen.invocations:
        where.setdefault(op.f, set()).add(op.process)
    assert where == {"a": {1, 2}, "b": {3}, "c": {4, 5}}


def test_reserve_refuses_too_few_threads() -> None:
    with pytest.raises(ValueError, match="reserve needs 5 threads, there are 3"):
        simulate(gen.clients(gen.reserve((5, W))), concurrency=3)
    with pytest.raises(ValueError, match="at least one thread"):
        gen.reserve((0, W))


def test_reserve_without_a_rest_ends_with_its_ranges() -> None:
    assert fs(simulate(gen.clients(gen.reserve((2, W), default=R)))) == ["write"]


def test_reserve_tells_each_range_of_its_own() -> None:
    heard: list[tuple[str, int | str]] = []

    def ear(name: str) -> gen.Source:
        def hear(this: Generator, ctx: Context, event: Op) -> gen.Source:
            heard.append((name, event.process))
            return this

        return gen.on_update(hear, gen.limit(3, gen.repeat({"f": name})))

    simulate(gen.clients(gen.reserve((1, ear("a")), default=ear("b"))), concurrency=2)

    assert Counter(heard) == {("a", 0): 6, ("b", 1): 6}


def test_process_limit_counts_the_processes_there_could_be() -> None:
    source = gen.clients(gen.process_limit(5, gen.repeat(W)))

    seen = simulate(source, concurrency=3, complete=after(10, "info"))

    # Three at first, and two that took over; a sixth passes the limit, whoever would be next.
    assert {op.process for op in seen.history if op.type == "info"} <= set(range(9))
    assert len({op.process for op in seen.invocations}) <= 5
    assert len(seen.invocations) >= 3


def test_synchronize_waits_for_everybody() -> None:
    seen = simulate(gen.phases([W, W], [R, R]), concurrency=4)

    assert [(op.f, op.time) for op in seen.invocations] == [
        ("write", 0),
        ("write", 0),
        ("read", 10),
        ("read", 10),
    ]


def test_then_comes_after() -> None:
    assert fs(simulate(gen.then([W, W], R), concurrency=4)) == ["write", "write", "read"]
    assert times(simulate(gen.then(W, R))) == [0, 10]


def test_a_sleep_between_phases_is_a_pause_for_all() -> None:
    seen = simulate(gen.phases(W, gen.sleep(100), gen.log("go"), R))

    assert times(seen) == [0, 110]
    assert [type(special) for special in seen.specials] == [Sleep, Log]
    assert [special.time for special in seen.specials] == [10, 110]
    assert fs(seen) == ["write", "read"]
