"""Which clusters on hosts can be tested, what is refused, and whose clocks are spoken of."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from maxq.harness.contracts.environment import CLIENT, Cut, MissingCapability
from maxq.harness.contracts.existing import BrokerMember, Existing, Member
from maxq.harness.environments.attached.attached_hosts import AttachedHosts, placed
from maxq.harness.environments.attached.host_machine import HostMachine


def cluster(**broker: str) -> Existing:
    own = {"ssh": "u@10.0.0.2", "unit": "b.service", **broker}
    return Existing(
        cluster="mine", file="c.toml",
        namesrv=(Member(name="n", address="10.0.0.1:9876", ssh="u@10.0.0.1", unit="n.service"),),
        broker=(BrokerMember(name="b", address="10.0.0.2:10911", set="x", id=0, **own),),
    )  # fmt: skip


def test_a_host_may_have_several_nodes_unless_packets_are_cut() -> None:
    both = cluster(ssh="u@10.0.0.1")
    placed(both, networked=False)
    with pytest.raises(MissingCapability, match="n and b are on one host, u@"):
        placed(both, networked=True)
    placed(cluster(), networked=True)


@pytest.mark.parametrize(
    ("broker", "why"),
    [
        ({"ssh": "", "unit": ""}, "c.toml: b has no line ssh, and others have"),
        ({"ssh": "u@10.0.0.1", "unit": "n.service"},
         "c.toml: n and b are started by one thing, n.service of u@10.0.0.1"),
    ],
)  # fmt: skip
def test_each_node_has_a_host_and_a_way_to_start(broker: dict[str, str], why: str) -> None:
    with pytest.raises(MissingCapability, match=why):
        placed(cluster(**broker), networked=False)


class Link:
    """A link to a host whose clock is off, which answers whatever it is asked."""

    port, where = 22, "u@10.0.0.2"

    def __init__(self, off_ms: float = 0.0) -> None:
        self._off_ms = off_ms
        self.asked: list[str] = []

    async def ask(self, do: str, **request: object) -> tuple[dict[str, Any], None]:
        self.asked.append(do)
        return {"ns": time.time_ns() + round(self._off_ms * 1e6), "met": "open"}, None


@pytest.mark.parametrize(
    ("off_ms", "said"),
    [(0.0, []), (60_000.0, ["60.0 s ahead of"]), (-60_000.0, ["60.0 s behind"]), (40.0, [])],
)
def test_a_clock_that_is_off_is_said_and_kept(off_ms: float, said: list[str]) -> None:
    """A minute off is no reason to refuse: no verdict reads it."""

    async def main() -> None:
        hosts = AttachedHosts(cluster(), Path(), say=lambda line: None)
        hosts._links["u@10.0.0.2"] = Link(off_ms)  # type: ignore[assignment]
        await hosts._compare("start")
        assert [line.split("u@10.0.0.2 is ")[1].split(" this")[0] for line in hosts.said()] == said
        kept: Any = hosts.clocks["u@10.0.0.2"]
        assert abs(kept["start"]["ahead_ms"] - off_ms) <= kept["start"]["within_ms"] + 1

    asyncio.run(main())


def test_a_host_is_a_machine_whose_disk_nobody_touches() -> None:
    async def main() -> None:
        link: Any = Link()
        member = cluster().broker[0]
        machine = HostMachine(link, member, "10.0.0.2", "/run/b", 7, networked=True)
        assert (machine.block, machine.pid) == ("10.0.0.2/32", 7)
        for refused in (
            machine.fill(9), machine.set_disk(full=True), machine.set_clock(1, 0),
            machine.set_address("10.0.0.3"), machine.put("/x", b""), machine.power_loss(),
        ):  # fmt: skip
            with pytest.raises(MissingCapability, match="b is on a host of somebody else: nobody"):
                await refused
        assert await machine.get("/etc/passwd") is None
        assert link.asked == []
        assert await machine.probe("10.0.0.1", 9876, timeout_s=1.0) == "open"
        with pytest.raises(MissingCapability, match="clients and observers dial from one address"):
            await machine.cut([Cut(CLIENT, "10.0.0.9/32")])
        await machine.cut([Cut("n", "10.0.0.1/32")])
        assert link.asked == ["probe", "filter"]
        apart = HostMachine(link, member, "10.0.0.2", "/run/b", 7, networked=False)
        with pytest.raises(MissingCapability, match="nothing is done to the network of b"):
            await apart.cut([])

    asyncio.run(main())
