"""The simulated loop: asyncio's helpers on it, what it refuses, what of the dead never runs."""

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from maxq.harness.simulation.loop import REAL_ONLY, SimLoop
from maxq.harness.simulation.world import SimMachine, World
from maxq.reference.records import InvariantViolation


@pytest.fixture
def machine() -> Iterator[SimMachine]:
    world = World(1)
    yield world.add_machine("a", "198.18.0.16")
    world.close()


def run(machine: SimMachine, main: Callable[[], Awaitable[Any]]) -> Any:
    async def body(_: object) -> Any:
        return await main()

    return machine.world.run(machine, body)


async def told(word: str, after_ms: int) -> str:
    await asyncio.sleep(after_ms / 1000)
    return word


def test_tasks_and_futures_hash_to_their_numbers(machine: SimMachine) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        made = [loop.create_future(), loop.create_task(told("x", 1)), loop.create_future()]
        first = hash(made[0])
        assert [hash(m) for m in made] == [first, first + 1, first + 2]
        assert [m for m in made if m == made[1]] == [made[1]]
        assert len({*made}) == 3
        assert await made[1] == "x"

    run(machine, main)


def test_helpers_of_asyncio_keep_the_order_of_creation(machine: SimMachine) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(told(word, 5)) for word in "abcdefgh"]
        done, pending = await asyncio.wait(tasks)
        assert ([t.result() for t in done], pending) == (list("abcdefgh"), set())
        done, pending = await asyncio.wait(
            [loop.create_task(told("soon", 1)), loop.create_task(told("late", 9))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert [t.result() for t in done] == ["soon"]
        tasks = [loop.create_task(told(word, ms)) for ms, word in enumerate("zyx")]
        assert "".join([await each for each in asyncio.as_completed(tasks)]) == "zyx"
        assert "".join(await asyncio.gather(told("a", 3), told("b", 1))) == "ab"
        assert [await t for t in pending] == ["late"]

    run(machine, main)


def test_a_task_group_cancels_in_the_order_of_creation(machine: SimMachine) -> None:
    ended = []

    async def waits(number: int) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append(number)

    async def group_that_fails() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(waits(number))
            await asyncio.sleep(1)
            raise ValueError

    async def main() -> None:
        with pytest.raises(ExceptionGroup):
            await group_that_fails()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waits(20), 0.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.shield(asyncio.get_running_loop().create_future())

    run(machine, main)
    assert ended == [*sorted(ended[:20]), 20]


@pytest.mark.parametrize("name", sorted(REAL_ONLY))
def test_doors_to_the_machine_are_refused_by_name(machine: SimMachine, name: str) -> None:
    loop, _ = machine.world.process(machine)
    with pytest.raises(InvariantViolation, match=f"not in a simulated world: {name}"):
        getattr(loop, name)
    with pytest.raises(AttributeError, match="no such_thing"):
        loop.such_thing  # noqa: B018 # looking is what is tested


def test_threads_names_and_programs_are_refused(machine: SimMachine) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        for what in (
            lambda: asyncio.to_thread(print),
            lambda: loop.run_in_executor(None, print),
            lambda: loop.getaddrinfo("localhost", 1),
            lambda: asyncio.create_subprocess_exec("true"),
            lambda: asyncio.create_subprocess_shell("true"),
        ):
            with pytest.raises(InvariantViolation, match="simulated"):
                await what()

    run(machine, main)


def test_no_garbage_is_collected_in_a_run(machine: SimMachine) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self

    async def main() -> None:
        kept = [weakref.ref(Cycle()) for _ in range(20_000)]  # far beyond the collector's threshold
        assert not gc.isenabled()
        assert all(ref() is not None for ref in kept)

    run(machine, main)
    assert gc.isenabled()


class Dying:
    """A process with everything in it that a collector would finish."""

    def __init__(self) -> None:
        self.finished: list[str] = []
        self.open: list[Generator[None, None, None]] = []

    def generator(self, name: str) -> Generator[None, None, None]:
        try:
            yield
        finally:
            self.finished.append(name)

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        try:
            yield
        finally:
            self.finished.append(name)

    async def task(self, loop: SimLoop) -> None:
        with self.held("with"):
            local = self.generator("local")
            next(local)
            handed = self.generator("handed to a callback")
            next(handed)
            # Held by nothing but a timer that comes due after the death.
            loop.call_later(5, handed.send, None)
            del handed
            try:
                await loop.create_future()
            finally:
                self.finished.append("finally")


def test_nothing_of_a_dead_process_ends_before_the_run_does() -> None:
    world = World(1)
    machine = world.add_machine("a", "198.18.0.16")
    loop, _ = world.process(machine)
    dying = Dying()
    loop.create_task(dying.task(loop))

    async def sleeps(_: object) -> None:
        await asyncio.sleep(1)
        loop.kill()
        await asyncio.sleep(10)
        gc.collect()

    world.run(machine, sleeps)
    assert dying.finished == []
    world.close()


def test_a_future_of_an_ended_run_troubles_nobody() -> None:
    world = World(1)

    async def main(_: object) -> None:
        lost = asyncio.get_running_loop().create_future()
        lost.set_exception(ValueError("nobody asks"))
        cycle: list[object] = [lost]
        cycle.append(cycle)

    machine = world.add_machine("a", "198.18.0.16")
    world.run(machine, main)
    world.close()
    gc.collect()
    assert [loop.failures for loop in machine.loops] == [[]]
