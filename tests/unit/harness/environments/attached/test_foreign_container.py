"""A container of somebody else as a machine: its process, and its rules after a restart."""

import asyncio
import signal
from collections.abc import Sequence

import pytest
from fake_engine import Api

from maxq.harness.contracts.environment import CLIENT, Cut, Loss, MissingCapability
from maxq.harness.environments.attached.foreign_container import RESTARTED, ForeignContainer
from maxq.harness.environments.engine.client import Engine


class Network:
    """An agent's network, which notes its rules."""

    def __init__(self) -> None:
        self.cuts: Sequence[Cut] = ()
        self.losses: Sequence[Loss] = ()

    async def cut(self, cuts: Sequence[Cut]) -> None:
        self.cuts = cuts

    async def lose(self, losses: Sequence[Loss]) -> None:
        self.losses = losses


def machine_of(api: Api, name: str = "a", owed: list[str] | None = None) -> ForeignContainer:
    engine = Engine(api)

    async def started(_: str) -> None:
        """No agent is beside it."""

    noted = [] if owed is None else owed
    return ForeignContainer(
        engine, name, engine.standing(name), api.addresses[name], "/run/a",
        started=started, owes=noted.append,
    )  # fmt: skip


def test_a_process_is_killed_and_started_with_another_address() -> None:
    async def main() -> None:
        api, owed = Api({"a": "10.0.0.1"}, moves=True), list[str]()
        machine = machine_of(api, owed=owed)
        first = machine.standing.pid
        await machine.signal(first, signal.SIGKILL)
        assert owed == ["id-a"], "noted before it is done"
        assert (await machine.status(first)).code == -signal.SIGKILL
        await machine.signal(first, signal.SIGKILL)  # of an ended one it is no error
        again = await machine.spawn((), log="")
        assert machine.address == "10.0.0.10"
        assert (await machine.status(again.pid)).code is None
        assert (await machine.status(first)).code == RESTARTED
        assert [what for what, _ in api.done] == ["kill 9", "start"]

    asyncio.run(main())


def test_one_that_ended_in_good_order_has_its_own_code() -> None:
    async def main() -> None:
        api = Api({"a": "10.0.0.1"})
        machine = machine_of(api)
        await machine.signal(machine.standing.pid, signal.SIGTERM)
        assert (await machine.status(100)).code == 143

    asyncio.run(main())


def test_all_of_a_container_is_held_and_let_go_once() -> None:
    async def main() -> None:
        api = Api({"a": "10.0.0.1"})
        machine = machine_of(api)
        pid = machine.standing.pid
        for number, stopped in ((signal.SIGSTOP, True), (signal.SIGCONT, False)):
            for _ in range(2):
                await machine.signal(pid, number)
                assert (await machine.status(pid)).stopped == stopped
        assert [what for what, _ in api.done] == ["pause", "unpause"]

    asyncio.run(main())


def test_rules_are_put_again_for_the_addresses_that_machines_have_now() -> None:
    async def main() -> None:
        machine = machine_of(Api({"a": "10.0.0.1"}))
        network = Network()
        machine.network = network  # type: ignore[assignment]
        await machine.cut([Cut("b", "10.0.0.2/32"), Cut(CLIENT, "10.0.0.9/32", reset=True)])
        await machine.lose([Loss("b", "10.0.0.2/32", 20)])
        await machine.again({"a": "10.0.0.1/32", "b": "10.0.0.7/32"})
        assert network.cuts == [Cut("b", "10.0.0.7/32"), Cut(CLIENT, "10.0.0.9/32", reset=True)]
        assert network.losses == [Loss("b", "10.0.0.7/32", 20)]

    asyncio.run(main())


def test_disks_clocks_and_addresses_of_others_are_left_alone() -> None:
    async def main() -> None:
        machine = machine_of(Api({"a": "10.0.0.1"}))
        for refused in (
            machine.remove("/x"), machine.put("/x", b""), machine.age("/x", 1), machine.fill(9),
            machine.set_disk(full=True), machine.power_loss(), machine.set_clock(1, 0),
            machine.set_delay(()), machine.echo("b"), machine.set_address("10.0.0.3"),
            machine.set_hosts({}), machine.cut([]),
        ):  # fmt: skip
            with pytest.raises(MissingCapability):
                await refused
        assert await machine.files("/") == []
        assert await machine.get("/etc/passwd") is None

    asyncio.run(main())
