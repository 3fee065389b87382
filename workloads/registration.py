"""Workload registration: brokers that come, go and come back, and applicants for ids.

It owns spare brokers, each a set of its own that no other workload touches. A thread for each lets
it join, and takes it away cleanly or by a kill; while it is away its machine may get another
address, and its store may be wiped, so that it comes back as a new broker. Other threads apply for
ids of invented sets as brokers do, a few applicants racing for each. Operations:
`maxq.histories.observed`.

A store is wiped on purpose and says so: the claim that an id survives ends there. That no id is
given to two owners holds on. Claims: S1, S2.
"""

import asyncio

import msgspec

from maxq.harness.client.id_applicant import Applicant
from maxq.harness.contracts.cluster import (
    AddressChangeable,
    Cluster,
    Killable,
    Proof,
    Stored,
    Workload,
)
from maxq.harness.contracts.environment import Capability
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Fail, Info, Ok, Outcome
from maxq.harness.generators import each_thread, reserve
from maxq.histories.observed import APPLY_ID, JOIN, LEAVE, WIPE
from maxq.histories.op import Op, Process

KILL, CHANGE_ADDRESS = "kill-broker", "change-address"
APPLICANTS_OF_SET = 3  # claims that each thread makes for a set before the next one
UP_NS, DOWN_NS = 3_000_000_000, 1_000_000_000  # how long a broker stays, and is away, at least
JOIN_TIMEOUT_S = 15.0
POLL_S = 0.1


class Comings(msgspec.Struct, frozen=True):
    """One thread and its broker: what is left of this round, and when the next step may come."""

    nodes: tuple[str, ...]
    changes_address: bool  # addresses can be changed here
    next_ns: int = 0
    left: tuple[str, ...] = (JOIN,)

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        value = {"node": self.nodes[self._place(ctx, process)]}
        return Op("invoke", process, self.left[0], value, time=max(ctx.time, self.next_ns)), self

    def _place(self, ctx: Context, process: Process) -> int:
        """Which of the threads this is; each has a broker of its own."""
        return ctx.roster.positions[process] % len(self.nodes)

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type == "invoke":
            return self
        if event.f == JOIN and event.type != "ok" and ctx.rng.random() < 0.5:
            return msgspec.structs.replace(self, next_ns=event.time + DOWN_NS)  # once more
        left = self.left[1:] or self._round(ctx)
        gap_ns = UP_NS if event.f == JOIN else DOWN_NS
        return msgspec.structs.replace(self, left=left, next_ns=event.time + gap_ns)

    def _round(self, ctx: Context) -> tuple[str, ...]:
        rng = ctx.rng
        meanwhile = [CHANGE_ADDRESS] if self.changes_address and rng.random() < 0.6 else []
        meanwhile += [WIPE] if rng.random() < 0.3 else []
        return (rng.choice((LEAVE, KILL)), *meanwhile, JOIN)


class Applications(msgspec.Struct, frozen=True):
    """One thread of applicants; `count` are the claims it has begun."""

    count: int = 0

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        value = {
            "set": f"a{self.count // APPLICANTS_OF_SET}",
            "code": f"maxq-{process};{self.count}",
        }
        op = Op("invoke", process, APPLY_ID, value, time=ctx.time)
        return op, Applications(self.count + 1)

    def update(self, ctx: Context, event: Op) -> Generator:
        return self


class Owner:
    """Does to a spare broker what the operation says."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        node, cluster = op.value["node"], self._cluster
        match op.f:
            case "join":
                return await self._join(node)
            case "leave":
                return _outcome(op, await cluster.offers(Killable).stop(node))
            case "kill-broker":
                return _outcome(op, await cluster.offers(Killable).kill(node))
            case "change-address":
                return _outcome(
                    op, await cluster.offers(AddressChangeable).change_address(node, restart=False)
                )
            case "wipe":
                return _outcome(op, await cluster.offers(Killable).wipe(node))
        return Fail(["no-such-operation", op.f])

    async def _join(self, node: str) -> Outcome:
        started = await self._cluster.offers(Killable).start(node)
        if not started.holds:
            return Info(["not-started", str(started.seen)])
        loop = asyncio.get_running_loop()
        end = loop.time() + JOIN_TIMEOUT_S
        while (broker_id := await self._cluster.offers(Stored).identity(node)) is None:
            if loop.time() > end:
                return Info(["no-identity", f"after {JOIN_TIMEOUT_S} s"])
            await asyncio.sleep(POLL_S)
        broker_set = next(n.broker_set for n in self._cluster.nodes if n.name == node)
        address = self._cluster.address(node)
        return Ok({"node": node, "set": broker_set, "id": broker_id, "address": address})

    async def close(self) -> None:
        """Nothing is held."""


def _outcome(op: Op, proof: Proof) -> Outcome:
    if not proof.holds:
        return Info(["not-proven", str(proof.seen)])
    return Ok(op.value, ext=proof.forced or None)  # a broker that was killed has left


class Applying:
    """An applicant, as a client."""

    def __init__(self, applicant: Applicant) -> None:
        self._applicant = applicant

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        outcome = await self._applicant.apply(op.value["set"], op.value["code"])
        if isinstance(outcome, Ok):
            return Ok({**op.value, "id": outcome.value})
        return outcome

    async def close(self) -> None:
        self._applicant.close()


def registration_workload(
    cluster: Cluster,
    group: asyncio.TaskGroup,
    *,
    cluster_name: str,
    applicants: int,
    capabilities: frozenset[Capability],
) -> Workload:
    """Make the workload.

    Args:
        cluster: where it runs; each of its spares gets a thread.
        group: the run's tasks.
        cluster_name: RocketMQ's name of the cluster.
        applicants: threads that apply for ids.
        capabilities: of the environment; without `CHANGE_ADDRESS` no address changes.
    """
    spares = tuple(n.name for n in cluster.nodes if n.spare and not n.guest)

    def client(thread: int) -> Client:
        if thread < len(spares):
            return Owner(cluster)
        return Applying(
            Applicant(cluster.controllers, cluster.resolve, cluster_name, cluster.dial, group)
        )

    comings = each_thread(Comings(spares, Capability.CHANGE_ADDRESS in capabilities))
    applying = each_thread(Applications())
    return Workload(
        name="registration",
        threads=len(spares) + applicants,
        generator=reserve((len(spares), comings), default=applying),
        final_generator=None,
        client=client,
        topics={},
    )
