"""Two brokers of a container on a real ext4 of 256 MiB, one of which is flooded (B9, B10)."""

import asyncio
import hashlib
import subprocess
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest
from container_world import SEND, World

from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext

FILE, BODY = 1 << 20, bytes(100_000)
FLOOD_S = 120
INTERVAL_S = 1.0  # between two looks of a broker at what it uses
SENDERS, PAUSE_S = 5, 0.02  # so at most 25 MB a second, however fast the machine is
LATE_S = 0.5  # a look may come so much later, on a busy machine


class Filled(NamedTuple):
    """When how much of a broker's log and queues was seen, and when a message was acknowledged."""

    used: list[tuple[float, int]]
    acked: list[float]

    def written_in(self, length_s: float) -> int:
        """The most bytes of messages that were acknowledged in such a time."""
        most = 0
        for number, at in enumerate(self.acked):
            most = max(most, len([*takewhile(lambda t: t < at + length_s, self.acked[number:])]))  # noqa: B023
        return most * len(BODY)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(256 << 20)
    commands = ("mkfs.ext4", "-q", str(image)), ("mount", "-o", "loop", str(image), str(place))
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            pytest.skip(f"no disk can be made here: {error}")
        if done.returncode:
            pytest.skip(f"no disk can be made here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


class OnDisk(World):
    """Brokers with half of a partition each."""

    def __init__(self, folder: Path, disk: Path) -> None:
        self.disk = disk
        super().__init__(folder)

    def settings(self, name: str) -> dict[str, object]:
        return super().settings(name) | {
            "storePathRootDir": self.disk / name, "replicasPerDiskPartition": 2,
            "mappedFileSizeCommitLog": FILE, "mappedFileSizeConsumeQueue": 20_000,
            "cleanResourceInterval": int(INTERVAL_S * 1000),
        }  # fmt: skip

    def files(self, name: str) -> list[Path]:
        parts = (self.disk / name / part for part in ("commitlog", "consumequeue"))
        return sorted(path for part in parts for path in part.rglob("*") if path.is_file())

    def log(self, name: str) -> dict[Path, bytes]:
        """A digest of each file of a broker's log."""
        return {path: hashlib.sha256(path.read_bytes()).digest()
                for path in self.files(name) if "commitlog" in path.parts}  # fmt: skip

    def used(self, name: str) -> int:
        total = 0
        for path in self.files(name):
            try:
                total += path.stat().st_size
            except FileNotFoundError:  # it went meanwhile
                continue
        return total

    async def filled(self, name: str, length_s: float) -> Filled:
        """Send without an end, and look at what it uses."""
        found, end = Filled([], []), time.monotonic() + length_s
        frame = Frame(code=RequestCode.SEND_MESSAGE, ext=to_ext(SEND), body=BODY)

        async def send(pool: Pool) -> None:
            while time.monotonic() < end:
                answer = await pool.call(self.at(name), frame, timeout_s=10)
                if answer.code == ResponseCode.SUCCESS:
                    found.acked.append(time.monotonic())
                await asyncio.sleep(PAUSE_S)

        async def look() -> None:
            while time.monotonic() < end:
                found.used.append((time.monotonic(), self.used(name)))
                await asyncio.sleep(0.05)

        async with asyncio.TaskGroup() as group:
            pools = [Pool(group) for _ in range(SENDERS)]
            senders = [group.create_task(send(pool)) for pool in pools]
            await look()
            await asyncio.gather(*senders)
            for pool in pools:
                pool.close()
        return found


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_a_flooded_broker_keeps_to_its_share_for_two_minutes(tmp_path: Path, disk: Path) -> None:
    world = OnDisk(tmp_path, disk)
    try:
        world.namesrv()
        world.up("container", "k", world.container("x", "y"))
        world.until_listed("x", "y")
        assert {world.ask("y", RequestCode.SEND_MESSAGE, to_ext(SEND), BODY).code
                for _ in range(60)} == {ResponseCode.SUCCESS}  # fmt: skip
        files, quiet = world.files("y"), world.log("y")
        stat = subprocess.run(["stat", "-f", "-c", "%b %S", disk], capture_output=True, text=True,
                              check=True)  # fmt: skip
        quota = int(stat.stdout.split()[0]) * int(stat.stdout.split()[1]) // 2

        found = asyncio.run(world.filled("x", FLOOD_S))

        most = max(used for _, used in found.used)
        assert len(found.acked) * len(BODY) > 2 * quota, "it was flooded"
        assert 0.7 * quota < most
        assert most <= 0.8 * quota + found.written_in(INTERVAL_S + LATE_S) + FILE
        assert {*files} <= {*world.files("y")}, "nothing of it went"
        assert world.log("y") == quiet
        assert world.ask("y", RequestCode.SEND_MESSAGE, to_ext(SEND), BODY).code == 0
    finally:
        for node in world.nodes:
            node.process.kill()
            node.process.wait()
