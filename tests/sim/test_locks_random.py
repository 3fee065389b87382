"""L1, L2 by random schedules: strict mode under concurrent clients, restarts and lost brokers.

Three clients of one queue ask random brokers, renew, and unlock; brokers are killed and started
again at random moments. Oracle: a client may believe in its lock for half a lease after the
answer, as Java's does (30 of 60 s); no two clients may ever believe at the same time.
"""

import asyncio
from random import Random

import pytest
from reference_world import BROKER_CONF, NAMESRV_CONF, SECOND_NS, Cluster, Process

from maxq.reference.rpc import Pool
from maxq.reference.wire.bodies import LockRequest, LockResponse, MessageQueue
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
LEASE_S = 4
CLIENTS = ("client", "relay", "controller")
BROKERS = {"b1": "198.18.0.48:10911", "b2": "198.18.0.64:10911", "b3": "198.18.0.80:10911"}
CONF = {
    **BROKER_CONF, "lockInStrictMode": "true", "totalReplicas": "3",
    "rocketmq.broker.rebalance.lockMaxLiveTime": str(LEASE_S * 1000),
}  # fmt: skip
Belief = tuple[int, int, str]  # from, to (ns), whose


def start(cluster: Cluster, name: str) -> Process:
    role = {"brokerRole": "SLAVE"} if name != "b1" else {}
    return cluster.start(name, "broker", {**CONF, **role, "brokerId": str(int(name[1]) - 1)})


def client(cluster: Cluster, name: str, rng: Random, beliefs: list[Belief]) -> None:
    """One client that asks for the queue's lock for ever."""
    queue = MessageQueue(broker_name="b", queue_id=0, topic="T")
    body = LockRequest(client_id=name, consumer_group="g", mq_set=(queue,)).to_json()

    async def ask(pool: Pool, code: int) -> Frame | None:
        try:
            at = rng.choice(sorted(BROKERS.values()))
            return await pool.call(at, Frame(code=code, ext={}, body=body), timeout_s=1)
        except (OSError, TimeoutError):
            return None

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            while True:
                await asyncio.sleep(rng.uniform(0.0, 0.7))
                answer = await ask(pool, RequestCode.LOCK_BATCH_MQ)
                if answer is None or not LockResponse.from_json(answer.body).lock_ok_mq_set:
                    continue
                now = cluster.now_ns
                beliefs.append((now, now + LEASE_S * SECOND_NS // 2, name))
                if rng.random() < 0.2:  # it stops believing, then says so
                    beliefs[:] = [(a, min(b, now) if who == name else b, who)
                                  for a, b, who in beliefs]  # fmt: skip
                    await ask(pool, RequestCode.UNLOCK_BATCH_MQ)

    loop, _ = cluster.world.process(cluster.machines[name])
    loop.create_task(main())


@pytest.mark.parametrize("seed", range(12))
def test_no_two_clients_believe_in_one_lock(seed: int) -> None:
    """L1, L2: whatever restarts; and L5, L8: with all brokers up again, somebody gets it."""
    rng = Random(f"locks/{seed}")
    with Cluster(seed) as cluster:
        beliefs: list[Belief] = []
        cluster.up("namesrv", "namesrv", NAMESRV_CONF)
        up = {name: start(cluster, name) for name in BROKERS}
        for name in CLIENTS:
            client(cluster, name, Random(f"{seed}/{name}"), beliefs)
        for _ in range(12):
            sleep(cluster, rng.uniform(0.5, 6))
            victim = rng.choice(sorted(BROKERS))
            up[victim].loop.kill()
            sleep(cluster, rng.choice([0.01, 1, 5]))
            up[victim] = start(cluster, victim)
        before = len(beliefs)
        sleep(cluster, 3 * LEASE_S)
        assert len(beliefs) > before
        ordered = sorted(beliefs)
        for at, (_, end, who) in enumerate(ordered):
            for begin, _, other in ordered[at + 1 :]:
                if begin >= end:
                    break
                assert who == other, f"seed {seed}: {who} and {other} at {begin}"
        assert len({who for _, _, who in beliefs}) > 1


def sleep(cluster: Cluster, seconds: float) -> None:
    """Let time pass without a process of its own."""
    end = cluster.now_ns + round(seconds * SECOND_NS)
    cluster.world.scheduler.run_until(lambda: cluster.now_ns >= end)
