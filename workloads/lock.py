"""Workload lock: clients compete for the locks of ordered queues, as orderly consumers do.

A key is one queue of one broker set. Every client of the consumer group tries for a random key,
keeps it for a few renewals, and gives it back, or falls silent so that the lease has to run out.
Requests go to any broker of the set: in strict mode each of them must ask a quorum, so two brokers
that decide alone are soon found out. Operations (`histories.observed`):

    acquire  key    ok: granted; fail: not; info: perhaps
    renew    key    the same, by who holds it
    release  key    ok: given back

A process is one client, so a new process competes with what its predecessor may still hold.
Claims: L1, L2.
"""

import asyncio
from collections.abc import Sequence
from random import Random

import msgspec

from harness.client.locks import LockSession
from harness.client.outcome import Client, Ok, Outcome
from harness.client.session import QueueName
from harness.cluster import ClusterView, Workload
from harness.environments.api import Role
from harness.generator import PENDING, Context, Generator, Step
from harness.generators import each_thread
from histories.observed import ACQUIRE, RELEASE, RENEW
from histories.op import Op, Process

TOPIC, CONSUMER_GROUP = "maxq-lock", "maxq-lock"
QUEUES = 2  # of each broker set
RENEWALS = 5  # a holder renews fewer times than this
RENEW_GAP_NS = 1_000_000_000
TRY_GAP_NS = 400_000_000  # between attempts, at the most
SILENT_SHARE = 0.25  # of the holders, who never give back


class Rival(msgspec.Struct, frozen=True):
    """One thread: tries for keys until it has one, keeps it for a while, and lets go."""

    keys: int
    next_ns: int = 0
    held: int | None = None
    holder: Process | None = None
    renewals: int = 0
    silent: bool = False  # does not give back what it holds

    def op(self, ctx: Context) -> Step | None:
        process = ctx.some_free_process()
        if process is None:
            return PENDING, self
        time = max(ctx.time, self.next_ns)
        if self.held is not None and process == self.holder:
            f = RENEW if self.renewals else RELEASE
            return Op("invoke", process, f, self.held, time=time), self
        key = ctx.rng.randrange(self.keys)
        return Op("invoke", process, ACQUIRE, key, time=time), self

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type == "invoke":
            return self
        granted = event.type == "ok" and event.f in (ACQUIRE, RENEW)
        if not granted:
            gap_ns = ctx.rng.randrange(TRY_GAP_NS // 2, TRY_GAP_NS)
            return Rival(self.keys, event.time + gap_ns)
        if event.f == ACQUIRE:
            renewals = ctx.rng.randrange(RENEWALS)
            silent = ctx.rng.random() < SILENT_SHARE
        else:
            renewals, silent = self.renewals - 1, self.silent
        next_ns = event.time + RENEW_GAP_NS
        if not renewals and silent:
            return Rival(self.keys, next_ns)
        return Rival(self.keys, next_ns, event.value, event.process, renewals, silent)


class Locker:
    """Performs one attempt at a broker of the key's set, chosen anew each time."""

    def __init__(
        self, cluster: ClusterView, session: LockSession, keys: Sequence[QueueName], rng: Random
    ) -> None:
        self._cluster = cluster
        self._session = session
        self._keys = keys
        self._rng = rng

    async def open(self) -> None:
        """Connections are made when first needed."""

    async def invoke(self, op: Op) -> Outcome:
        queue = self._keys[op.value]
        members = [
            n.name for n in self._cluster.by_role(Role.BROKER) if n.broker_set == queue.broker_set
        ]
        broker = self._cluster.address(self._rng.choice(members))
        attempt = self._session.unlock if op.f == RELEASE else self._session.lock
        outcome = await attempt(broker, f"maxq-{op.process}", queue)
        if isinstance(outcome, Ok):
            return Ok(op.value, ext={"broker": broker})
        return msgspec.structs.replace(outcome, ext={"broker": broker})

    async def close(self) -> None:
        self._session.close()


def lock_workload(
    cluster: ClusterView, group: asyncio.TaskGroup, *, clients: int, seed: int
) -> Workload:
    """Make the workload.

    Args:
        cluster: where it runs; its brokers must be in strict mode.
        group: the run's tasks.
        clients: threads that compete.
        seed: of the clients' choices.
    """
    sets = sorted({n.broker_set for n in cluster.by_role(Role.BROKER) if not n.spare})
    keys = [QueueName(TOPIC, s, q) for s in sets for q in range(QUEUES)]

    def client(thread: int) -> Client:
        session = LockSession(CONSUMER_GROUP, cluster.dial, group)
        return Locker(cluster, session, keys, Random(f"{seed}/lock/{thread}"))

    return Workload(
        name="lock",
        threads=clients,
        generator=each_thread(Rival(len(keys))),
        final_generator=None,
        client=client,
        topics={},
    )
