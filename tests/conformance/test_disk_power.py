"""Disks lose their power alike in both worlds: what was synced stays, with its name.

What may go differs: the simulated disk loses, keeps or tears each write, an ext4 what it has not
written back. So of that only this is asked of both: it never hurts what was synced, and on the ext4
it is gone.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from maxq.harness.contracts.draws import Draws
from maxq.harness.environments.disks import kernel, node_disk
from maxq.harness.environments.disks.node_disk import TRIAL_BYTES, OwnDisk
from maxq.harness.simulation.world import World
from maxq.reference.host import Disk, RealDisk, replace_file

LACKING = str(node_disk.lacking() or "")
Case = Callable[[Disk, str], Awaitable[None]]
Files = dict[str, bytes]
Lose = Callable[[Case, Path], list[Files]]
SEEDS = range(10)


def on_ext4(case: Case, tmp_path: Path) -> list[Files]:
    """On an ext4 of its own, which is shut down."""
    disk, threads = OwnDisk(tmp_path, TRIAL_BYTES), ThreadPoolExecutor(max_workers=1)
    try:
        asyncio.run(case(RealDisk(threads), f"{disk.root}/data"))  # type: ignore[arg-type]
        threads.shutdown()
        disk.cut_off()
        disk.restart()
        folder = disk.root / "data"
        return [{p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}]
    finally:
        threads.shutdown()
        disk.close()


def simulated(case: Case, tmp_path: Path) -> list[Files]:
    """On a simulated disk, under several draws."""
    found = []
    for seed in SEEDS:
        world = World(seed)
        try:
            machine = world.add_machine("a", "198.18.0.16")
            world.run(machine, lambda host: case(host.disk, "/data"))  # type: ignore[arg-type,return-value]
            machine.disk.power_loss(Draws(seed))
            files = {path.rpartition("/")[2]: bytes(b) for path, b in machine.disk.files.items()}
        finally:
            world.close()
        found.append(files)
    return found


LOSES = [
    pytest.param(on_ext4, id="ext4", marks=pytest.mark.skipif(bool(LACKING), reason=LACKING)),
    pytest.param(simulated, id="simulated"),
]
both = pytest.mark.parametrize("lose", LOSES)


@both
def test_what_was_synced_stays_whatever_was_written_later(lose: Lose, tmp_path: Path) -> None:
    async def case(disk: Disk, folder: str) -> None:
        file = disk.open(f"{folder}/f", create=True)
        file.pwrite(b"a" * 5000, 0)
        await file.sync()
        await disk.sync_dir(folder)
        file.pwrite(b"b" * 5000, 5000)
        fresh = disk.open(f"{folder}/fresh", create=True)
        fresh.pwrite(b"c" * 9000, 0)
        file.close()
        fresh.close()

    for files in lose(case, tmp_path):
        assert files["f"][:5000] == b"a" * 5000
        if lose is on_ext4:
            assert len(files["f"]) == 5000
            assert not files.get("fresh")


@both
def test_a_sync_of_one_file_is_none_of_another(lose: Lose, tmp_path: Path) -> None:
    async def case(disk: Disk, folder: str) -> None:
        one, other = (disk.open(f"{folder}/{name}", create=True) for name in ("one", "other"))
        other.pwrite(b"o" * 5000, 0)
        one.pwrite(b"x", 0)
        await one.sync()
        await disk.sync_dir(folder)
        one.close()
        other.close()

    for files in lose(case, tmp_path):
        assert files["one"] == b"x"
        if lose is on_ext4:
            assert files["other"] == b"", "it has a name, and nothing that it was given"


@both
def test_a_replaced_file_is_the_old_one_or_the_new_one_and_whole(
    lose: Lose, tmp_path: Path
) -> None:
    async def case(disk: Disk, folder: str) -> None:
        await replace_file(disk, f"{folder}/done", b"first" * 100)
        await replace_file(disk, f"{folder}/done", b"second")
        await replace_file(disk, f"{folder}/begun", b"first" * 100)
        file = disk.open(f"{folder}/new", create=True)
        file.pwrite(b"second", 0)
        await file.sync()
        file.close()
        disk.rename(f"{folder}/new", f"{folder}/begun")

    for files in lose(case, tmp_path):
        assert files["done"] == b"second"
        assert files["begun"] in (b"first" * 100, b"second")


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_whoever_writes_or_syncs_after_the_loss_meets_eio(tmp_path: Path) -> None:
    disk, threads = OwnDisk(tmp_path, TRIAL_BYTES), ThreadPoolExecutor(max_workers=1)
    file = RealDisk(threads).open(f"{disk.root}/f", create=True)
    try:
        file.pwrite(b"a", 0)
        disk.cut_off()
        with pytest.raises(OSError) as written:
            file.pwrite(b"b", 1)
        with pytest.raises(OSError) as synced:
            asyncio.run(file.sync())
        assert written.value.errno == synced.value.errno == errno.EIO
        file.close()
        assert disk.restart() == {"lost_bytes": 1, "lost_names": 1}
        assert disk.files() == []
    finally:
        threads.shutdown()
        disk.close()


@pytest.mark.skipif(bool(LACKING), reason=LACKING)
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("shut_down", "a write after the loss was taken; what was not synced is there; "
         "what was written after the loss is there"),
        ("nothing kept", "what was synced is gone"),
    ],
)  # fmt: skip
def test_a_loss_that_was_none_is_told(
    broken: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken == "shut_down":
        monkeypatch.setattr(kernel, "shut_down", lambda mount: None)
    disk = OwnDisk(tmp_path, TRIAL_BYTES)
    try:
        disk.cut_off()
        if broken == "nothing kept":
            monkeypatch.setattr(kernel, "checked", kernel.formatted)
        with pytest.raises(OSError, match=f"^{said}$"):
            disk.restart()
    finally:
        disk.close()
