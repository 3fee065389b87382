"""Machines that are not as they should be: clocks and disks that a fault has made bad.

Each fault is proven by its machine: what the clock shows against the harness's own, what happens to
a file that is written and synced, what is read of one. Each heal is proven in the same way. What is
wrong with a machine is remembered here, since other faults must know of it: a node cannot start on
a disk that takes nothing.

Simulated nodes ask their machine for the time. On a real machine a process has a wrong clock by a
library, so there a clock is proven by three things. A process that is started there shows the time,
to the ms. The node's own process has loaded that library and was started with the file that says
how far the clock is off, as its kernel says; the library reads the file again within
`maxq.harness.environments.machines.wrong_clock.SEEN_S`, which is waited for. Each broker that
answers says how long it has run (28), by its wall clock: that has moved with it, to `WORD_S`.
Name servers and controllers tell no time in any answer, so of them the first two are all.
Units: milliseconds where a name says so, else seconds.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from maxq.harness.client.probes import probing, runtime_info, until, uptime_s
from maxq.harness.cluster.processes import Nodes
from maxq.harness.contracts.cluster import Proof
from maxq.harness.contracts.environment import (
    ClockShown,
    Environment,
    Misread,
    Role,
    Written,
)
from maxq.reference.records import RemoteProtocolError

CLOCK = "clock"
SLOW_DISK, FROZEN_DISK, FULL_DISK = "slow-disk", "frozen-disk", "full-disk"
MISREADING_DISK = "misreading-disk"
DISK = frozenset((SLOW_DISK, FROZEN_DISK, FULL_DISK, MISREADING_DISK))
CLOCK_MS_MAX = 2  # of what is read apart: two clocks of whole milliseconds
WORD_S, WORDS_TIMEOUT_S = 2.0, 10.0  # of two numbers of whole seconds; and until all have said so
DRIFT_SEEN_MS = 6  # how far a drift must have gone to be one
DRIFT_S_MAX = 12.0  # how long that may take
SYNC_S = 0.5  # beyond every sync of a sound disk


class Hardware:
    """What is wrong with the machines of a run.

    Args:
        environment: how brokers are asked.
        nodes: what runs on them.
    """

    def __init__(self, environment: Environment, nodes: Nodes) -> None:
        self._environment = environment
        self._nodes = nodes
        self._right_ms: dict[str, float] = {}  # by node: what its clock showed at time 0
        self._ailments: dict[str, frozenset[str]] = {}

    def ailments(self, node: str) -> frozenset[str]:
        """What is wrong with a node's machine now."""
        return self._ailments.get(self._nodes.process(node), frozenset())

    def _set(self, node: str, of: frozenset[str], now: frozenset[str]) -> None:
        self._ailments[self._nodes.process(node)] = self.ailments(node) - of | now

    # Clocks.

    async def _shown(self, node: str) -> ClockShown:
        """A clock, against where it was before it was touched first."""
        pid = await self._nodes.pid(node)
        shown = await self._nodes.machine(node).clock(pid)
        right_ms = self._right_ms.setdefault(self._nodes.process(node), shown.ahead_ms)
        return ClockShown(shown.ahead_ms - right_ms, shown.followed)

    async def bump_clock(self, node: str, *, offset_ms: int, drift_ppm: int) -> Proof:
        self._set(node, frozenset(), frozenset((CLOCK,)))
        proof = await self._stepped(node, offset_ms, drift_ppm)
        if not drift_ppm:
            return proof
        wait_s = min(DRIFT_S_MAX, 1000 * DRIFT_SEEN_MS / abs(drift_ppm))
        before = await self._shown(node)
        await asyncio.sleep(wait_s)
        drifted_ms = (await self._shown(node)).ahead_ms - before.ahead_ms
        expected_ms = drift_ppm * wait_s / 1000
        seen = {"drifted_ms": round(drifted_ms), "within_ms": round(wait_s * 1000)}
        drifts = abs(drifted_ms - expected_ms) <= CLOCK_MS_MAX < abs(drifted_ms)
        return Proof(proof.holds and drifts, {**proof.seen, **seen})

    async def reset_clock(self, node: str) -> Proof:
        proof = await self._stepped(node, 0, 0)
        self._set(node, frozenset((CLOCK,)), frozenset())
        return proof

    async def _stepped(self, node: str, offset_ms: int, drift_ppm: int) -> Proof:
        """Set a clock off, and prove that it is off by so much."""
        before = await self._shown(node)
        real = before.followed is not None
        words = await self._words(node) if real else {}
        await self._nodes.machine(node).set_clock(offset_ms, drift_ppm)
        after = await self._shown(node)
        seen: dict[str, Any] = {"off_ms": round(after.ahead_ms)}
        holds = abs(after.ahead_ms - offset_ms) <= CLOCK_MS_MAX
        if real:
            seen["followed"] = after.followed
            holds = holds and after.followed is True
        if words:
            moved_s = (after.ahead_ms - before.ahead_ms) / 1000
            said, agree = await self._agreed(node, words, moved_s)
            seen["moved_s"] = said
            holds = holds and agree
        return Proof(holds, seen)

    async def _words(self, node: str) -> dict[str, float]:
        """How long each broker of a machine says that it has run (s), less the time of the harness:
        constant while its clock runs right. Who does not answer is left out."""
        said = {}
        async with probing(self._environment.observer_dial) as pool:
            for name in self._nodes.on(self._nodes.process(node)):
                known = self._nodes.node(name)
                if Role.BROKER in known.roles and self._nodes.answers(name):
                    with suppress(OSError, RemoteProtocolError):
                        ran_s = uptime_s(await runtime_info(pool, self._nodes.address(name)))
                        if ran_s is not None:
                            said[name] = ran_s - asyncio.get_running_loop().time()
        return said

    async def _agreed(
        self, node: str, before: Mapping[str, float], moved_s: float
    ) -> tuple[dict[str, int], bool]:
        """By how much (s) the clock of each broker has moved by its own word, and whether it is by
        so much."""
        said: dict[str, int] = {}

        async def moved() -> bool:
            now = await self._words(node)
            by = {name: now[name] - ran_s for name, ran_s in before.items() if name in now}
            said.update({name: round(s) for name, s in by.items()})
            return len(by) == len(before) and all(abs(s - moved_s) <= WORD_S for s in by.values())

        return said, await until(moved, WORDS_TIMEOUT_S)

    # Disks.

    async def break_disk(
        self,
        node: str,
        *,
        full: bool = False,
        sync_ms: int | None = None,
        frozen: bool = False,
        misread: Misread | None = None,
    ) -> Proof:
        kinds = (
            *((FULL_DISK, full), (FROZEN_DISK, frozen), (SLOW_DISK, sync_ms is not None)),
            (MISREADING_DISK, misread is not None),
        )
        wrong = frozenset(kind for kind, there in kinds if there)
        if not wrong:
            return Proof(False, {"reason": "no fault was asked for"})
        machine = self._nodes.machine(node)
        read = misread and misread._replace(path=f"{self._nodes.store(node)}/{misread.path}")
        before = await machine.get(read.path) if read else None
        await machine.set_disk(full=full, sync_ms=sync_ms, frozen=frozen, misread=read)
        self._set(node, DISK, wrong)
        self._nodes.excuse(node)
        least_ms = sync_ms or 0
        met, took_ms = await self._tried(node, SYNC_S + least_ms / 1000)
        wanted: Written = "refused" if full else "hanging" if frozen else "written"
        holds = met == wanted and (full or took_ms >= least_ms)
        if read:
            holds = holds and _misread(before, await machine.get(read.path), read.bit)
        return Proof(holds, {"disk": met, "took_ms": took_ms})

    async def heal_disk(self, node: str) -> Proof:
        await self._nodes.machine(node).set_disk()
        self._set(node, DISK, frozenset())
        met, took_ms = await self._tried(node, SYNC_S)
        return Proof(met == "written", {"disk": met, "took_ms": took_ms})

    async def _tried(self, node: str, timeout_s: float) -> tuple[Written, int]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        met = await self._nodes.machine(node).try_disk(timeout_s=timeout_s)
        return met, round((loop.time() - begun) * 1000)


def _misread(before: bytes | None, now: bytes | None, bit: int) -> bool:
    """Whether a file that is read now differs from before in this bit, and in nothing before it."""
    if before is None or now is None or len(before) != len(now) or bit >= 8 * len(before):
        return False
    at = bit // 8
    return before[at] ^ now[at] == 1 << bit % 8 and before[:at] == now[:at]
