"""The scenarios that are captured: pairs of RocketMQ without controllers, and what is done to them.

Each has two name servers, but for two of containers. These announce who is the smallest of a set
(905). Settings are those that `maxq test` gives pairs with timing `fast`. A slave has its master's
tables 60 to 63 s after its start, which every scenario waits for. What the client asks is in the
capture.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import msgspec

from benchmarks.captures.contained import contained
from benchmarks.captures.requests import (
    GROUP,
    HALF_QUEUE,
    QUEUES,
    TOPIC,
    answer_question,
    commit,
    committed,
    end_half,
    end_of,
    locks,
    make_topic,
    produces,
    pull,
    reads,
    refusals,
    routes,
    send,
    send_delayed,
    send_half,
)
from benchmarks.captures.scene import Scene
from maxq.harness.client.places import place
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Settings, Topology
from maxq.reference.wire.bodies import HaRuntimeInfo
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.route import KVTable

COPY_S, GONE_S, ACTS_S, ONLINE_S = 90.0, 15.0, 15.0, 45.0
DELAY_LEVEL, DELAY_S = 3, 10.0
CHECKED_S = 12.0
PUSHES = {"namesrv:notifyMinBrokerIdChanged": "true"}


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What is played on what."""

    name: str
    target: str
    settings: Settings
    play: Callable[[Scene], Awaitable[None]]
    crossed: bool = False  # each broker is a container, which has a slave of the other set as well


def settings(
    *, sets: int, replicas: int, namesrvs: int = 2, keys: Mapping[str, str] | None = None
) -> Settings:
    """Of a cluster of pairs."""
    return Settings(
        topology=Topology(controllers=0, namesrvs=namesrvs, broker_sets=sets, replicas=replicas),
        profile="P-SYNC",
        timing="fast",
        cluster="c1",
        keys={**PUSHES, **(keys or {})},
    )


def of_containers(*, namesrvs: int) -> Settings:
    """Of two sets in two crossed containers: a deployment's brokers are the containers."""
    keys = {"broker:enableRemoteEscape": "false"}
    alone = settings(sets=2, replicas=1, namesrvs=namesrvs, keys=keys)
    return msgspec.structs.replace(alone, profile="P-AUTO")


# Steps that scenarios share.


async def prepared(scene: Scene, *, pulled: bool = False) -> None:
    """Make a topic and a group, send, commit 1 at the masters, wait until slaves have tables."""
    brokers = scene.cluster.by_role(Role.BROKER)
    for master in [n.name for n in brokers if not n.replica]:
        await make_topic(scene, master)
        slaves = scene.cluster.settings.topology.replicas - 1
        copying = partial(copied_by, scene, master, slaves)
        await scene.seen(f"{slaves} slaves of {master} are in sync", copying, ONLINE_S)
        await scene.seen(f"{master} takes a message", partial(takes, scene, master), ONLINE_S)
        for number in range(1, 2 * QUEUES):
            await send(scene, master, f"before{number}".encode(), queue=number % QUEUES)
        await commit(scene, master, 1)
        if pulled:
            await pull(scene, master, 0)
    await scene.copied([n.name for n in brokers if n.replica], TOPIC, GROUP, COPY_S)


async def takes(scene: Scene, master: str) -> bool:
    """Whether a master takes the first message: it counts its slaves once a second."""
    answer = await send(scene, master, b"before0")
    return answer is not None and answer.code == ResponseCode.SUCCESS


async def copied_by(scene: Scene, master: str, slaves: int) -> bool:
    """Whether so many slaves are in sync with a master, as it says: else it refuses sends."""
    answer = await scene.observe(master, RequestCode.GET_BROKER_HA_STATUS)
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return False
    return HaRuntimeInfo.from_json(answer.body).in_sync_slave_nums >= slaves


async def killed(scene: Scene, node: str, acting: str) -> None:
    """Kill a broker, wait until name servers list it no more and another one acts."""
    await scene.kill(node)
    await scene.seen(f"{node} is not listed", partial(scene.listed, node, False), GONE_S)
    await scene.seen(f"{acting} acts", partial(acts, scene, acting), ACTS_S)
    await routes(scene)


async def acts(scene: Scene, node: str, acting: bool = True) -> bool:
    """Whether a slave says that it runs what only masters do."""
    answer = await scene.observe(node, RequestCode.GET_BROKER_RUNTIME_INFO)
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return False
    return place(KVTable.from_json(answer.body).table, first=False).acting is acting


async def returned(scene: Scene, node: str, *, acting: str) -> bool:
    """Start a master and wait until it is listed and its slave acts no more; whether it is."""
    await scene.start(node)
    online = await scene.seen(f"{node} is listed", partial(scene.listed, node), ONLINE_S)
    if online:
        ended = partial(acts, scene, acting, False)
        await scene.seen(f"{acting} acts no more", ended, ACTS_S)
    return online


# The scenarios.


async def three(scene: Scene) -> None:
    """A master and two slaves: who acts, and whose offsets the master has at its return."""
    await prepared(scene)
    await routes(scene)
    await killed(scene, "b0-0", acting="b0-1")
    for slave in ("b0-1", "b0-2"):
        await scene.ask(slave, RequestCode.GET_BROKER_RUNTIME_INFO, anew=True)
        await reads(scene, slave)
    await commit(scene, "b0-1", 3)
    await committed(scene, ["b0-1", "b0-2"])
    await locks(scene, "b0-1")
    await refusals(scene, "b0-1")
    await returned(scene, "b0-0", acting="b0-1")
    await committed(scene, ["b0-0", "b0-1", "b0-2"])
    await routes(scene)
    await send(scene, "b0-0", b"returned")
    # The smallest slave goes, too, and returns before its master does.
    await killed(scene, "b0-0", acting="b0-1")
    await killed(scene, "b0-1", acting="b0-2")
    await scene.start("b0-1")
    await scene.seen("b0-1 is listed", partial(scene.listed, "b0-1"), ONLINE_S)
    await scene.seen("b0-1 acts", partial(acts, scene, "b0-1"), ACTS_S)
    await scene.seen("b0-2 acts no more", partial(acts, scene, "b0-2", False), ACTS_S)
    await routes(scene)
    await returned(scene, "b0-0", acting="b0-1")
    await committed(scene, ["b0-0", "b0-1", "b0-2"])


async def pair(scene: Scene) -> None:
    """A pair whose slave is pulled from while it acts: does its master come back?"""
    await prepared(scene, pulled=True)
    await committed(scene, ["b0-0", "b0-1"])
    await killed(scene, "b0-0", acting="b0-1")
    await scene.ask("b0-1", RequestCode.GET_BROKER_RUNTIME_INFO, anew=True)
    await reads(scene, "b0-1")
    await pull(scene, "b0-1", 0)
    await pull(scene, "b0-1", 2)
    await commit(scene, "b0-1", 3)
    await committed(scene, ["b0-1"])
    await refusals(scene, "b0-1")
    online = await returned(scene, "b0-0", acting="b0-1")
    await committed(scene, ["b0-0", "b0-1"])
    await send(scene, "b0-0", b"returned")
    if not online:
        await scene.kill("b0-1")
        await scene.seen("b0-0 is listed", partial(scene.listed, "b0-0"), ONLINE_S)
        await committed(scene, ["b0-0"])
    await routes(scene)


async def no_escape(scene: Scene) -> None:
    """Two pairs whose slaves move nothing away: what a dead master had waits for it."""
    await prepared(scene)
    await produces(scene, "b1-0")
    await send_half(scene, "b1-0", b"half of b1")
    await scene.seen("b1-0 asks about its half message", partial(asked, scene, "b1"), CHECKED_S)
    before = await ends(scene, "b1-0")

    async def moved() -> bool:
        return await ends(scene, "b1-0") > before

    await answer_question(scene, "b1-0")
    await scene.seen("b1-0 has its committed message", moved, CHECKED_S)
    before = await ends(scene, "b1-0")
    half = await send_half(scene, "b0-0", b"half of b0")
    await send_delayed(scene, "b0-0", b"delayed", level=DELAY_LEVEL)
    await killed(scene, "b0-0", acting="b0-1")
    await scene.seen("b1-0 has taken something", moved, DELAY_S + 8)
    await returned(scene, "b0-0", acting="b0-1")
    await produces(scene, "b0-0")

    async def delivered() -> bool:
        return await ends(scene, "b0-0", [0]) > 2

    await scene.seen("b0-0 has delivered its delayed message", delivered, ONLINE_S)
    await scene.seen("b0-0 asks about its half message", partial(asked, scene, "b0"), CHECKED_S)
    await end_half(scene, "b0-0", half)
    await scene.seen("b1-0 has taken something", moved, 1.0)
    for node in ("b0-0", "b1-0"):
        await reads(scene, node, queues=[0, HALF_QUEUE])
        await pull(scene, node, 0)


async def asked(scene: Scene, broker_set: str) -> bool:
    """Whether a set has asked the producer about a half message."""
    return bool(scene.asked_by(broker_set))


async def ends(scene: Scene, node: str, queues: Sequence[int] = range(QUEUES)) -> int:
    """How many messages queues of the topic have at a broker, together."""
    return sum([await end_of(scene, node, queue) for queue in queues])


SCENARIOS = (
    Scenario(
        name="5.5.0-three",
        target="rocketmq:5.5.0",
        settings=settings(sets=1, replicas=3),
        play=three,
    ),
    Scenario(
        name="5.1.1-pair",
        target="rocketmq:5.1.1",
        settings=settings(sets=1, replicas=2),
        play=pair,
    ),
    Scenario(
        name="5.3.3-pair",
        target="rocketmq:5.3.3",
        settings=settings(sets=1, replicas=2),
        play=pair,
    ),
    Scenario(
        name="5.5.0-no-escape",
        target="rocketmq:5.5.0",
        settings=settings(sets=2, replicas=2, keys={"broker:enableRemoteEscape": "false"}),
        play=no_escape,
    ),
    Scenario(
        name="5.3.3-container",
        target="rocketmq:5.3.3",
        settings=of_containers(namesrvs=1),
        play=contained,
        crossed=True,
    ),
    Scenario(
        name="5.5.0-container",
        target="rocketmq:5.5.0",
        settings=of_containers(namesrvs=1),
        play=contained,
        crossed=True,
    ),
    Scenario(
        name="5.5.0-container-two",
        target="rocketmq:5.5.0",
        settings=of_containers(namesrvs=2),
        play=contained,
        crossed=True,
    ),
)
