"""What is played on two crossed containers: requests to a container, then the end of one.

All rows of docs/spec/acting-master.md 2.2, and what RocketMQ makes of odd ones; then the container
of b0's master is killed and returns. Units: seconds.
"""

import asyncio
import socket
from functools import partial

from benchmarks.captures.crossed import CONTAINER_PORT, SLAVE_PORT, text
from benchmarks.captures.requests import (
    GROUP,
    PRODUCER,
    TOPIC,
    end_of,
    make_topic,
    produces,
    pull,
    routes,
    send,
    send_delayed,
    send_half,
)
from benchmarks.captures.scene import Scene
from maxq.harness.contracts.target import BROKER_PORT
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import SendBackRequest

K0, K1 = "b0-0", "b1-0"  # the containers
THIRD = BROKER_PORT + 20  # where a third broker would listen
LISTED_S, GONE_S, DUE_S, BACK_S, TABLES_S = 45.0, 25.0, 25.0, 60.0, 90.0
ADMIN_S = 20.0  # as long as mqadmin waits
DELAY_LEVEL = 3  # 10 s
UNKNOWN_CODE = 28  # runtime information, which a broker gives and no container


async def contained(scene: Scene) -> None:
    """Both parts."""
    for broker_set in ("b0", "b1"):
        whole = partial(has, scene, broker_set, 0, 1)
        await scene.seen(f"{broker_set} is listed with its slave", whole, LISTED_S)
    for master in (K0, K1):
        await make_topic(scene, master)
        await scene.seen(f"{master} takes a message", partial(takes, scene, master), LISTED_S)
    await settings_of_both(scene)
    await additions(scene)
    await removals(scene)
    await updates(scene)
    await killed_and_back(scene)


async def has(scene: Scene, broker_set: str, *ids: int) -> bool:
    """Whether the name server lists exactly these ids of a set."""
    return sorted(await scene.members("n0", broker_set)) == sorted(ids)


async def takes(scene: Scene, master: str) -> bool:
    """Whether a master takes a message."""
    answer = await send(scene, master, b"before")
    return answer is not None and answer.code == ResponseCode.SUCCESS


async def at_container(
    scene: Scene, code: int, ext: dict[str, str] | None = None, body: bytes | None = None
) -> Frame | None:
    """Ask the container of b0's master."""
    return await scene.ask(
        K0, RequestCode(code), ext=ext or {}, body=body, port=CONTAINER_PORT, within_s=ADMIN_S
    )


async def settings_of_both(scene: Scene) -> None:
    """26 at the container and at a broker of it; and a request that the container does not know."""
    await at_container(scene, RequestCode.GET_BROKER_CONFIG)
    await scene.ask(K0, RequestCode.GET_BROKER_CONFIG, port=SLAVE_PORT)
    await at_container(scene, UNKNOWN_CODE)


async def additions(scene: Scene) -> None:
    """902: every refusal, and each port that may be taken; then one that succeeds, twice."""
    machine = scene.cluster.processes.machine(K0)
    data = machine.data_dir
    content = await machine.get(f"{data}/master.conf") or b""
    good: dict[str, object] = {
        **dict(line.split("=", 1) for line in content.decode().splitlines()),
        "brokerName": "b2",
        "totalReplicas": 1,
        "inSyncReplicas": 1,
        "listenPort": THIRD,
        "storePathRootDir": f"{data}/store-b2-0",
        "storePathCommitLog": f"{data}/store-b2-0/commitlog",
    }
    rows: dict[str, dict[str, object]] = {
        "a slave with id 0": {**good, "brokerRole": "SLAVE", "brokerId": 0},
        "a master with id 3": {**good, "brokerId": 3},
        "more in sync than there are": {**good, "inSyncReplicas": 3, "totalReplicas": 2},
        "duplicationEnable": {**good, "duplicationEnable": "true"},
        "an identity that is there": {**good, "brokerName": "b0"},
        "a main port that is taken": {**good, "listenPort": BROKER_PORT},
        "a fast port that is taken": {**good, "listenPort": BROKER_PORT + 2},
        "an HA port that is taken": {**good, "listenPort": BROKER_PORT - 1},
        "the container's port": {**good, "listenPort": CONTAINER_PORT},
        "the store of another": {
            **good, "storePathRootDir": f"{data}/store-b0-0",
            "storePathCommitLog": f"{data}/store-b0-0/commitlog",
        },
    }  # fmt: skip
    scene.mark("902 with no path, an empty one, that of no file, of a folder, of an empty file")
    for ext in ({}, {"configPath": ""}, {"configPath": f"{data}/none"}, {"configPath": data}):
        await at_container(scene, RequestCode.ADD_BROKER, ext)
    await machine.put(f"{data}/empty.conf", b"")
    await added(scene, f"{data}/empty.conf", "an empty file")
    await removed(scene, "DefaultCluster", socket.gethostname(), "0")
    for number, (row, lines) in enumerate(rows.items()):
        path = f"{data}/wrong{number}.conf"
        await machine.put(path, text(lines).encode())
        await added(scene, path, row)
        if row == "a master with id 3":
            await removed(scene, "c1", "b2", "0")
    await machine.put(f"{data}/good.conf", text(good).encode())
    await added(scene, f"{data}/good.conf", "a third broker")
    scene.mark(f"the name server lists b2 as {sorted(await scene.members('n0', 'b2'))}")
    await added(scene, f"{data}/good.conf", "it again")
    beside = {**good, "brokerName": "b3", "listenPort": THIRD + 2,
              "storePathRootDir": f"{data}/b3", "storePathCommitLog": f"{data}/b3/log"}  # fmt: skip
    await machine.put(f"{data}/beside.conf", text(beside).encode())
    await added(scene, f"{data}/beside.conf", "a fast port that is the third broker's")


async def added(scene: Scene, path: str, row: str) -> None:
    """Ask for an addition, and say of what."""
    scene.mark(f"902 of {row}")
    await at_container(scene, RequestCode.ADD_BROKER, {"configPath": path})


async def removed(scene: Scene, cluster: str, name: str, broker_id: str) -> None:
    """Ask for a removal."""
    scene.mark(f"903 of {cluster}:{name}:{broker_id}")
    ext = {"brokerClusterName": cluster, "brokerName": name, "brokerId": broker_id}
    await at_container(scene, RequestCode.REMOVE_BROKER, ext)


async def removals(scene: Scene) -> None:
    """903: of who is absent, of nobody, and of the third broker, twice."""
    for identity in (("c1", "b9", "0"), ("c1", "b0", "1"), ("c2", "b0", "0"), ("c1", "b0", "x")):
        await removed(scene, *identity)
    scene.mark("903 without an id")
    ext = {"brokerClusterName": "c1", "brokerName": "b0"}
    await at_container(scene, RequestCode.REMOVE_BROKER, ext)
    await removed(scene, "c1", "b2", "0")
    scene.mark(f"the name server lists b2 as {sorted(await scene.members('n0', 'b2'))}")
    await removed(scene, "c1", "b2", "0")
    data = scene.cluster.processes.machine(K0).data_dir
    await added(scene, f"{data}/beside.conf", "a fast port that is free again")
    await removed(scene, "c1", "b3", "0")


async def updates(scene: Scene) -> None:
    """25 at the container, and what is in its file then."""
    machine = scene.cluster.processes.machine(K0)
    for body in (
        "brokerConfigPaths=/x",
        "configBlackList=x",
        "rocketmqHome=/x",
        "listenPrt=1",
        "fetchNamesrvAddrInterval=x",
        "fetchNamesrvAddrInterval=10001\nfetchNamesrvAddrInterval=10002",
        "brokerConfigPaths=/x\nfetchNamesrvAddrInterval=10003",
        "",
    ):
        scene.mark(f"25 with {body!r}")
        await at_container(scene, RequestCode.UPDATE_BROKER_CONFIG, body=body.encode())
    await at_container(scene, RequestCode.GET_BROKER_CONFIG)
    content = await machine.get(scene.cluster.processes.config_path(K0)) or b""
    keys = [line.partition("=")[0] for line in content.decode().splitlines() if "=" in line]
    scene.mark(f"the container's file has {len(keys)} keys: {' '.join(sorted(keys))}"[:1000])


async def killed_and_back(scene: Scene) -> None:
    """The container of b0's master and b1's slave dies with messages that wait, and returns."""
    for broker_set, node in (("b0", K1), ("b1", K0)):
        known = partial(knows, scene, node)
        await scene.seen(f"the slave of {broker_set} has the tables", known, TABLES_S)
    await produces(scene, K1)
    before = await end_of(scene, K1, 0)
    await send_half(scene, K0, b"half of b0")
    await send_delayed(scene, K0, b"delayed", level=DELAY_LEVEL)
    await scene.kill(K0)
    async with asyncio.TaskGroup() as group:
        for broker_set, left in (("b0", 1), ("b1", 0)):
            gone = partial(has, scene, broker_set, left)
            words = f"{broker_set} is listed without who was in the dead container"
            group.create_task(scene.seen(words, gone, GONE_S))
    await routes(scene)
    await scene.ask(K1, RequestCode.GET_BROKER_RUNTIME_INFO, port=SLAVE_PORT)
    back = SendBackRequest(offset=0, group=GROUP, delay_level=1, origin_topic=TOPIC)
    await scene.ask(K1, RequestCode.CONSUMER_SEND_MSG_BACK, back, port=SLAVE_PORT)
    unknown = SendBackRequest(offset=0, group="g9", delay_level=1, origin_topic=TOPIC)
    await scene.ask(K1, RequestCode.CONSUMER_SEND_MSG_BACK, unknown, port=SLAVE_PORT)

    async def escaped() -> bool:
        return await end_of(scene, K1, 0) > before

    await scene.seen("the delayed message is at b1's master", escaped, DUE_S)
    await scene.seen(
        f"b1 has asked {PRODUCER} about b0's half message", partial(asked, scene), DUE_S
    )
    await pull(scene, K1, 0)
    await scene.start(K0)
    async with asyncio.TaskGroup() as group:
        for broker_set in ("b0", "b1"):
            whole = partial(has, scene, broker_set, 0, 1)
            group.create_task(scene.seen(f"{broker_set} is whole again", whole, BACK_S))
    await scene.seen(f"{K0} takes a message", partial(takes, scene, K0), LISTED_S)
    await routes(scene)


async def asked(scene: Scene) -> bool:
    """Whether b1 asked about a half message."""
    return bool(scene.asked_by("b1"))


async def knows(scene: Scene, machine: str) -> bool:
    """Whether the slave on a machine has its master's topics and groups."""
    found = []
    for code, word in (
        (RequestCode.GET_ALL_TOPIC_CONFIG, TOPIC),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, GROUP),
    ):
        answer = await scene.observe(machine, code, port=SLAVE_PORT)
        found.append(answer is not None and word.encode() in (answer.body or b""))
    return all(found)
