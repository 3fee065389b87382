"""Schedules as generators, in virtual time: which calls and acts begin when, and which never do."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from generator_simulation import Complete, Simulated, simulate

from maxq.harness.contracts.generator import PENDING, Context, Generator, Step, start_context
from maxq.harness.generators import any_of, clients, nemesis, phases, time_limit
from maxq.harness.schedule.format import (
    Act,
    Call,
    Header,
    Load,
    Schedule,
    ScheduleError,
    When,
    Who,
    decode,
    encode,
)
from maxq.harness.schedule.perform import LATE_NS, Aware, First, Started, acts, queue_calls, turns
from maxq.histories.fault_facts import BUILT_IN
from maxq.histories.observed import OBSERVE_CONTROLLER
from maxq.histories.op import NEMESIS, Op

SECOND_NS = 1_000_000_000
MS_NS = 1_000_000
SHARES = ((0, 2), (1, 3))  # of two readers
THREADS = 4


def answered(
    latency: Callable[[Op], int], types: Callable[[Op], str] = lambda op: "ok"
) -> Complete:
    """Each operation ends after `latency`, in seconds / 1000, as `types` says."""

    def complete(ctx: Context, op: Op) -> Op:
        kind = types(op) if isinstance(op.process, int) else "info"
        ended = ctx.time + latency(op) * MS_NS
        return msgspec.structs.replace(op, type=kind, time=ended, index=-1)

    return complete


AT_ONCE = answered(lambda op: 0)


def send(id_: str, at: float, thread: int = 2, value: int = 7, size: int = 0) -> Call:
    return Call(id=id_, at=at, thread=thread, value=[1, size, value])


def poll(id_: str, at: float, thread: int = 0) -> Call:
    return Call(id=id_, at=at, thread=thread, f="poll")


def played(*calls: Call, complete: Complete = AT_ONCE, shares: Any = SHARES) -> Simulated:
    made = queue_calls(Schedule(calls=calls), THREADS, shares)
    return simulate(clients(Started(made)), concurrency=THREADS, complete=complete)


def begun(seen: Simulated) -> list[tuple[int, int | str, str]]:
    """Milliseconds, process and kind of each operation."""
    return [(op.time // MS_NS, op.process, op.f) for op in seen.invocations]


def plain(ops: Sequence[Op]) -> list[Op]:
    """Operations without their places in the history."""
    return [msgspec.structs.replace(op, index=-1) for op in ops]


# Calls of the workload queue.


def test_calls_are_due_at_their_times_on_their_threads() -> None:
    seen = played(send("b", 2, thread=3), send("a", 0.5), send("c", 2, value=9, size=800))
    assert begun(seen) == [(500, 2, "send"), (2000, 2, "send"), (2000, 3, "send")]
    assert [(op.value, op.ext) for op in seen.invocations] == [
        ([["send", 1, 7]], None),
        ([["send", 1, 9]], {"size": 800}),
        ([["send", 1, 7]], None),
    ]


def test_times_count_from_the_first_question() -> None:
    """A main part begins when the inspection of the cluster is over."""
    made = queue_calls(Schedule(calls=(send("a", 1),)), THREADS, SHARES)
    source = clients(phases({"f": "inspect", "process": 0}, Started(made)))
    seen = simulate(source, concurrency=THREADS, complete=answered(lambda op: 300))
    assert begun(seen) == [(0, 0, "inspect"), (1300, 2, "send")]


@pytest.mark.parametrize(
    ("busy_ms", "at"),
    [
        (900, [0, 1000, 2000]),  # in time
        (1000 + LATE_NS // MS_NS, [0, 1250]),  # as late as can be
        (1001 + LATE_NS // MS_NS, [0, 2000]),  # left out
        (2100, [0, 2100]),
        (9000, [0]),
    ],
)
def test_what_a_busy_thread_missed_is_not_made_up_for(busy_ms: int, at: list[int]) -> None:
    calls = [send(f"c{n}", n) for n in range(3)]
    seen = played(*calls, complete=answered(lambda op: busy_ms))
    assert [time for time, _, _ in begun(seen)] == at


def test_a_busy_thread_holds_up_no_other() -> None:
    calls = [send("a", 0), send("b", 1), send("c", 1, thread=3), send("d", 2, thread=3)]
    seen = played(*calls, complete=answered(lambda op: 60_000 if op.process == 2 else 1))
    assert begun(seen) == [(0, 2, "send"), (1000, 3, "send"), (2000, 3, "send")]


def test_it_is_over_when_all_calls_are() -> None:
    assert begun(played()) == []
    made = queue_calls(Schedule(calls=(send("a", 1),)), THREADS, SHARES)(0)
    ctx = start_context(THREADS, Random(0))
    step = made.op(ctx)
    assert step is not None
    assert step[1].op(ctx) is None


def test_a_reader_is_told_what_to_read_before_it_polls() -> None:
    seen = played(poll("a", 1), poll("b", 2), poll("c", 1.5, thread=1))
    assert [(t, p, f) for t, p, f in begun(seen)] == [
        (1000, 0, "assign"), (1000, 0, "poll"), (1500, 1, "assign"), (1500, 1, "poll"),
        (2000, 0, "poll"),
    ]  # fmt: skip
    told = [(op.process, op.value) for op in seen.invocations if op.f == "assign"]
    assert told == [(0, [0, 2]), (1, [1, 3])]


def test_each_new_process_is_told_anew_and_a_refused_telling_is_repeated() -> None:
    kinds = iter(["fail", "ok", "info"])
    answers = answered(lambda op: 1, lambda op: next(kinds, "ok"))
    seen = played(*(poll(f"p{n}", n) for n in range(3)), complete=answers)
    assert begun(seen) == [
        (0, 0, "assign"), (1, 0, "assign"), (2, 0, "poll"), (1000, 4, "assign"), (1001, 4, "poll"),
        (2000, 4, "poll"),
    ]  # fmt: skip


def test_without_one_call_all_others_are_as_they_were() -> None:
    calls = [send(f"s{n}", n / 7, 2 + n % 2, n) for n in range(40)]
    calls += [poll(f"p{n}", n / 5, n % 2) for n in range(30)]
    whole = plain(played(*calls).invocations)
    fewer = plain(played(*(c for c in calls if c.id != "s17")).invocations)
    assert [op for op in whole if op.value != [["send", 1, 17]]] == fewer
    assert len(whole) == len(fewer) + 1


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (send("x", 1, thread=4), "x: no thread 4, there are 4"),
        (send("x", 1, thread=-1), "x: no thread -1"),
        (send("x", 1, thread=0), "x: thread 0 does no send"),
        (poll("x", 1, thread=2), "x: thread 2 does no poll"),
        (Call(id="x", at=1, thread=2, f="snd"), "x: thread 2 does no snd"),
        (Call(id="x", at=1, thread=2, value=[1, 2]), "a send needs .key, size, value., not"),
        (Call(id="x", at=1, thread=2), "a send needs"),
    ],
)
def test_calls_that_nobody_can_do_are_refused(call: Call, said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        queue_calls(Schedule(calls=(call,)), THREADS, SHARES)


def test_what_is_due_after_the_length_is_waited_for_and_never_done() -> None:
    """Not the end of all: others may have more to do, and are only busy."""
    script = Schedule(header=Header(length=2.0), calls=(send("a", 1), send("b", 2)))
    made = queue_calls(script, THREADS, SHARES)
    source = clients(time_limit(3 * SECOND_NS, any_of(Started(made), {"f": "w", "process": 0})))
    seen = simulate(source, concurrency=THREADS, complete=answered(lambda op: 3000))
    assert [(f, t) for t, _, f in begun(seen)] == [("w", 0), ("send", 1000)]


# Turns of other workloads.


class Dice(msgspec.Struct, frozen=True):
    """A workload whose every operation and every reaction is drawn."""

    thrown: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        drawn = ctx.rng.randrange(10**9)
        return Op("invoke", process, "roll", drawn, time=ctx.time), self

    def update(self, ctx: Context, event: Op) -> Generator:
        return Dice(ctx.rng.randrange(10**9)) if event.type == "ok" else self


def turn(id_: str, at: float, thread: int) -> Call:
    return Call(id=id_, at=at, thread=thread, f="turn", workload="dice")


def turned(*calls: Call, complete: Complete = AT_ONCE) -> list[Op]:
    made = turns(Schedule(calls=calls), "dice", Dice(), 0, 3)
    return plain(simulate(clients(Started(made)), concurrency=3, complete=complete).invocations)


def test_a_turn_is_its_threads_and_its_draws_are_its_own() -> None:
    calls = [turn(f"t{n}", n / 3, n % 3) for n in range(20)]
    whole = turned(*calls)
    assert [(op.time, op.process) for op in whole] == [
        (round(c.at * SECOND_NS), c.thread) for c in calls
    ]
    assert len({op.value for op in whole}) == 20
    for gone in (0, 7, 19):
        left = turned(*(c for n, c in enumerate(calls) if n != gone))
        assert left == [op for n, op in enumerate(whole) if n != gone]
    other = turned(*(msgspec.structs.replace(c, id=f"u{c.id}") for c in calls))
    assert not {op.value for op in other} & {op.value for op in whole}


def test_turns_of_a_busy_thread_are_left_out() -> None:
    calls = [*(turn(f"t{n}", n, 0) for n in range(4)), turn("u", 2.7, 1)]
    busy = answered(lambda op: 2500 if op.process == 0 else 0)
    assert [(op.time // MS_NS, op.process) for op in turned(*calls, complete=busy)] == [
        (0, 0), (2700, 1), (3000, 0),
    ]  # fmt: skip


def test_a_client_that_has_nothing_to_do_yet_misses_its_turn() -> None:
    class Later(Dice, frozen=True):
        def op(self, ctx: Context) -> Step | None:
            step = super().op(ctx)
            assert step is not None
            op: Any = step[0]
            return msgspec.structs.replace(op, time=max(ctx.time, 2 * SECOND_NS)), step[1]

    calls = [turn(f"t{n}", n, 0) for n in range(4)]
    made = turns(Schedule(calls=tuple(calls)), "dice", Later(), 0, 3)
    seen = simulate(clients(Started(made)), concurrency=3, complete=AT_ONCE).invocations
    assert [op.time // SECOND_NS for op in seen] == [2, 3]


@pytest.mark.parametrize("wrong", [turn("x", 1, 3), turn("x", 1, -1), Call(
    id="x", at=1, thread=0, workload="dice", value=[0, 0, 1])])  # fmt: skip
def test_turns_that_nobody_can_take_are_refused(wrong: Call) -> None:
    with pytest.raises(ScheduleError, match="x: dice has turns of threads 0 to 2, no"):
        turns(Schedule(calls=(wrong,)), "dice", Dice(), 0, 3)


# Acts of the nemesis.


def strike(id_: str, after: str = "", at: float = 0.0, **more: Any) -> Act:
    f = more.pop("f", "kill")
    when = When(after=after, at=at, within=more.pop("within", 20.0))
    return Act(id=id_, f=f, when=when, **more)


def struck(
    *given: Act, takes_ms: int = 100, told: Sequence[tuple[float, dict[str, Any]]] = ()
) -> list[tuple[int, str]]:
    """Milliseconds at which each act began, in their order. `told`: what an observer hears when."""
    script = decode(encode(Schedule(acts=given)))
    observed = [
        Call(id=f"o{n}", at=at, thread=2, value=[0, 0, n]) for n, (at, _) in enumerate(told)
    ]
    answers = {n: answer for n, (_, answer) in enumerate(told)}

    def complete(ctx: Context, op: Op) -> Op:
        done = answered(lambda o: takes_ms if o.process == NEMESIS else 0)(ctx, op)
        if op.f != OBSERVE_CONTROLLER:
            return done
        return msgspec.structs.replace(done, value={"sets": answers[op.value]})

    class Observer(msgspec.Struct, frozen=True):
        gen: Generator

        def op(self, ctx: Context) -> Step | None:
            step = self.gen.op(ctx)
            if step is None or not isinstance(step[0], Op):
                return step
            asks = msgspec.structs.replace(step[0], f=OBSERVE_CONTROLLER, value=step[0].value[0][2])
            return asks, Observer(step[1])

        def update(self, ctx: Context, event: Op) -> Generator:
            return Observer(self.gen.update(ctx, event))

    watch = Observer(queue_calls(Schedule(calls=tuple(observed)), THREADS, SHARES)(0))
    source = any_of(clients(watch), Aware(Started(acts(script, 3, BUILT_IN))))
    seen = simulate(time_limit(90 * SECOND_NS, source), concurrency=THREADS, complete=complete)
    return [(op.time // MS_NS, op.value) for op in seen.invocations if op.process == NEMESIS]


def view(epoch: int, set_epoch: int, members: int, master: str | None = "b0-0") -> dict[str, Any]:
    known = {"master": master, "master_epoch": epoch, "sync_state_set_epoch": set_epoch}
    return {"b0": {**known, "sync_state_set": list(range(members))}}


def test_acts_are_done_at_their_times_in_order() -> None:
    assert struck(strike("b", at=5), strike("a", at=1.5)) == [(1500, "a"), (5000, "b")]
    assert struck(strike("a", at=3), strike("b", at=3)) == [(3000, "a"), (3100, "b")]
    assert struck() == []


def test_an_act_after_another_counts_from_its_end() -> None:
    given = strike("c", at=2), strike("h", after="c", at=4), strike("g", after="h")
    assert struck(*given, takes_ms=700) == [(2000, "c"), (6700, "h"), (7400, "g")]


def test_acts_overlap_and_one_that_is_late_is_done_all_the_same() -> None:
    given = strike("a", at=1), strike("b", at=2), strike("h", after="a", at=5), strike("z", at=3)
    assert struck(*given) == [(1000, "a"), (2000, "b"), (3000, "z"), (6100, "h")]
    assert struck(*given, takes_ms=5000) == [
        (1000, "a"), (6000, "b"), (11000, "z"), (16000, "h"),
    ]  # fmt: skip


def test_what_an_act_says_beside_its_id() -> None:
    given = Act(id="a", f="pause", who=Who(part="broker", count=2), args={"x": 1})
    script = Schedule(acts=(given, Act(id="b", f="resume")))
    seen = simulate(nemesis(Started(acts(script, 3, BUILT_IN))), complete=AT_ONCE)
    first, second = seen.invocations
    assert (first.f, first.value, first.type) == ("pause", "a", "info")
    assert first.ext == {"who": {"part": "broker", "count": 2}, "args": {"x": 1}}
    assert (second.f, second.value, second.ext) == ("resume", "b", None)


HEARD = [
    (1.0, view(1, 1, 3)), (4.0, view(1, 2, 2)), (6.0, view(2, 3, 1, "b0-1")),
    (8.0, view(1, 4, 3)), (9.0, view(2, 4, 2, "b0-1")), (11.0, view(2, 5, 3, "b0-1")),
    (12.0, view(2, 6, 3, None)), (13.0, view(3, 7, 3, "b0-2")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("event", "at_ms"),
    [("set-shrank", 4000), ("new-epoch", 6000), ("set-grew", 9000), ("set-whole", 11000)],
)
def test_an_act_waits_for_what_observers_are_told(event: str, at_ms: int) -> None:
    """The first answer says how things are; an answer of an earlier epoch says nothing."""
    assert struck(strike("k", after=event, at=0.25), told=HEARD) == [(at_ms + 250, "k")]


def test_an_event_counts_from_the_end_of_the_act_before() -> None:
    given = strike("a", at=5), strike("b", after="set-shrank"), strike("c", after="new-epoch")
    assert struck(*given, told=HEARD) == [(5000, "a"), (6000, "b"), (13000, "c")]
    heal = strike("h", f="stop-partition", at=2), strike("k", after="healed", at=1)
    assert struck(*heal) == [(2000, "h"), (3100, "k")]
    other = strike("h", f="start-partition", at=2), strike("k", after="healed", within=4)
    assert struck(*other) == [(2000, "h"), (6100, "k")], "the begin of a cut heals nothing"


def test_an_event_that_never_comes_is_waited_for_no_longer() -> None:
    assert struck(strike("k", after="new-epoch", at=1, within=7)) == [(7000, "k")]
    assert struck(strike("k", after="new-epoch")) == [(20_000, "k")]
    given = strike("a", at=3), strike("k", after="new-epoch", within=5), strike("l", after="k")
    assert struck(*given) == [(3000, "a"), (8100, "k"), (8200, "l")]


def test_a_client_has_no_part_in_acts() -> None:
    """Their operations are the nemesis's, whoever else is free."""
    seen = simulate(
        Aware(Started(acts(Schedule(acts=(strike("a", at=1),)), 3, BUILT_IN))), concurrency=5
    )
    assert [(op.process, op.value) for op in seen.invocations] == [(NEMESIS, "a")]


# Together.


def test_the_randomness_of_a_scripted_run_is_none() -> None:
    rng = First()
    assert [rng.random(), rng.getrandbits(64), rng.randrange(9), rng.choice("abc")] == [
        0.0, 0, 0, "a",
    ]  # fmt: skip


def test_loads_are_performed_as_the_calls_that_they_stand_for() -> None:
    load = Load(id="l", until=3, rate=5, threads=(2, 3))
    as_load = queue_calls(Schedule(loads=(load,)), THREADS, SHARES)
    as_calls = queue_calls(Schedule(calls=Schedule(loads=(load,)).expanded()), THREADS, SHARES)
    one, other = (simulate(clients(Started(m)), concurrency=THREADS) for m in (as_load, as_calls))
    assert one.history == other.history
    assert len(one.invocations) == 15


def test_a_heal_that_waits_for_cuts_is_done_when_the_last_is_healed() -> None:
    """And not before its own time; other acts are not held up."""
    script = Schedule(
        acts=(
            Act(id="c", f="start-partition", when=When(at=1)),
            Act(id="d", f="start-partition", when=When(at=2)),
            Act(id="k", f="kill", when=When(at=3)),
            Act(id="s", f="start", when=When(after="k", at=1, uncut=True)),
            Act(id="p", f="pause", when=When(at=5)),
            Act(id="hc", f="stop-partition", when=When(at=6), who=Who(of="c")),
            Act(id="hd", f="stop-partition", when=When(at=8), who=Who(of="d")),
            Act(id="r", f="resume", when=When(at=9, uncut=True)),
        )
    )
    seen = simulate(nemesis(Started(acts(script, 3, BUILT_IN))), complete=AT_ONCE)
    done = [(op.value, op.time // 1_000_000_000) for op in seen.invocations]
    assert done == [
        ("c", 1),
        ("d", 2),
        ("k", 3),
        ("p", 5),
        ("hc", 6),
        ("hd", 8),
        ("s", 8),
        ("r", 9),
    ]
