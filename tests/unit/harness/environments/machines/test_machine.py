"""A loss of power whose agent dies meanwhile: it must not keep the run from ending."""

import asyncio
import threading
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, cast

import pytest

from maxq.harness.contracts.environment import EnvironmentLost
from maxq.harness.environments.disks.node_disk import OwnDisk
from maxq.harness.environments.machines.agent_client import Link
from maxq.harness.environments.machines.machine import LinkedMachine, Place


class DyingAgent:
    """An agent that is gone when its machine shall be plugged in again."""

    async def ask(self, verb: str, **more: Any) -> dict[str, Any]:
        if verb == "plug" and more["up"]:
            raise EnvironmentLost("gone")
        return {}


class Disk:
    """A disk that is cut off when it is let."""

    def __init__(self) -> None:
        self.begun, self.let = threading.Event(), threading.Event()

    def cut_off(self) -> None:
        self.begun.set()
        self.let.wait(10)


def test_an_agent_that_is_gone_does_not_take_the_place_of_a_cancellation(tmp_path: Path) -> None:
    """Else the run that was to end goes on for ever."""
    disk, network = Disk(), IPv4Network("198.18.0.0/24")
    place = Place(
        environment="local", network=network, client="198.18.1.0/28", env={}, python="", user=None
    )
    machine = LinkedMachine(
        cast(Link, DyingAgent()), place, "m", block=IPv4Network("198.18.0.16/28"),
        folder=tmp_path, hosts=tmp_path / "hosts", disk=cast(OwnDisk, disk),
    )  # fmt: skip

    async def main() -> None:
        task = asyncio.create_task(machine.power_loss())
        await asyncio.to_thread(disk.begun.wait, 10)
        task.cancel()
        disk.let.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
