"""Workload lock: clients compete for the locks of ordered queues, as orderly consumers do.

A key is one queue of one broker set. Every client of the consumer group tries for a random key,
keeps it for a few renewals, and gives it back, or falls silent so that the lease has to run out.
Requests go to any broker of the set: in strict mode each of them must ask a quorum, so two brokers
that decide alone are soon found out. Operations (`maxq.histories.observed`):

    acquire  key    ok: granted; fail: not; info: perhaps
    renew    key    the same, by who holds it
    release  key    ok: given back

A process is one client, so a new process competes with what its predecessor may still hold.
At the end nobody asks for longer than a lease, so that a lock which is refused then is kept by
nobody. Then each lock is handed over once: one client acquires it, another one tries to, the first
gives it back, and a while later the other one gets it. Claims: L1, L2, L8, L9.
"""

import asyncio
from collections.abc import Sequence
from random import Random

import msgspec

from maxq.harness.client.locks import LockSession
from maxq.harness.client.session import QueueName
from maxq.harness.contracts.cluster import Cluster, Workload
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.generator import PENDING, Context, Generator, Step
from maxq.harness.contracts.outcome import Client, Ok, Outcome
from maxq.harness.generators import each_thread, phases, reserve, sleep, time_limit
from maxq.histories.observed import ACQUIRE, RELEASE, RENEW
from maxq.histories.op import Op, Process

TOPIC, CONSUMER_GROUP = "maxq-lock", "maxq-lock"
QUEUES = 2  # of each broker set
RENEWALS = 5  # a holder renews fewer times than this
RENEW_GAP_NS = 1_000_000_000
TRY_GAP_NS = 400_000_000  # between attempts, at the most
SILENT_SHARE = 0.25  # of the holders, who never give back
# How long after a release it is asked for, and before the first, beyond a lease: a request may wait
# for a broker's quorum so long.
AFTER_RELEASE_NS = 2_500_000_000
HAND_OVER_LEASES = 3  # that the last hand-over may take: of a holder before, of one of its own


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


class HandOver(msgspec.Struct, frozen=True):
    """Two threads hand each of some locks from the first to the second, which gives it back."""

    keys: tuple[int, ...]
    step: int = 0  # of `STEPS`
    next_ns: int = 0

    def op(self, ctx: Context) -> Step | None:
        if not self.keys:
            return None
        second, f, _ = STEPS[self.step]
        process = tuple(ctx.workers.values())[int(second)]
        if not ctx.is_free(process):
            return PENDING, self
        time = max(ctx.time, self.next_ns)
        return Op("invoke", process, f, self.keys[0], time=time), self

    def update(self, ctx: Context, event: Op) -> Generator:
        if event.type == "invoke":
            return self
        *_, until_ok = STEPS[self.step]
        if until_ok and event.type != "ok":  # a lease may have to run out first
            return HandOver(self.keys, self.step, event.time + TRY_GAP_NS)
        if self.step + 1 < len(STEPS):
            gap_ns = AFTER_RELEASE_NS if event.f == RELEASE else 0
            return HandOver(self.keys, self.step + 1, event.time + gap_ns)
        return HandOver(self.keys[1:], 0, event.time)


# Whether the second of two threads does it, what it does, and whether until that has succeeded.
STEPS = (
    (False, ACQUIRE, True),
    (True, ACQUIRE, False),
    (False, RELEASE, False),
    (True, ACQUIRE, True),
    (True, RELEASE, False),
)


class Locker:
    """Performs one attempt at a broker of the key's set, chosen anew each time."""

    def __init__(
        self, cluster: Cluster, session: LockSession, keys: Sequence[QueueName], rng: Random
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
        return msgspec.structs.replace(outcome, ext={**(outcome.ext or {}), "broker": broker})

    async def close(self) -> None:
        self._session.close()


def lock_workload(
    cluster: Cluster, group: asyncio.TaskGroup, *, clients: int, seed: int, lease_ms: int
) -> Workload:
    """Make the workload.

    Args:
        cluster: where it runs; its brokers must be in strict mode.
        group: the run's tasks.
        clients: threads that compete.
        seed: of the clients' choices.
        lease_ms: how long a broker keeps a lock for a client that is silent.
    """
    sets = sorted({n.broker_set for n in cluster.by_role(Role.BROKER) if not n.spare})
    keys = [QueueName(TOPIC, s, q) for s in sets for q in range(QUEUES)]

    def client(thread: int) -> Client:
        session = LockSession(CONSUMER_GROUP, cluster.dial, group)
        return Locker(cluster, session, keys, Random(f"{seed}/lock/{thread}"))

    pairs = [tuple(range(len(keys)))[n :: clients // 2] for n in range(clients // 2)]
    hand_over = reserve(*((2, HandOver(pair)) for pair in pairs))
    lease_ns = lease_ms * 1_000_000
    return Workload(
        name="lock",
        threads=clients,
        generator=each_thread(Rival(len(keys))),
        final_generator=phases(
            sleep(lease_ns + AFTER_RELEASE_NS), time_limit(HAND_OVER_LEASES * lease_ns, hand_over)
        ),
        client=client,
        topics={},
        groups=(CONSUMER_GROUP,),
    )
