"""A loss of power means the same in every real environment, and what it says in the simulator
(`tests/unit/harness/environments/test_simulated.py`): what was synced stays, the rest may go, peers
meet silence, and a machine that is back knows nobody."""

import asyncio
import os
from pathlib import Path

import pytest
from real_machines import LONG_S, PORT, SHORT_S, WORLDS, Real, line, make, python_of, until, world

from maxq.harness.contracts.environment import (
    DISK,
    Capability,
    Cut,
    MachineSpec,
    MissingCapability,
    Port,
)
from maxq.harness.environments.disks import leaks, node_disk
from maxq.harness.environments.engine import leaks as docker_remains
from maxq.harness.environments.machines import machine
from maxq.harness.environments.machines.machine import LinkedMachine

LACKING = str(node_disk.lacking() or "")
pytestmark = [
    pytest.mark.parametrize("where", WORLDS),
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(LACKING), reason=LACKING),
]
# Writes and syncs, then writes, makes and renames without a sync, and goes on.
WRITER = """
import os, time
def put(name, data):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(fd, data)
    return fd
os.chdir("store")
log, old = put("log", b"a" * 5000), put("old", b"n" * 100)
for fd in (log, old, os.open(".", os.O_RDONLY)):
    os.fsync(fd)
os.pwrite(log, b"b" * 5000, 5000)
os.pwrite(log, b"d", 20_000)
put("fresh", b"c" * 9000)
os.rename("old", "new")
print("written", flush=True)
while True:
    time.sleep(0.01)
    os.pwrite(log, b"d", 20_000)
"""
# Of the log the page where the synced part ends, the one after it, and the last, whose end is the
# file's; and all of the fresh file.
LOST_BYTES = 4096 + 4096 + (20_001 - 4 * 4096) + 9000


async def writing(environment: Real, a: LinkedMachine) -> int:
    """Start the writer; its process, once it has written."""
    pid = (await a.spawn([python_of(environment), "-c", WRITER], log="w.log")).pid

    async def written() -> bool:
        return b"written" in (await a.get(f"{a.data_dir}/w.log") or b"")

    await until(written)
    return pid


def store(a: LinkedMachine, name: str = "") -> str:
    return f"{a.data_dir}/{DISK}/{name}".rstrip("/")


def test_what_was_synced_stays_and_what_was_not_is_gone_and_told(
    where: str, tmp_path: Path
) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        other, pid = await writing(environment, b), await writing(environment, a)
        whole = ["store/fresh", "store/log", "store/new"]
        assert await a.files(a.data_dir) == ["echo.log", *whole, "w.log"]
        lost = await a.power_loss()
        assert lost["lost_bytes"] == LOST_BYTES
        assert (await a.status(pid)).code == -9
        # Names that a journal took along with others stay; their bytes do not.
        assert lost["lost_names"] in (0, 1, 2)
        named = await a.get(store(a, "old")) or await a.get(store(a, "new"))
        assert named == b"n" * 100
        assert not await a.get(store(a, "fresh"))
        assert await a.get(store(a, "log")) == b"a" * 5000
        assert "w.log" in await a.files(a.data_dir), "the harness's own files stay"
        assert (await b.status(other)).code is None, "the other one has its own power"
        assert await b.files(store(b)) == ["fresh", "log", "new"]
        assert await a.power_loss() == {"lost_bytes": 0, "lost_names": 0}

    world(where, tmp_path, main, disks=True)
    assert leaks.of(docker_remains.this_process().pid) == []
    assert not list((tmp_path / "a" / DISK).iterdir()), "the host never saw its disk"


def test_peers_meet_silence_and_then_a_machine_that_knows_nobody(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "AWAY_S", 3.0)

    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        async def met(wanted: Port) -> None:
            async def so() -> bool:
                return await b.probe(a.address, PORT, timeout_s=SHORT_S) == wanted

            await until(so)

        async with line(environment.dial, a.address) as client:
            assert await client.answered(LONG_S)
            async with asyncio.TaskGroup() as group:
                loss = group.create_task(a.power_loss())
                await met("silent")
                assert not await client.answered(SHORT_S)
                assert not loss.done()
                assert not client.lost.is_set(), "nobody said goodbye"
            await met("refused")
            await asyncio.wait_for(client.lost.wait(), LONG_S)  # TCP sends again, and meets
            assert isinstance(client.error, ConnectionResetError)

    world(where, tmp_path, main, disks=True)


def test_what_the_harness_does_outlives_a_loss_of_power(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        await a.put(store(a, "x/y"), b"1")
        await a.put(store(a, "z"), b"2")
        await a.remove(store(a, "z"))
        await a.cut([Cut(source="b", block=b.block)])
        await asyncio.gather(a.power_loss(), b.power_loss())
        assert await a.files(store(a)) == ["x/y"]
        assert await a.get(store(a, "x/y")) == b"1"
        assert await b.probe(a.address, PORT, timeout_s=SHORT_S) == "silent"
        await a.cut([])
        await a.remove(store(a))
        await a.power_loss()
        assert await a.files(store(a)) == []
        await a.put(store(a, "new"), b"3")
        assert await a.files(a.data_dir) == ["echo.log", "store/new"]

    world(where, tmp_path, main, disks=True)


def test_a_disk_fills_up_to_where_brokers_refuse_sends_and_empties_again(
    where: str, tmp_path: Path
) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        async def free(of: LinkedMachine) -> float:
            look = (
                "import shutil as s; d = s.disk_usage('store'); print(d.free / (d.used + d.free))"
            )
            pid = (await of.spawn([python_of(environment), "-c", look], log="free.log")).pid

            async def said() -> bool:
                return (await of.status(pid)).code == 0

            await until(said)
            return float((await of.get(f"{of.data_dir}/free.log") or b"").split()[-1])

        await a.put(store(a, "x"), bytes(1 << 20))
        before = os.statvfs(tmp_path).f_bavail
        await a.fill(95)
        assert 0.04 < await free(a) < 0.06 < 0.9 < await free(b)
        taken = (before - os.statvfs(tmp_path).f_bavail) * os.statvfs(tmp_path).f_frsize
        assert taken < node_disk.DISK_BYTES // 8, "it takes no room of the host's disk"
        assert await a.files(store(a)) == ["x"]
        lost = await a.power_loss()
        assert lost == {"lost_bytes": 0, "lost_names": 0}
        assert await free(a) < 0.06
        await a.fill(0)
        assert await free(a) > 0.9

    world(where, tmp_path, main, disks=True)


def test_machines_without_disks_of_their_own_refuse_by_name(where: str, tmp_path: Path) -> None:
    async def main(environment: Real, a: LinkedMachine, b: LinkedMachine) -> None:
        with pytest.raises(MissingCapability, match=f"{where} cannot do power-loss: "):
            await a.power_loss()
        assert leaks.of(docker_remains.this_process().pid) == []

    assert Capability.POWER_LOSS in make(where, tmp_path).capabilities
    world(where, tmp_path, main)


def test_a_disk_that_cannot_be_made_leaves_none(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two: the first is given up with the machines."""

    def first_only(disk: node_disk.OwnDisk, point: Path, space: int) -> None:
        if point.parent.name == "b":
            raise OSError("no more")
        show(disk, point, space)

    async def main() -> None:
        environment = make(where, tmp_path, disks=True)
        with pytest.raises(Exception, match="no more"):
            await environment.up([MachineSpec(name="a"), MachineSpec(name="b")])

    show = node_disk.OwnDisk.show
    monkeypatch.setattr(node_disk.OwnDisk, "show", first_only)
    asyncio.run(main())
    assert leaks.of(docker_remains.this_process().pid) == []
