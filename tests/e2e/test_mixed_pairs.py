"""Masters and slaves of Apache RocketMQ and ours in one set, without controllers.

Both sides of every protocol are ours in all other tests of pairs. Here two sets have a master of
RocketMQ and a slave of ours, two others the reverse; one of each kind lives under our name server,
and one of each under RocketMQ's. The slaves copy and acknowledge. Each acts for its master once
that is killed, gives what is there to consumers, and takes an offset, which its master has when it
is back. What is delayed, and transactions that are open, move from a slave of ours to a master of
RocketMQ's, and the reverse: their topics are on one other set only, which has such a master.

One pull from a slave keeps its master of 5.5.0 away for good where both are RocketMQ's
(`return_after_pull`). With one of ours on either side it comes back.
"""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from mixed_world import FETCH_S, TOPIC, World, mixed, mixed_target

from maxq.harness.client.places import place
from maxq.harness.client.probes import runtime_info
from maxq.harness.client.producers import Decision, ProducerSession
from maxq.harness.client.session import QueueName
from maxq.harness.contracts.environment import Role, machine_address
from maxq.harness.contracts.outcome import Ok
from maxq.harness.contracts.target import NAMESRV_PORT, Settings, Topology
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import TopicRequest
from maxq.reference.wire.route import TopicRouteData

COPIED, WHILE_AWAY = 3, 5  # offsets that are committed
COUNT = 3  # delayed messages of a set, and transactions of each kind
LEVEL = "3"  # 10 s: due when the slave acts
MOVE_S = 90  # a check of transactions may come late, and a level of RocketMQ's wait for another
NAMESRV = [f"{machine_address(number)}:{NAMESRV_PORT}" for number in (1, 2)]
JAVA = {"b0-0", "b1-1", "b2-0", "b3-1", "n1"}
# Where topics are beside the set that is to lose its master.
PLACED = {"to-java": ("b0", "b2"), "to-ours": ("b1", "b3")}
# A slave asks one name server for its group: of ours the first, of RocketMQ's any, so that those
# have no other. A master of RocketMQ's asks any, and its slave has to be known to both.
KEYS = {
    "b0-1:namesrvAddr": ";".join(NAMESRV),
    "b1-1:namesrvAddr": NAMESRV[0],
    "b2-1:namesrvAddr": ";".join(reversed(NAMESRV)),
    "b3-1:namesrvAddr": NAMESRV[1],
}

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(FETCH_S + 300)]


class Pair(NamedTuple):
    """A broker set, where its messages move to while its master is away, and by which topic."""

    name: str
    target: str
    topic: str

    @property
    def master(self) -> str:
        return f"{self.name}-0"

    @property
    def slave(self) -> str:
        return f"{self.name}-1"


# Those that lose their masters at a time, by the name server that their slaves know.
UNDER = {
    "n0": (Pair("b0", "b2", "to-java"), Pair("b1", "b3", "to-ours")),
    "n1": (Pair("b2", "b0", "to-java"), Pair("b3", "b1", "to-ours")),
}


def decided(key: str) -> Decision:
    """What transactions come to, which their keys say."""
    return "commit" if "C" in key else "roll-back"


async def shown(w: World, namesrv: str, broker_set: str) -> dict[int, str]:
    """Whom a route shows of a set."""
    request = Frame(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=to_ext(TopicRequest(topic=TOPIC)))
    route = TopicRouteData.from_json((await w.call(namesrv, request)).body)
    return next((d.broker_addrs for d in route.broker_datas if d.broker_name == broker_set), {})


async def acts(w: World, namesrv: str, pair: Pair) -> bool:
    """Whether a slave says that it acts, and the route shows it as master."""
    told = place(await runtime_info(w.pool, w.address(pair.slave)), first=False)
    here = (await shown(w, namesrv, pair.name)).get(0) == w.address(pair.slave)
    return told.acting is True and here


async def has_stopped(w: World, pair: Pair) -> bool:
    """Whether a slave does not act any more."""
    told = place(await runtime_info(w.pool, w.address(pair.slave)), first=False)
    return told.acting is False


async def leave_open(producer: ProducerSession, pair: Pair) -> tuple[set[bytes], set[bytes]]:
    """Send delayed messages, and half messages that are not ended. Returns the bodies that are to
    come, and those that never are."""
    come, never = set[bytes](), set[bytes]()
    for number in range(COUNT):
        queue = QueueName(pair.topic, pair.name, number)
        now_ms = round(time.time() * 1000)
        for kind in "CR":
            key = f"{kind}{pair.name[1:]}{number:030X}"
            body = f"{pair.name} half {key}".encode()
            sent, _ = await producer.send_half(queue, body, born_ms=now_ms, key=key)
            assert isinstance(sent, Ok), sent
            (come if kind == "C" else never).add(body)
        body = f"{pair.name} delayed {number}".encode()
        sent = await producer.send(queue, body, born_ms=now_ms, more={props.DELAY: LEVEL})
        assert isinstance(sent, Ok), sent
        come.add(body)
    producer.stay(QueueName(pair.topic, pair.target, 0))  # whose master is to ask it
    return come, never


async def away_and_back(w: World, namesrv: str, pairs: Sequence[Pair]) -> None:
    """Masters are killed; what they acknowledged is read from their slaves, what waited moves to
    other sets; they come back."""
    acked = set(w.acked)
    for pair in pairs:
        await w.send_some(pair.master)
    sent = set(w.acked) - acked
    producer = await w.producer("traders", [*PLACED], decided)
    open_ = {pair: await leave_open(producer, pair) for pair in pairs}
    for pair in pairs:
        assert (await w.processes.kill(pair.master)).holds
    read: list[bytes] = []
    for pair in pairs:
        await w.until(f"{pair.slave} acts", partial(acts, w, namesrv, pair))
        read += await w.read(pair.slave, TOPIC)
        await w.commit(pair.slave, WHILE_AWAY)
    assert sent <= set(read)
    for pair, (come, never) in open_.items():

        async def moved(pair: Pair = pair, come: set[bytes] = come) -> bool:
            return come <= {*await w.read(f"{pair.target}-0", pair.topic)}

        what = f"what waited at {pair.slave} is at {pair.target}-0"
        await w.until(what, moved, MOVE_S)
        assert not never & {*await w.read(f"{pair.target}-0", pair.topic)}
    producer.close()
    for pair in pairs:
        assert (await w.processes.start(pair.master)).holds
    await w.until(f"{' and '.join(pair.master for pair in pairs)} are back", w.recovered)
    for pair in pairs:
        assert await w.committed(pair.master) == WHILE_AWAY
        await w.until(f"{pair.slave} does not act", partial(has_stopped, w, pair))
        await w.until_writable(pair.master)
        await w.send_some(pair.master)


@pytest.mark.campaign  # two and a half minutes
def test_slaves_act_for_masters_of_the_other_implementation(release: str, tmp_path: Path) -> None:
    """Replication, acting, escape, pre-online, both ways, under either name server; what was
    acknowledged is in both logs."""
    target = mixed_target(release, JAVA)
    topology = Topology(namesrvs=2, controllers=0, broker_sets=4, replicas=2)
    settings = Settings(topology=topology, profile="P-SYNC", keys=KEYS)

    async def run() -> None:
        async with mixed(tmp_path, target, settings, PLACED) as w:
            for pairs in UNDER.values():
                for pair in pairs:
                    await w.until(
                        f"{pair.slave} has tables",
                        partial(w.has_tables, pair.slave),
                    )
                    assert await w.committed(pair.slave) == COPIED
            for namesrv, pairs in UNDER.items():
                await away_and_back(w, namesrv, pairs)
            await w.until("logs of one length", w.queries.level)
            for node in w.by_role(Role.BROKER):
                table = await runtime_info(w.pool, w.address(node.name))
                log = await w.log(node.name, int(table["commitLogMaxOffset"]))
                other = f"{node.broker_set}-{1 - node.replica}"
                assert log == await w.log(other, len(log)), f"{node.name} and {other} differ"

    asyncio.run(run())
