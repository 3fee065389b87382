"""Who reads what from whom: RocketMQ's consumer and ours side by side, while a pair fails over.

The pair has a master and a slave that does not act for it, which is RocketMQ's default. Both
consumers read each queue from its begin: with both brokers there, once the master is killed with
the slave alone that must not be read (`slaveReadEnable=false`, the default) and then may be, and
with the master back, which sends them to the slave for all that it gives
(`accessMessageInMemoryMaxRatio=0`). Each answer must be the same for both: the broker that was
asked, its refusal, where to go on, the messages. The nodes are ours, then those of the release, so
that ours also answer as those do. All traffic stays on 127.0.0.1. Times are seconds.
"""

import asyncio
import random
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from java_jars import COMPILE_S, FETCH_S, compiled
from judge_world import CommandFailed, Judge
from reference_nodes import HOST, NodeProcess, free_port, wait_until

from maxq.harness.client.probes import until
from maxq.harness.client.session import QueueName, RouteBook, Session
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.outcome import Fail, Ok
from maxq.harness.targets.rocketmq.libraries import libraries
from maxq.harness.targets.rocketmq.target import FIRST_TIER, JVM, MAIN
from maxq.reference import rpc
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame

CLUSTER, SET, TOPIC, QUEUES, COUNT = "maxq-reads", "ra", "rows", 2, 9
READY_S, TABLES_S, SEEN_S = 60, 120, 30  # RocketMQ's slaves copy tables once a minute
UNREACHABLE = -1  # in place of an answer's code
READER, SCOUT = "reader", "scout"

pytestmark = [
    pytest.mark.rocketmq,
    pytest.mark.timeout(FETCH_S + COMPILE_S + TABLES_S + 180),
]


class Answer(NamedTuple):
    """What a poll came to: who was asked, the code of a refusal, where to go on, what was given."""

    broker: str
    code: int
    next_offset: int
    bodies: tuple[str, ...]


class JavaNode(NodeProcess):
    """One of RocketMQ's nodes in place of one of ours."""

    def __init__(
        self, release: str, folder: Path, role: str, name: str, settings: dict[str, object]
    ) -> None:
        self.role, self.name = role, name
        self.log = folder / f"{name}.log"
        home = folder / f"{name}-home"
        home.mkdir(exist_ok=True)
        config = home / "node.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        jars = libraries(role, release)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    "java", *JVM, FIRST_TIER, "-Xms64m", "-Xmx256m",
                    f"-Drocketmq.home.dir={home}", f"-Duser.home={home}",
                    "-cp", f"{jars}/*", MAIN[Role(role)], "-c", str(config),
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def started(self) -> bool:
        return "boot success" in self.log.read_text(errors="replace")


Kind = Callable[[Path, str, str, dict[str, object]], NodeProcess]


class Nodes:
    """A name server n0, the master ra0 and its slave ra1."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self._folder, self._kind = folder, kind
        rng, taken = random.Random(), set[int]()
        self.addresses = {n: f"{HOST}:{free_port(rng, taken)}" for n in ("n0", "ra0", "ra1")}
        self.running: dict[str, NodeProcess] = {}

    @property
    def master(self) -> str:
        return self.addresses["ra0"]

    @property
    def slave(self) -> str:
        return self.addresses["ra1"]

    def start(self, name: str) -> None:
        own: dict[str, object] = {
            "listenPort": self.addresses[name].partition(":")[2], "bindAddress": HOST,
        }  # fmt: skip
        role = "namesrv" if name == "n0" else "broker"
        if role == "namesrv":
            own |= {"kvConfigPath": f"{self._folder}/kv.json"}
        else:
            own |= {
                "brokerClusterName": CLUSTER, "brokerName": SET, "brokerId": name[-1],
                "brokerRole": "ASYNC_MASTER" if name == "ra0" else "SLAVE", "brokerIP1": HOST,
                "brokerIP2": HOST, "namesrvAddr": self.addresses["n0"],
                "storePathRootDir": self._folder / f"{name}-store",
                "storePathCommitLog": self._folder / f"{name}-store" / "commitlog",
                "registerNameServerPeriod": 10_000, "mappedFileSizeCommitLog": 16 << 20,
                "mappedFileSizeConsumeQueue": 600_000, "timerWheelEnable": "false",
            }  # fmt: skip
        self.running[name] = node = self._kind(self._folder, role, name, own)
        self.wait(node.started, f"{name} to start", READY_S)

    def wait(self, done: Callable[[], bool], what: str, within_s: float) -> None:
        wait_until(done, what, self.running.values(), within_s)

    def kill(self, name: str) -> None:
        node = self.running.pop(name)
        node.process.kill()
        node.process.wait()
        node.log.rename(node.log.with_suffix(".before"))

    def stop(self) -> None:
        for name, node in reversed(self.running.items()):
            print(f"--- {name}, exit code {node.stop()}")
            print(node.log.read_text(errors="replace")[-3000:])


class Sides:
    """Both consumers. What they have read of a step is the same, or the test ends."""

    def __init__(
        self, nodes: Nodes, judge: Judge, routes: RouteBook, session: Session, pool: rpc.Pool
    ) -> None:
        self.nodes, self._judge, self._routes = nodes, judge, routes
        self._session, self._pool = session, pool

    async def send(self, count: int) -> None:
        for n in range(count):
            queue = QueueName(TOPIC, SET, n % QUEUES)
            sent = await self._session.send(queue, f"m{n}".encode(), born_ms=0)
            assert isinstance(sent, Ok), sent

    async def set(self, name: str, key: str, value: str) -> None:
        """Change a setting of a broker that runs."""
        body = f"{key}={value}\n".encode()
        frame = Frame(code=RequestCode.UPDATE_BROKER_CONFIG, ext={}, body=body)
        answer = await self._pool.call(self.nodes.addresses[name], frame, timeout_s=5)
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    async def know_topic(self) -> None:
        """Wait until the slave has copied its master's topics."""

        async def known() -> bool:
            frame = Frame(code=RequestCode.GET_TOPIC_CONFIG, ext={"topic": TOPIC})
            answer = await self._pool.call(self.nodes.slave, frame, timeout_s=5)
            return answer.code == ResponseCode.SUCCESS

        assert await until(known, TABLES_S), "the slave lacks the topic"

    async def see(self, broker: str) -> None:
        """Wait until both would ask this one by their routes; another consumer of RocketMQ's
        client finds that out, so that the one that is compared remembers nothing of it."""

        async def seen() -> bool:
            await self._routes.refresh()
            source = self._routes.source(TOPIC, SET)
            ours = source is not None and source.broker == broker
            try:
                return ours and (await self._java(SCOUT, 0, 0)).broker == broker
            except CommandFailed:  # it still asks the one that is gone
                return False

        assert await until(seen, SEEN_S), f"nobody asks {broker}"

    async def read(self) -> list[list[Answer]]:
        """What each queue gave from its begin on, until twice nothing came."""
        both: list[list[Answer]] = []
        for queue in range(QUEUES):
            ours = await _to_end(partial(self._ours, queue))
            java = await _to_end(partial(self._java, READER, queue))
            print(f"queue {queue}: ours {ours}, RocketMQ's {java}")
            assert ours == java
            both.append(ours)
        return both

    async def _java(self, name: str, queue: int, offset: int) -> Answer:
        lines = self._judge.tell("read", name, TOPIC, SET, queue, offset)
        [fields] = [x.split("\t")[2:] for x in lines if x.startswith(f"read\t{name}\t")]
        broker, code, following, bodies = fields
        return Answer(broker, int(code), int(following), tuple(b for b in bodies.split(",") if b))

    async def _ours(self, queue: int, offset: int) -> Answer:
        found = await self._session.poll(QueueName(TOPIC, SET, queue), offset)
        if isinstance(found, Fail):
            asked = found.ext or {}
            return Answer(asked["broker"], asked.get("code", UNREACHABLE), offset, ())
        bodies = tuple(body.decode() for _, body in found.messages)
        return Answer(found.broker, 0, found.next_offset, bodies)


async def _to_end(poll: Callable[[int], Awaitable[Answer]]) -> list[Answer]:
    answers: list[Answer] = []
    while len(answers) < 2 or answers[-1].bodies or answers[-2].bodies:
        answers.append(await poll(answers[-1].next_offset if answers else 0))
    return answers


def messages(queue: int) -> tuple[str, ...]:
    return tuple(f"m{n}" for n in range(queue, COUNT, QUEUES))


def trace(*brokers: str) -> list[list[Answer]]:
    """Of each queue: the first of these gives all there is, the others nothing more."""
    found = []
    for queue in range(QUEUES):
        given = messages(queue)
        parts = (given, *((),) * (len(brokers) - 1))
        found.append([Answer(b, 0, len(given), p) for b, p in zip(brokers, parts, strict=True)])
    return found


async def fail_over(nodes: Nodes, sides: Sides) -> None:
    """The whole of it."""
    master, slave = nodes.master, nodes.slave
    await sides.see(master)
    await sides.send(COUNT)
    await sides.know_topic()
    assert await sides.read() == trace(master, master, master)

    nodes.kill("ra0")
    await sides.see(slave)
    refused = Answer(slave, ResponseCode.SYSTEM_BUSY, 0, ())
    assert await sides.read() == [[refused] * 2] * QUEUES
    await sides.set("ra1", "slaveReadEnable", "true")
    assert await sides.read() == trace(slave, slave, slave)

    nodes.start("ra0")
    await sides.see(master)
    for name in ("ra0", "ra1"):
        await sides.set(name, "slaveReadEnable", "true")
        await sides.set(name, "accessMessageInMemoryMaxRatio", "0")
    assert await sides.read() == trace(master, slave, master)


async def side_by_side(nodes: Nodes, judge: Judge) -> None:
    async with asyncio.TaskGroup() as group:
        routes = RouteBook(lambda: [nodes.addresses["n0"]], rpc.loop_dial, group)
        session, pool = Session(routes, rpc.loop_dial, group), rpc.Pool(group)
        routes.watch((TOPIC,))
        try:
            await fail_over(nodes, Sides(nodes, judge, routes, session, pool))
        finally:
            for each in (routes, session, pool):
                each.close()


@pytest.mark.parametrize("whose", ["ours", pytest.param("rocketmq", marks=pytest.mark.campaign)])
def test_both_consumers_read_the_same_from_the_same(
    whose: str, release: str, tmp_path: Path
) -> None:
    """docs/spec/remoting.md 2.7"""
    class_path = compiled("Judge.java", release, tmp_path)
    nodes = Nodes(tmp_path, NodeProcess if whose == "ours" else partial(JavaNode, release))
    judge: Judge | None = None
    try:
        for name in nodes.addresses:
            nodes.start(name)
        judge = Judge(class_path, nodes.addresses["n0"], tmp_path / "judge", release)
        where = ("-n", nodes.addresses["n0"], "-b", nodes.master)
        judge.admin("updateTopic", *where, "-t", TOPIC, "-r", QUEUES, "-w", QUEUES)
        asyncio.run(side_by_side(nodes, judge))
        judge.tell("stop", READER, SCOUT)
    finally:
        if judge is not None:
            judge.close()
        nodes.stop()
