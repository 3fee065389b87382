"""A simulated disk at fault: full, slow, frozen, misreading; and when it is sound again."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from maxq.harness.contracts.draws import Draws
from maxq.harness.contracts.environment import Misread
from maxq.harness.simulation.disk import SYNC_NS, SimDisk
from maxq.harness.simulation.world import SimMachine, World
from maxq.reference.host import read_file, replace_file


@pytest.fixture
def machine() -> Iterator[SimMachine]:
    world = World(1)
    yield world.add_machine("a", "198.18.0.16")
    world.close()


def run(machine: SimMachine, main: Callable[[SimDisk], Awaitable[Any]]) -> Any:
    async def body(_: object) -> Any:
        return await main(machine.disk)

    return machine.world.run(machine, body)


def now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def test_a_full_disk_takes_nothing_and_gives_back_everything(machine: SimMachine) -> None:
    async def main(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        file.pwrite(b"before", 0)
        disk.set_fault(full=True)
        for act in (
            lambda: file.pwrite(b"x", 0),
            lambda: file.pwrite(b"x", 6),
            lambda: file.truncate(100),
            lambda: disk.open("/d/g", create=True),
        ):
            with pytest.raises(OSError, match="no space") as caught:
                act()
            assert caught.value.errno == errno.ENOSPC
        await file.sync()
        assert file.pread(9, 0) == b"before"
        file.truncate(2)
        disk.rename("/d/f", "/d/h")
        assert disk.list("/d") == ["h"]
        disk.unlink("/d/h")
        disk.set_fault()
        await replace_file(disk, "/d/f", b"after")
        assert read_file(disk, "/d/f") == b"after"

    run(machine, main)


def test_syncs_of_a_slow_disk_take_their_time(machine: SimMachine) -> None:
    async def main(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)
        disk.set_fault(sync_ms=700)
        begun = now_ms()
        await file.sync()
        await disk.sync_dir("/d")
        assert now_ms() - begun == pytest.approx(1400)
        disk.set_fault()
        begun = now_ms()
        await file.sync()
        assert now_ms() - begun <= SYNC_NS[1] / 1e6

    run(machine, main)


def test_syncs_of_a_frozen_disk_return_when_it_thaws(machine: SimMachine) -> None:
    ended: list[str] = []

    async def main(disk: SimDisk) -> None:
        file = disk.open("/d/f", create=True)

        async def sync(name: str) -> None:
            await file.sync()
            ended.append(name)

        async with asyncio.TaskGroup() as group:
            group.create_task(sync("begun before"))
            await asyncio.sleep(0)
            disk.set_fault(frozen=True)
            given_up = group.create_task(sync("given up"))
            group.create_task(sync("begun frozen"))
            await asyncio.sleep(60)
            disk.set_fault(frozen=True, sync_ms=5)
            file.pwrite(b"it still takes writes", 0)
            given_up.cancel()
            await asyncio.sleep(60)
            assert ended == []
            disk.set_fault()
            await asyncio.sleep(0.01)
            assert sorted(ended) == ["begun before", "begun frozen"]

    run(machine, main)


def test_what_a_frozen_disk_had_not_synced_goes_with_the_power() -> None:
    kept = set()
    for seed in range(20):
        world = World(seed)
        machine = world.add_machine("a", "198.18.0.16")

        async def main(disk: SimDisk) -> None:
            file = disk.open("/d/f", create=True)
            await disk.sync_dir("/d")
            disk.set_fault(frozen=True)
            file.pwrite(b"frozen", 0)
            asyncio.get_running_loop().create_task(file.sync())
            await asyncio.sleep(1)

        run(machine, main)
        machine.lose_power()
        kept.add(bytes(machine.disk.files["/d/f"]))
        world.close()
    assert {b"", b"frozen"} < kept


def test_times_of_syncs_do_not_depend_on_other_syncs() -> None:
    def took(others: int) -> list[float]:
        world = World(3)
        machine = world.add_machine("a", "198.18.0.16")

        async def main(disk: SimDisk) -> list[float]:
            file = disk.open("/d/f", create=True)
            found = []
            for number in range(20):
                for other in range(others):
                    await disk.open(f"/d/other{other}", create=True).sync()
                await asyncio.sleep(number + 1 - asyncio.get_running_loop().time())
                begun = now_ms()
                await file.sync()
                found.append(round(now_ms() - begun, 6))
            return found

        try:
            return run(machine, main)  # type: ignore[no-any-return]
        finally:
            world.close()

    alone = took(0)
    assert len(set(alone)) > 15
    assert took(3) == alone


def test_the_fate_of_a_write_does_not_depend_on_other_writes() -> None:
    """Equal losses of power take the same of a file, whatever else was written before."""

    def left(other_writes: int, seed: int) -> bytes:
        disk = SimDisk(Draws(1))
        other = disk.open("/d/a", create=True)
        file = disk.open("/d/f", create=True)
        for at in range(50):
            if at < other_writes:
                other.pwrite(b"other", at)
            file.pwrite(b"%02d" % at, 2 * at)
        disk._folders.clear()  # the names are durable
        disk.power_loss(Draws(seed))
        return bytes(disk.files["/d/f"])

    states = {left(0, seed) for seed in range(10)}
    assert len(states) > 5
    assert all(left(50, seed) == left(0, seed) for seed in range(10))


def test_a_misreading_disk_gives_one_bit_as_another_and_changes_none(machine: SimMachine) -> None:
    async def main(disk: SimDisk) -> None:
        file, other = disk.open("/d/f", create=True), disk.open("/d/g", create=True)
        for each in (file, other):
            each.pwrite(bytes(4), 0)
        disk.set_fault(misread=Misread("/d/f", 17))
        assert (file.pread(4, 0), file.pread(2, 2)) == (b"\0\0\2\0", b"\2\0")
        assert (file.pread(2, 0), file.pread(9, 3), other.pread(4, 0)) == (b"\0\0", b"\0", bytes(4))
        file.pwrite(b"\7", 2)
        assert file.pread(4, 0) == b"\0\0\5\0"
        disk.set_fault()
        assert file.pread(4, 0) == b"\0\0\7\0"

    run(machine, main)
