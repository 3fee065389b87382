"""Masters and slaves of Apache RocketMQ and ours in one set, without controllers.

Both sides of every protocol are ours in all other tests of pairs. Here one set has a master of
RocketMQ and a slave of ours, the other one the reverse, under our name server: the slaves
copy and acknowledge, each acts for its master once that is killed, gives what is there to
consumers, and takes an offset, which its master has when it is back.

One pull from a slave keeps its master of 5.5.0 away for good where both are RocketMQ's
(`return_after_pull`). With one of ours on either side it comes back.

When a slave of RocketMQ stops acting is not looked at: it takes 90 s, if its table lacks the topic
of half messages, which a master of ours has not. The thread that stops its checks of transactions
holds a lock and waits for that of the checks, which wants the lock to register the topic.
"""

import asyncio
from pathlib import Path

import pytest
from mixed_world import FETCH_S, TOPIC, World, mixed, mixed_target

from maxq.harness.client.places import place
from maxq.harness.client.probes import runtime_info
from maxq.harness.client.session import QueueName, pull_of
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Settings, Topology
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import TopicRequest
from maxq.reference.wire.route import TopicRouteData

COPIED, WHILE_AWAY = 3, 5  # offsets that are committed
NAMESRV, OURS = "n0", "b0-1"

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(FETCH_S + 240)]


async def shown(w: World, broker_set: str) -> dict[int, str]:
    """Whom a route shows of a set."""
    request = Frame(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=to_ext(TopicRequest(topic=TOPIC)))
    route = TopicRouteData.from_json((await w.call(NAMESRV, request)).body)
    return next((d.broker_addrs for d in route.broker_datas if d.broker_name == broker_set), {})


async def acts(w: World, slave: str) -> bool:
    """Whether a slave says that it acts, and the route shows it as master."""
    told = place(await runtime_info(w.pool, w.address(slave)), first=False)
    here = (await shown(w, slave.partition("-")[0])).get(0) == w.address(slave)
    return told.acting is True and here


async def away_and_back(w: World, master: str, slave: str) -> None:
    """The master is killed; what it acknowledged is read from its slave; it comes back."""
    name = master.partition("-")[0]
    acked = set(w.acked)
    await w.send_some(master)
    sent = set(w.acked) - acked
    assert (await w.processes.kill(master)).holds
    await w.until(f"{slave} acts", lambda: acts(w, slave))
    read = b""
    for queue_id in range(4):
        pull = pull_of(QueueName(TOPIC, name, queue_id), 0, consumer_group="mixed", count=64)
        read += (await w.call(slave, pull)).body or b""
    assert all(body in read for body in sent)
    await w.commit(slave, WHILE_AWAY)
    assert (await w.processes.start(master)).holds
    await w.until(f"{master} is back", w.recovered)
    assert await w.committed(master) == WHILE_AWAY
    if slave == OURS:
        await w.until(f"{slave} does not act", lambda: has_stopped(w, slave))
    await w.until_writable(master)
    await w.send_some(master)


async def has_stopped(w: World, slave: str) -> bool:
    """Whether a slave does not act any more."""
    told = place(await runtime_info(w.pool, w.address(slave)), first=False)
    return told.acting is False


def test_slaves_act_for_masters_of_the_other_implementation(release: str, tmp_path: Path) -> None:
    """Replication, acting, pre-online, both ways; what was acknowledged is in both logs."""
    target = mixed_target(release, {"b0-0", "b1-1"})
    topology = Topology(controllers=0, broker_sets=2, replicas=2)
    settings = Settings(topology=topology, profile="P-SYNC")

    async def run() -> None:
        async with mixed(tmp_path, target, settings) as w:
            for slave in (OURS, "b1-1"):
                await w.until(f"{slave} has tables", lambda of=slave: w.has_tables(of))  # type: ignore[misc]
                assert await w.committed(slave) == COPIED
            for master, slave in (("b0-0", OURS), ("b1-0", "b1-1")):
                await away_and_back(w, master, slave)
            await w.until("logs of one length", w.queries.level)
            for node in w.by_role(Role.BROKER):
                table = await runtime_info(w.pool, w.address(node.name))
                log = await w.log(node.name, int(table["commitLogMaxOffset"]))
                other = f"{node.broker_set}-{1 - node.replica}"
                assert log == await w.log(other, len(log)), f"{node.name} and {other} differ"

    asyncio.run(run())
