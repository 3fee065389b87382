"""Packets between machines of nodes that are late, or come through a narrow way, with the proof.

What each machine takes late is put together from all delays that strike now, and the machine says
that it is so. In the simulator packets themselves are late: nobody who dials is sooner. On real
machines connections go through proxies, which answer a handshake at once, so a dial proves nothing.
There it is proven that each connection goes through one, that a proxy with the same delays is as
slow as it should be, and of brokers that their answers are late. A heal is proven in the same way:
no delay is left but of other nodes, and dials and answers are prompt. Units: ms where a name says
so, else seconds.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from maxq.harness.client.probes import PROBE_TIMEOUT_S, probing, until
from maxq.harness.cluster.processes import Nodes
from maxq.harness.cluster.ways.ways import Delaying, Way, Ways
from maxq.harness.contracts.cluster import Direction, Proof
from maxq.harness.contracts.environment import Detour, Echo, Port, Role
from maxq.harness.contracts.ways import Ports
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame

PROXIED_S, HEAL_TIMEOUT_S = 5.0, 10.0
EARLY_MS = 1.0  # by which two clocks may be apart
ECHO_MOST_MS = 5_000  # no echo is waited for longer
PROMPT_MS = 100  # that a sound broker may take for an answer, on a busy machine
SHARE = 0.1  # by which a bandwidth may be another than it should be
NOT_LATE = "handshakes: a proxy answers them at once"


class Dialled(msgspec.Struct, frozen=True):
    """What a dial met, and after how long (ms)."""

    met: Port
    ms: int


class Delays:
    """What machines take late.

    Args:
        nodes: what runs on them.
        ways: between them; what is late on which is remembered there.
    """

    def __init__(self, nodes: Nodes, ways: Ways) -> None:
        self._nodes = nodes
        self._ways = ways
        self._installing = asyncio.Lock()

    def delaying(self, node: str) -> bool:
        return self._nodes.process(node) in self._ways.delaying

    async def delay(
        self,
        node: str,
        *,
        ms: int,
        jitter_ms: int = 0,
        kb_s: int = 0,
        peers: Sequence[str],
        ways: Direction,
        ports: Ports = "all",
    ) -> Proof:
        node = self._nodes.process(node)
        others, lacking = self._ways.others(node, peers, ports)
        if not others:
            return Proof(False, {"reason": lacking})
        before = _all_ways(node, self._ways.delaying.get(node))
        wanted = self._ways.delaying[node] = Delaying(others, ways, ms, jitter_ms, kb_s, ports)
        late = _all_ways(node, wanted)
        in_force = await self._install([*before, *late])
        seen: dict[str, Any] = {"ms": ms, "peers": list(others)}
        if await self._detour(late) is None:
            holds = await self._dialled_late(wanted, late, seen)
        else:
            holds = await self._led(wanted, late, seen) and await self._late(wanted, late, seen)
        return Proof(in_force and holds, seen)

    async def stop_delay(self, node: str) -> Proof:
        node = self._nodes.process(node)
        ended = self._ways.delaying.pop(node, None)
        ways = _all_ways(node, ended)
        in_force = await self._install(ways)
        seen: dict[str, Any] = {}
        if ended is None or not ways:
            return Proof(in_force, seen)
        # Where packets are late or lost for another reason, so is every answer.
        free = [way for way in ways if self._free(way)]
        packets = await self._detour(ways) is None
        prompt_ms = ended.least_ms if packets else max(ended.least_ms, PROMPT_MS)

        async def soon() -> bool:
            if packets:
                dials = await self._dials(ended, free, PROBE_TIMEOUT_S)
                seen["dials"] = msgspec.to_builtins(dials)
                took = [d.ms for d in dials.values() if d.met != "silent"]
            else:
                seen["asked_ms"] = await self._asked(free, PROBE_TIMEOUT_S)
                took = list(seen["asked_ms"].values())
            return all(ms < prompt_ms for ms in took)

        prompt = not ended.least_ms or await until(soon, HEAL_TIMEOUT_S)
        return Proof(in_force and prompt, seen)

    async def _install(self, ways: Iterable[Way]) -> bool:
        """Let the machines at the ends of these ways take late what all delays together say;
        whether they say that they do."""
        async with self._installing:  # else what another heal has ended could come back
            wanted = {to: self._ways.delays_at(to) for to, _ in ways}
            # Not in a group, whose error would not say what failed.
            machine = self._nodes.machine
            await asyncio.gather(*(machine(to).set_delay(late) for to, late in wanted.items()))
            return all([list(await machine(to).delays()) == late for to, late in wanted.items()])

    def _free(self, way: Way) -> bool:
        to, source = way
        late = [d.source for d in self._ways.delays_at(to)]
        late_back = [d.source for d in self._ways.delays_at(source)]
        lossless = source in self._ways.lossless(to, [source])
        return lossless and source not in late and to not in late_back

    # Packets that are late: who dials is late as well.

    async def _dialled_late(
        self, wanted: Delaying, late: Sequence[Way], seen: dict[str, Any]
    ) -> bool:
        dials = await self._dials(wanted, late, PROBE_TIMEOUT_S + 2 * wanted.most_ms / 1000)
        seen["dials"] = msgspec.to_builtins(dials)
        # Whom a cut keeps away can say nothing; whoever got there must have waited.
        return all(d.ms >= wanted.least_ms for d in dials.values() if d.met != "silent")

    async def _dials(
        self, delaying: Delaying, ways: Sequence[Way], timeout_s: float
    ) -> Mapping[str, Dialled]:
        """What those who send on these ways meet, by their names or, from one to many, by whom they
        dial."""
        loop = asyncio.get_running_loop()
        targets = {to for to, _ in ways}

        async def dial(to: str, source: str) -> Dialled:
            host, port = self._ways.dialled(to, delaying.ports)
            begun = loop.time()
            met = await self._nodes.machine(source).probe(host, port, timeout_s=timeout_s)
            return Dialled(met, round((loop.time() - begun) * 1000))

        async with asyncio.TaskGroup() as group:
            tasks = {(to, source): group.create_task(dial(to, source)) for to, source in ways}
        return {
            source if len(targets) == 1 else f"{source}>{to}": task.result()
            for (to, source), task in tasks.items()
        }

    # Connections through proxies.

    async def _detour(self, ways: Sequence[Way]) -> Detour | None:
        """What is seen of the delays at the ends of these ways, all together."""
        every = []
        for to in dict.fromkeys(to for to, _ in ways):
            found = await self._nodes.machine(to).detour()
            if found is None:
                return None
            every.append(found)
        return Detour(
            straight=tuple(end for one in every for end in one.straight),
            redirected=sum(one.redirected for one in every),
        )

    async def _led(self, wanted: Delaying, late: Sequence[Way], seen: dict[str, Any]) -> bool:
        """Whether all connections are led through proxies, and those are as slow as they should
        be."""

        async def led() -> bool:
            detour = await self._detour(late)
            if detour is None:
                return False
            seen["straight"], seen["redirected"] = list(detour.straight), detour.redirected
            return not detour.straight and detour.redirected > 0

        holds = await until(led, PROXIED_S)
        echoes = await self._echoes(late[0])
        seen["echo_ms"] = {end: round(echo.ms, 1) for end, echo in echoes.items()}
        rates = {end: round(e.kb_s, 1) for end, e in echoes.items() if e.kb_s is not None}
        if rates:
            seen["echo_kb_s"] = rates
        narrowest = self._ways.narrowest
        narrow = all(
            narrowest * (1 - SHARE) <= rate <= wanted.kb_s * (1 + SHARE) for rate in rates.values()
        )
        least_ms = min(wanted.least_ms, ECHO_MOST_MS)
        slow = all(echo.ms >= least_ms - EARLY_MS for echo in echoes.values())
        seen["not_late"] = NOT_LATE
        return holds and slow and (not wanted.kb_s or (bool(rates) and narrow))

    async def _echoes(self, way: Way) -> dict[str, Echo]:
        """What proxies do that have the delays of those at both ends of a way."""
        echoes = (self._nodes.machine(end).echo(other) for end, other in (way, way[::-1]))
        return dict(zip(way, await asyncio.gather(*echoes), strict=True))

    async def _late(self, wanted: Delaying, late: Sequence[Way], seen: dict[str, Any]) -> bool:
        """Whether brokers answer late, where their ports are concerned."""
        if wanted.ports not in ("all", "remoting"):
            return True
        asked = seen["asked_ms"] = await self._asked(
            late, PROBE_TIMEOUT_S + self._ways.slowness({end for way in late for end in way})
        )
        return all(ms >= wanted.least_ms - EARLY_MS for ms in asked.values())

    async def _asked(self, ways: Sequence[Way], timeout_s: float) -> dict[str, float]:
        """How long brokers at one end of each way take to say something to the other (28), in ms.
        Who does not answer is left out."""
        pairs = dict.fromkeys(
            (asker, name)
            for to, source in ways
            for asker, broker in ((source, to), (to, source))
            for name in self._brokers(broker)
        )
        async with asyncio.TaskGroup() as group:
            tasks = {
                f"{asker}>{name}": group.create_task(self._ask(asker, name, timeout_s))
                for asker, name in pairs
            }
        return {pair: ms for pair, task in tasks.items() if (ms := task.result()) is not None}

    def _brokers(self, process: str) -> list[str]:
        return [
            name for name in self._nodes.on(process)
            if Role.BROKER in self._nodes.node(name).roles and self._nodes.answers(name)
        ]  # fmt: skip

    async def _ask(self, asker: str, broker: str, timeout_s: float) -> float | None:
        loop = asyncio.get_running_loop()
        request = Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO, ext={})
        begun = loop.time()
        with suppress(OSError, RemoteProtocolError):
            async with probing(self._nodes.machine(asker).dial) as pool:
                await pool.call(self._nodes.address(broker), request, timeout_s=timeout_s)
                return round((loop.time() - begun) * 1000, 1)
        return None


def _all_ways(node: str, delaying: Delaying | None) -> list[Way]:
    return [] if delaying is None else [w for every in delaying.directions(node) for w in every]
