"""The interpreter on real loops, with small numbers and no waiting to speak of."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from memory_recorder import MemoryRecorder

from maxq.harness import generators as gen
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Info, Ok, Outcome
from maxq.harness.run import interpreter
from maxq.harness.run.interpreter import TooManyOperations, run
from maxq.histories.history import History
from maxq.histories.op import Op

W = {"f": "write", "value": 1}
MS = 1_000_000


class Scripted:
    """A client whose answers are a function of the operation; it notes what is done to it."""

    def __init__(self, answer: Callable[[Op], Any], notes: list[str], name: str) -> None:
        self.answer = answer
        self.notes = notes
        self.name = name

    async def open(self) -> None:
        self.notes.append(f"open {self.name}")

    async def invoke(self, op: Op) -> Outcome:
        found = self.answer(op)
        if isinstance(found, Coroutine):
            found = await found
        if isinstance(found, BaseException):
            raise found
        return found  # type: ignore[no-any-return]

    async def close(self) -> None:
        self.notes.append(f"close {self.name}")


class World:
    """A run with scripted clients."""

    def __init__(
        self,
        answer: Callable[[Op], Any] = lambda op: Ok(),
        faults: Callable[[Op], Any] | None = None,
    ) -> None:
        self.answer = answer
        self.faults = faults
        self.recorder = MemoryRecorder()
        self.notes: list[str] = []
        self.said: list[str] = []

    def client(self, thread: int) -> Client:
        return Scripted(self.answer, self.notes, str(thread))

    async def go(self, source: gen.Source, concurrency: int = 1, **more: Any) -> list[Op]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        faults = None if self.faults is None else Scripted(self.faults, self.notes, "nemesis")
        arguments: dict[str, Any] = {
            "concurrency": concurrency,
            "client": self.client,
            "nemesis": faults,
            "recorder": self.recorder,
            "rng": Random(0),
            "now_ns": lambda: int((loop.time() - began) * 1e9),
            "say": self.said.append,
        }
        await run(source, **(arguments | more))
        return self.recorder.ops

    def run(self, source: gen.Source, concurrency: int = 1, **more: Any) -> list[Op]:
        return asyncio.run(self.go(source, concurrency, **more))


def told(ops: list[Op]) -> list[tuple[Any, ...]]:
    return [(op.index, op.type, op.process, op.f, op.value, op.error) for op in ops]


def test_records_invocations_and_completions() -> None:
    world = World(lambda op: Ok(op.value + 1, {"broker": "b0"}))

    ops = world.run(gen.clients([W | {"poll-ms": 5}, W]))

    assert told(ops) == [
        (0, "invoke", 0, "write", 1, None),
        (1, "ok", 0, "write", 2, None),
        (2, "invoke", 0, "write", 1, None),
        (3, "ok", 0, "write", 2, None),
    ]
    assert [op.ext for op in ops] == [
        {"poll-ms": 5},
        {"poll-ms": 5, "broker": "b0"},
        None,
        {"broker": "b0"},
    ]
    assert sorted(op.time for op in ops) == [op.time for op in ops]
    assert world.notes == ["open 0", "close 0"]


def test_clients_see_what_was_recorded() -> None:
    world = World()
    seen: list[Op] = []
    world.answer = lambda op: seen.append(op) or Ok()  # type: ignore[func-returns-value]

    ops = world.run(gen.clients([W, W]))

    assert seen == [ops[0], ops[2]]


def test_fail_keeps_the_value_and_the_process() -> None:
    ops = World(lambda op: Fail(["refused", 3])).run(gen.clients([W, W]))

    assert told(ops)[1:3] == [
        (1, "fail", 0, "write", 1, ["refused", 3]),
        (2, "invoke", 0, "write", 1, None),
    ]


def test_info_retires_the_process_and_its_client() -> None:
    """docs/spec/history-format.md 4: thread t goes on as p + concurrency, with a fresh client."""
    answers = {0: Info("timeout"), 2: Info("timeout", value=[1, 7]), 4: Ok(5)}
    world = World(lambda op: answers[op.process])  # type: ignore[index]

    ops = world.run(gen.on_threads({0}, [W, W, W]), concurrency=2)

    assert told(ops) == [
        (0, "invoke", 0, "write", 1, None),
        (1, "info", 0, "write", 1, "timeout"),
        (2, "invoke", 2, "write", 1, None),
        (3, "info", 2, "write", [1, 7], "timeout"),
        (4, "invoke", 4, "write", 1, None),
        (5, "ok", 4, "write", 5, None),
    ]
    assert world.notes == ["open 0", "close 0"] * 3


def test_a_client_may_end_its_process() -> None:
    world = World(lambda op: Ok(1, {"end-process?": True}))

    ops = world.run(gen.clients([W, W]))

    assert [op.process for op in ops] == [0, 0, 1, 1]
    assert world.notes == ["open 0", "close 0"] * 2


def test_an_exception_is_indeterminate() -> None:
    ops = World(lambda op: AssertionError("ouch")).run(gen.clients([W, W]))

    assert told(ops)[1] == (1, "info", 0, "write", 1, "indeterminate: AssertionError: ouch")
    assert ops[1].ext is not None
    assert ops[1].ext["exception"]["via"] == [{"type": "AssertionError", "message": "ouch"}]
    assert all("/" not in line for line in ops[1].ext["exception"]["trace"])
    assert ops[2].process == 1


def test_a_cancelled_future_inside_of_a_client_is_indeterminate() -> None:
    async def dropped() -> Outcome:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        return Ok()

    ops = World(lambda op: dropped()).run(gen.clients([W, W]))

    assert [op.type for op in ops] == ["invoke", "info"] * 2
    assert ops[1].error == "indeterminate: cancelled inside of the client"


def test_a_cancelled_future_while_opening_or_closing_ends_nothing() -> None:
    class Dropping(Scripted):
        async def open(self) -> None:
            await super().open()
            if len(self.notes) == 1:
                raise asyncio.CancelledError

        async def close(self) -> None:
            await super().close()
            raise asyncio.CancelledError

    world = World()

    ops = world.run(
        gen.clients([W, W]), client=lambda thread: Dropping(lambda op: Ok(2), world.notes, "0")
    )

    assert [(op.type, op.error) for op in ops[1::2]] == [
        ("fail", ["no-client", "CancelledError: "]),
        ("ok", None),
    ]
    assert world.said == ["client of thread 0 not closed: CancelledError: "] * 2


def test_an_answer_that_is_no_outcome_is_indeterminate() -> None:
    ops = World(lambda op: None).run(gen.clients(W))

    assert ops[1].type == "info"
    assert ops[1].error == "indeterminate: the client answered None, which is not an outcome"


def test_without_a_client_operations_fail() -> None:
    """docs/spec/history-format.md 4: nothing was attempted, so the process goes on."""

    class Shut(Scripted):
        async def open(self) -> None:
            await super().open()
            if len(self.notes) < 4:
                raise ConnectionRefusedError("no route")

    world = World()

    ops = world.run(
        gen.clients([W, W, W]), client=lambda thread: Shut(lambda op: Ok(9), world.notes, "0")
    )

    refused = ["no-client", "ConnectionRefusedError: no route"]
    assert told(ops) == [
        (0, "invoke", 0, "write", 1, None),
        (1, "fail", 0, "write", 1, refused),
        (2, "invoke", 0, "write", 1, None),
        (3, "fail", 0, "write", 1, refused),
        (4, "invoke", 0, "write", 1, None),
        (5, "ok", 0, "write", 9, None),
    ]
    assert world.notes == ["open 0", "close 0"] * 3


def test_a_factory_that_raises_is_no_client() -> None:
    def make(thread: int) -> Client:
        raise OSError("no sockets")

    ops = World().run(gen.clients(W), client=make)

    assert ops[1].error == ["no-client", "OSError: no sockets"]


def test_the_nemesis_is_always_info_and_never_retires() -> None:
    """docs/spec/history-format.md 5."""
    answers = iter([Ok("killed"), Fail("no"), Info("who knows"), RuntimeError("ouch")])
    world = World(faults=lambda op: next(answers))

    ops = world.run(gen.nemesis(gen.limit(4, gen.repeat({"f": "kill", "value": "one"}))))

    assert {(op.type, op.process) for op in ops} == {("info", "nemesis")}
    assert [(op.value, op.error) for op in ops[1::2]] == [
        ("killed", None),
        ("one", "no"),
        ("one", "who knows"),
        ("one", "indeterminate: RuntimeError: ouch"),
    ]
    assert world.notes == ["open nemesis", "close nemesis"]


def test_without_a_nemesis_its_operations_say_so() -> None:
    ops = World().run(gen.nemesis({"f": "kill"}))

    assert told(ops)[1] == (
        1,
        "info",
        "nemesis",
        "kill",
        None,
        ["no-client", "LookupError: this run has no nemesis"],
    )


def test_sleeps_and_logs_are_not_recorded() -> None:
    world = World()
    updates: list[Op] = []

    def hear(this: Generator, ctx: Context, event: Op) -> gen.Source:
        updates.append(event)
        return this

    source = gen.on_update(hear, gen.clients([gen.log("hello"), gen.sleep(5 * MS), W]))

    ops = world.run(source)

    assert world.said == ["hello"]
    assert len(ops) == 2
    assert ops[0].time >= 5 * MS
    assert updates == ops


def test_updates_come_in_recorded_order() -> None:
    world = World(lambda op: Ok() if op.index % 3 else Info("lost"))
    updates: list[Op] = []
    contexts: list[Context] = []

    def hear(this: Any, ctx: Context, event: Op) -> gen.Source:
        updates.append(event)
        contexts.append(ctx)
        return gen.on_update(hear, this.gen.update(ctx, event))

    ops = world.run(gen.on_update(hear, gen.clients(gen.limit(40, gen.repeat(W)))), concurrency=4)

    assert updates == ops
    assert all(ctx.knows(event.process) for ctx, event in zip(contexts, updates, strict=True))
    assert all(
        ctx.is_free(event.process) is (event.type != "invoke")
        for ctx, event in zip(contexts, updates, strict=True)
    )


def test_a_future_operation_waits_for_its_time() -> None:
    ops = World().run(gen.clients(gen.delay(4 * MS, gen.limit(3, gen.repeat(W)))))

    begun = [op.time for op in ops if op.type == "invoke"]
    assert begun[1] >= 4 * MS
    assert begun[2] >= 8 * MS


def test_a_completion_comes_before_a_future_operation() -> None:
    """A generator is asked again when something happens before the time it has named."""

    def patient(ctx: Context) -> gen.Source:
        return {"f": "late", "time": ctx.time + 60_000 * MS}

    def react(this: Generator, ctx: Context, event: Op) -> gen.Source:
        return None if event.type == "ok" else this

    async def slowly() -> Outcome:
        await asyncio.sleep(0.002)
        return Ok()

    source = gen.on_update(react, gen.any_of(gen.clients(W), gen.nemesis(patient)))

    ops = World(lambda op: slowly()).run(source)

    assert [op.f for op in ops] == ["write", "write"]


def test_a_pending_generator_is_asked_again_without_any_event() -> None:
    class Waiting:
        """Pending until a time that it does not tell."""

        def op(self, ctx: Context) -> Step | None:
            return (PENDING, self) if ctx.time < 5 * MS else None

        def update(self, ctx: Context, event: Op) -> Generator:
            return self

    ops = World().run(gen.clients([W, Waiting(), W]))

    assert ops[2].time >= 5 * MS


def test_cancelling_leaves_operations_open_and_closes_clients() -> None:
    world = World(lambda op: asyncio.sleep(60), faults=lambda op: asyncio.sleep(60))
    source = gen.clients(gen.repeat(W), gen.repeat({"f": "kill"}))

    async def interrupted() -> None:
        task = asyncio.get_running_loop().create_task(world.go(source, concurrency=3))
        for _ in range(100):  # turns, until all four are at work
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())

    assert Counter(op.type for op in world.recorder.ops) == {"invoke": 3, "info": 1}
    history = History(world.recorder.ops)
    assert all(history.completion(op) is None for op in history)
    assert Counter(world.notes) == {
        f"{word} {name}": 1 for word in ("open", "close") for name in (0, 1, 2, "nemesis")
    }


def test_an_error_of_the_generator_is_raised_as_it_is() -> None:
    def broken(ctx: Context) -> gen.Source:
        if ctx.time >= 0 and len(world.recorder.ops) > 2:
            raise AssertionError("generator broken")
        return W

    world = World(lambda op: asyncio.sleep(60) if op.process == 1 else Ok())

    with pytest.raises(AssertionError, match="generator broken"):
        world.run(gen.clients(broken), concurrency=2)

    assert world.notes.count("close 0") == world.notes.count("open 0")
    assert world.notes.count("close 1") == world.notes.count("open 1")


def test_ill_formed_operations_are_refused() -> None:
    with pytest.raises(gen.IllFormed, match="type is 'ok'"):
        World().run(gen.clients(W | {"type": "ok"}))


def test_ops_max() -> None:
    world = World()

    with pytest.raises(TooManyOperations, match="more than ops_max 5"):
        world.run(gen.clients(gen.repeat(W)), concurrency=2, ops_max=5)

    assert sum(op.type == "invoke" for op in world.recorder.ops) == 5


def test_a_flood_lets_completions_and_others_have_their_turn() -> None:
    world = World()

    async def both() -> tuple[int, int]:
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.get_running_loop().create_task(other())
        ops = await world.go(gen.clients(gen.limit(2000, gen.repeat(W))), concurrency=200)
        task.cancel()
        return turns, len(ops)

    turns, count = asyncio.run(both())

    assert count == 4000
    assert turns >= 2000 / 200


def test_all_threads_work() -> None:
    ops = World().run(gen.clients(gen.limit(400, gen.repeat(W))), concurrency=4)

    counts = Counter(op.process for op in ops if op.type == "invoke")
    assert set(counts) == {0, 1, 2, 3}
    assert min(counts.values()) > 50


def test_ticks_while_everything_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "TICK_NS", 2 * MS)
    ticks: list[int] = []

    class Ticking(MemoryRecorder):
        def tick(self, now_ns: int) -> None:
            ticks.append(now_ns)

    async def slowly() -> Outcome:
        await asyncio.sleep(0.02)
        return Ok()

    source = gen.clients([W, gen.sleep(10 * MS)])
    World(lambda op: slowly()).run(source, recorder=Ticking())

    assert len(ticks) >= 7
    assert ticks == sorted(ticks)


def test_a_client_that_takes_too_long_is_indeterminate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "TICK_NS", 2 * MS)
    world = World(lambda op: asyncio.sleep(60) if op.process == 0 else Ok())

    ops = world.run(gen.clients([W, W]), answer_ns_max=5 * MS)

    assert told(ops)[1] == (1, "info", 0, "write", 1, "indeterminate: no answer in time")
    assert [op.process for op in ops] == [0, 0, 1, 1]


def test_a_client_that_cannot_be_closed_is_told_of() -> None:
    class Sticky(Scripted):
        async def close(self) -> None:
            raise OSError("stuck")

    world = World()

    world.run(gen.clients(W), client=lambda thread: Sticky(lambda op: Ok(), world.notes, "0"))

    assert world.said == ["client of thread 0 not closed: OSError: stuck"]


def test_a_clock_that_goes_back_is_held() -> None:
    ticking = iter([0, 50, 20, 70] + [60] * 100)

    ops = World().run(gen.clients([W, W]), now_ns=lambda: next(ticking))

    assert [op.time for op in ops] == sorted(op.time for op in ops)
