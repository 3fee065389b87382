"""The released Java client produces to and consumes from our nodes.

Our own client shares its codec with our nodes; the Java client shares nothing with them, so it
shows what a mirrored mistake would hide. `java/Exchange.java` does what a user does and prints
what the library reports; this module starts the cluster and judges the lines.

All traffic stays on 127.0.0.1. Times are seconds.
"""

import asyncio
import os
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from java_jars import COMPILE_S, FETCH_S, compiled
from reference_nodes import HOST, NodeProcess, controller_settings, free_port, wait_until

from maxq.reference import rpc
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.route import TopicRouteData

CLUSTER, BROKERS = "maxq-java", ("ja", "jb")
QUEUES, SENDS, BATCH = 4, 100, 5  # as in Exchange.java
READY_S, EXCHANGE_S = 20, 60


@pytest.fixture(scope="module")
def class_path(release: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The compiled program and the client's jars."""
    return compiled("Exchange.java", release, tmp_path_factory.mktemp("classes"))


# --- the cluster ---------------------------------------------------------------------------------


def plan(folder: Path) -> tuple[str, list[tuple[str, str, dict[str, object]]]]:
    """Choose ports; gives the name server's address, and role, name, settings of each node."""
    rng, taken = random.Random(), set[int]()
    namesrv, controller = free_port(rng, taken), free_port(rng, taken)
    address = f"{HOST}:{namesrv}"
    own = {"listenPort": namesrv, "bindAddress": HOST, "kvConfigPath": f"{folder}/kvConfig.json"}
    nodes: list[tuple[str, str, dict[str, object]]] = [("namesrv", "n0", own)]
    peers = controller_settings(folder, CLUSTER, "c0", {"c0": f"{HOST}:{controller}"})
    nodes.append(("controller", "c0", peers))
    for name in BROKERS:
        settings: dict[str, object] = {
            "brokerClusterName": CLUSTER,
            "brokerName": name,
            "brokerRole": "SLAVE",  # until the controller says otherwise
            "listenPort": free_port(rng, taken),
            "bindAddress": HOST,
            "brokerIP1": HOST,
            "namesrvAddr": address,
            "controllerAddr": f"{HOST}:{controller}",
            "enableControllerMode": "true",
            "autoCreateTopicEnable": "false",
            "syncBrokerMetadataPeriod": 500,
            "storePathRootDir": folder / name,
            "mappedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 600_000,
        }
        nodes.append(("broker", name, settings))
    return address, nodes


async def masters(namesrv: str, topic: str) -> set[str]:
    """The broker names that have a master for a topic, as a name server sees it now."""
    async with asyncio.TaskGroup() as group:
        try:
            connection = await rpc.connect(namesrv, group=group)
        except rpc.NotSent:
            return set()
        request = Frame(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic})
        try:
            answer = await connection.call(request, timeout_s=3)
            if answer.code != ResponseCode.SUCCESS:
                return set()
            route = TopicRouteData.from_json(answer.body)
        except (OSError, TimeoutError, RemoteProtocolError):
            return set()
        finally:
            connection.close()
    return {data.broker_name for data in route.broker_datas if 0 in data.broker_addrs}


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    """A running cluster; gives the name server's address and demands a clean stop."""
    address, planned = plan(tmp_path)
    nodes: list[NodeProcess] = []
    codes: dict[str, int] = {}
    try:
        for role, name, settings in planned:
            # One after the other: a broker that finds no name server waits long for its next try.
            nodes.append(NodeProcess(tmp_path, role, name, settings))
            wait_until(nodes[-1].started, f"{name} to start", nodes, READY_S)
        wait_until(
            lambda: asyncio.run(masters(address, CLUSTER)) == set(BROKERS),
            "all masters", nodes, READY_S,
        )  # fmt: skip
        yield address
    finally:
        for node in reversed(nodes):
            codes[node.name] = node.stop()
            # pytest shows this only where the test failed.
            print(f"--- {node.name}, exit code {codes[node.name]}")
            print(node.log.read_text(errors="replace")[-4000:])
    assert codes == {node.name: 0 for node in nodes}


# --- the test ------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """A line of Exchange.report: one send that was SEND_OK."""

    msg_id: str
    offset_msg_id: str
    broker: str
    queue: int
    offset: int
    body: str


class Got(NamedTuple):
    """A line of Exchange.take: one message as a consumer saw it."""

    msg_id: str
    offset_msg_id: str
    broker: str
    queue: int
    offset: int
    tag: str
    key: str
    body: str


def run_exchange(class_path: tuple[str, str], namesrv: str, home: Path) -> dict[str, list[str]]:
    """Run the Java program; gives its lines by their first field."""
    done = subprocess.run(
        [
            "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Duser.home={home}",  # where the client logs
            "-cp", os.pathsep.join(class_path), "Exchange", namesrv, CLUSTER,
        ],
        capture_output=True, text=True, timeout=EXCHANGE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    lines: dict[str, list[str]] = defaultdict(list)
    for line in done.stdout.splitlines():
        word, _, rest = line.partition("\t")
        lines[word].append(rest)
    return lines


def sent(line: str) -> Sent:
    msg_id, offset_msg_id, broker, queue, offset, body = line.split("\t")
    return Sent(msg_id, offset_msg_id, broker, int(queue), int(offset), body)


def got(line: str) -> Got:
    msg_id, offset_msg_id, broker, queue, offset, tag, key, body = line.split("\t")
    return Got(msg_id, offset_msg_id, broker, int(queue), int(offset), tag, key, body)


def by_queue(messages: list[Got]) -> dict[tuple[str, int], list[int]]:
    """The offsets of each queue in the order of receipt."""
    queues: dict[tuple[str, int], list[int]] = defaultdict(list)
    for m in messages:
        queues[m.broker, m.queue].append(m.offset)
    return queues


@pytest.mark.rocketmq
@pytest.mark.timeout(FETCH_S + COMPILE_S + READY_S + EXCHANGE_S + 60)
def test_java_client_exchanges_messages(
    class_path: tuple[str, str], namesrv: str, tmp_path: Path
) -> None:
    """What is sent comes back once, in place, under its ids; commits are remembered."""
    lines = run_exchange(class_path, namesrv, tmp_path)
    sends, [batch] = [sent(x) for x in lines["sent"]], [sent(x) for x in lines["batch"]]
    assigned, subscribed = ([got(x) for x in lines[w]] for w in ("assigned", "subscribed"))

    # Every body once: the 100, the batch, and the one-way message that nobody confirmed.
    bodies = [f"body-{i}" for i in range(SENDS)]
    bodies[-1] += "x" * 10_000  # compressed by the client
    extra = [*(f"batch-{i}" for i in range(BATCH)), "oneway"]
    everything = [*bodies, *extra]
    assert [s.body for s in sends] == bodies
    assert Counter(m.body for m in assigned) == Counter(everything)
    places = {m.body: m for m in assigned}
    for i, body in enumerate(everything):
        assert (places[body].key, places[body].tag) == (f"key-{i}", "odd" if i % 2 else "even")

    # Each where its answer said, under both of its ids.
    for s in sends:
        assert s == (*places[s.body][:5], s.body)
    ids = zip(batch.msg_id.split(","), batch.offset_msg_id.split(","), strict=True)
    for i, (msg_id, offset_msg_id) in enumerate(ids):
        expected = (msg_id, offset_msg_id, batch.broker, batch.queue, batch.offset + i)
        assert places[f"batch-{i}"][:5] == expected
    assert len({m.msg_id for m in assigned}) == len(everything)
    assert len({m.offset_msg_id for m in assigned}) == len(everything)

    # Every queue of both brokers was used, has no gap, and was read in order.
    queues = by_queue(assigned)
    assert set(queues) == {(broker, q) for broker in BROKERS for q in range(QUEUES)}
    for offsets in queues.values():
        assert offsets == list(range(len(offsets)))

    # A new consumer of the group finds every queue committed to its end.
    committed = (line.split("\t") for line in lines["committed"])
    assert {(b, int(q)): int(offset) for b, q, offset in committed} == {
        key: len(offsets) for key, offsets in queues.items()
    }

    # A second group gets its own copy of what it asked for, and nothing else.
    assert sorted(subscribed) == sorted(m for m in assigned if m.tag == "even")
    for offsets in by_queue(subscribed).values():
        assert offsets == sorted(offsets)
