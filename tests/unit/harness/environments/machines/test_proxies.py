"""Which toxics delays are, and on which proxies; without a toxiproxy."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from maxq.harness.contracts.environment import Delay, EnvironmentLost, ProcessStatus
from maxq.harness.environments.machines.proxies import LOG, Proxies, first_of, spelled, toxics_of

HA, REMOTING = 10912, 10911


def late(stream: str, ms: int, jitter_ms: int = 0) -> dict[str, Any]:
    attributes = {"latency": ms, "jitter": jitter_ms}
    return {"type": "latency", "stream": stream, "attributes": attributes}


def narrow(stream: str, kb_s: int) -> dict[str, Any]:
    return {"type": "bandwidth", "stream": stream, "attributes": {"rate": kb_s}}


class Computer:
    """A machine whose toxiproxy takes what it is told, or forgets it."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address, self.block = name, address, f"{address}/28"
        self.data_dir = f"/run/{name}"
        self.powerless = False
        self.code: int | None = None
        self.forgets = False
        self.rules: list[str] = []
        self.asked: list[Any] = []
        self.proxies: Any = None

    async def spawn(self, argv: Any, *, log: str) -> ProcessStatus:
        assert log == LOG
        assert argv[-4:] == ("-host", "127.0.0.1", "-port", "8474")
        return ProcessStatus(pid=7, code=None)

    async def status(self, pid: int) -> ProcessStatus:
        return ProcessStatus(pid=pid, code=self.code)

    async def told(self, told: Any, module: str, question: str, *, timeout_s: float) -> Any:
        [(do, what)] = json.loads(question).items()
        self.asked.append((do, what))
        if do == "make":
            return {name: 40_000 + n for n, name in enumerate(what)}
        return {} if self.forgets else what

    async def lead(self, ruleset: str) -> None:
        self.rules.append(ruleset)


def three(*ports: int) -> tuple[Proxies, list[Any]]:
    """Proxies of three machines that listen at these ports."""
    machines: list[Any] = [Computer(n, f"198.18.0.{16 * i}") for i, n in enumerate("abc", start=1)]
    proxies = Proxies(Path("/toxiproxy-server"))
    asyncio.run(proxies.begin(dict.fromkeys(machines, ports)))
    return proxies, machines


def test_each_machine_has_a_proxy_to_each_port_of_each_other_one() -> None:
    proxies, (a, *_) = three(REMOTING, HA)
    [(do, what)] = a.asked
    assert do == "make"
    assert what == {
        "b.10911": "192.0.2.2:10911", "b.10912": "192.0.2.2:10912",
        "c.10911": "192.0.2.3:10911", "c.10912": "192.0.2.3:10912",
    }  # fmt: skip
    assert (
        "ip daddr 198.18.0.48 tcp dport 10912 counter name to-c.10912 redirect to :40003"
        in (a.rules[-1])
    )
    assert a.proxies is proxies


def test_packets_to_a_machine_are_its_own_downstream_and_the_upstream_of_others() -> None:
    proxies, (a, b, c) = three(REMOTING, HA)
    asked = [Delay("b", b.block, 200, 50, ports=(HA,))]
    asyncio.run(proxies.set("a", asked))
    assert proxies.wanted("a") == {"b.10912": [late("downstream", 200, 50)]}
    assert proxies.wanted("b") == {"a.10912": [late("upstream", 200, 50)]}
    assert [machine.asked[-1][0] for machine in (a, b, c)] == ["set", "set", "make"]
    assert proxies.delays("a") == asked
    asyncio.run(proxies.set("a", []))
    assert (proxies.wanted("a"), proxies.wanted("b"), proxies.delays("a")) == ({}, {}, [])
    assert b.asked[-1] == ("set", {})


def test_of_several_delays_the_longest_counts_and_the_least_bandwidth() -> None:
    proxies, (_, b, c) = three(HA)
    own = [Delay("b", b.block, 50, kb_s=10), Delay("b", b.block, 90, kb_s=30),
           Delay("c", c.block, 20)]  # fmt: skip
    asyncio.run(proxies.set("a", own))
    asyncio.run(proxies.set("b", [Delay("a", "198.18.0.16/28", 5)]))
    assert proxies.wanted("a") == {
        "b.10912": [narrow("downstream", 10), late("downstream", 90), late("upstream", 5)],
        "c.10912": [late("downstream", 20)],
    }
    assert toxics_of([Delay("b", b.block, kb_s=7)], "upstream") == [narrow("upstream", 7)]
    assert toxics_of([], "upstream") == []


def test_a_delay_that_the_server_does_not_have_is_not_in_force() -> None:
    proxies, (_, b, _) = three(HA)
    b.forgets = True
    asyncio.run(proxies.set("a", [Delay("b", b.block, 200)]))
    assert proxies.delays("a") == []


def test_who_starts_again_has_the_toxics_again() -> None:
    proxies, (a, b, _) = three(HA)
    asyncio.run(proxies.set("a", [Delay("b", b.block, 200)]))
    asyncio.run(proxies.start("a"))
    assert [do for do, _ in a.asked] == ["make", "set", "make", "set"]
    assert a.asked[-1] == ("set", {"b.10912": [late("downstream", 200)]})


def test_rules_follow_addresses_and_the_end_of_a_server_is_told_but_not_without_power() -> None:
    proxies, (a, b, _) = three(HA)
    b.address = "198.18.0.33"
    asyncio.run(proxies.lead())
    assert "ip daddr 192.0.2.2 dnat to 198.18.0.33" in a.rules[-1]
    b.code = 2
    with pytest.raises(EnvironmentLost, match=r"^toxiproxy on b ended with code 2, and "):
        asyncio.run(proxies.lost())
    b.powerless = True

    async def patient() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(proxies.lost(), 0.05)

    asyncio.run(patient())


def test_whoever_ends_first_decides_and_the_others_are_given_up() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        failing: asyncio.Future[None] = loop.create_future()
        waiting: asyncio.Future[None] = loop.create_future()
        failing.set_exception(EnvironmentLost("gone"))
        with pytest.raises(EnvironmentLost, match="gone"):
            await first_of([waiting, failing])
        assert waiting.cancelled()

    asyncio.run(main())


def test_names_of_proxies() -> None:
    assert spelled("b0-1", HA) == "b0-1.10912"
