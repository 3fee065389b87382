"""Clusters of which some nodes are Apache RocketMQ's and the others ours, in network namespaces.

`World` sends messages and compares replicas. Times are seconds.
"""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

import pytest
from local_cluster import missing

from maxq.harness.client.producers import Decision, ProducerSession
from maxq.harness.client.session import QueueName, RouteBook, pull_of
from maxq.harness.cluster.deployment import Deployment, until
from maxq.harness.cluster.processes import NODE_LOG
from maxq.harness.contracts.environment import EnvironmentUnavailable, Role
from maxq.harness.contracts.target import Settings, Target
from maxq.harness.environments.local import LocalEnvironment
from maxq.harness.targets.mixed import MixedTarget
from maxq.harness.targets.reference import ReferenceTarget
from maxq.harness.targets.rocketmq.releases import REFERENCE, Version
from maxq.harness.targets.rocketmq.target import RocketMQTarget
from maxq.reference import rpc
from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import (
    BrokerReplicasInfo,
    ConsumerOffsets,
    EpochEntryCache,
    HaRuntimeInfo,
    SubscriptionGroupConfig,
    SubscriptionGroups,
)
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SendRequest,
    UpdateConsumerOffsetRequest,
    from_ext,
    to_ext,
    to_short_ext,
)
from maxq.reference.wire.message import decode_all
from maxq.reference.wire.node_headers import CreateTopicRequest, TopicRequest
from maxq.reference.wire.route import TopicConfigSerializeWrapper

TOPIC, QUEUES = "mixed", 4
TABLED = "tabled"  # a topic, and a group, that only slaves' copies of tables have
CALL_S, JOIN_S = 6, 40
DUMP_S, DUMP_END = 5, b"JNI global refs"  # how a JVM ends a dump of its threads
IDLE = ("ServiceThread.waitForRunning", "BlockingQueue.poll", "BlockingQueue.take")
LEAD_S = 120  # Java joins the thread of its HA client for up to 90 s before it leads
FETCH_S = 300  # what the jars may take, where nothing is cached


def mixed_target(release: str, java: Collection[str]) -> MixedTarget:
    """The target, its jars on this machine; skips where they or namespaces cannot be had."""
    why = missing()
    if why:
        pytest.skip(why)
    name = str(Version(release))
    targets: dict[str, Target] = {
        REFERENCE: ReferenceTarget(),
        name: RocketMQTarget(Version(release)),
    }
    target = MixedTarget(targets, dict.fromkeys(java, name))
    try:
        target.prepare()
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))
    return target


class World(Deployment):
    """A mixed cluster with one broker set, and a topic that the test writes to."""

    def __init__(
        self,
        environment: LocalEnvironment,
        target: MixedTarget,
        settings: Settings,
        group: asyncio.TaskGroup,
    ) -> None:
        super().__init__(environment, target, settings)
        self._group = group
        self._java = frozenset(n.name for n in self.nodes if target.assigned(n.name) != REFERENCE)
        self.pool = rpc.Pool(group, dial=environment.dial)
        self.acked: list[bytes] = []
        self.tail: list[bytes] = []  # sent to who could not acknowledge them
        self._sent = 0
        self.placed: dict[str, tuple[str, ...]] = {}  # topics of some broker sets only

    @property
    def brokers(self) -> list[str]:
        return [node.name for node in self.by_role(Role.BROKER)]

    async def start_all(self) -> None:
        """Start everything, with the topic; all replicas are in sync then. Without controllers
        masters have tables before: RocketMQ's slaves copy them a minute later the first time."""
        await self.up()
        if not self.settings.topology.controllers:
            for node in self.by_role(Role.BROKER):
                if not node.replica:
                    await self.make_tables(node.name)
                    for topic, sets in self.placed.items():
                        if node.broker_set in sets:
                            await self.make_topic(node.name, topic)
        await self.create_topics({TOPIC: QUEUES})

    # Questions.

    async def call(self, node: str, request: Frame) -> Frame:
        answer = await self.pool.call(self.address(node), request, timeout_s=CALL_S)
        assert answer.code == ResponseCode.SUCCESS, (request.code, answer.code, answer.remark)
        return answer

    async def master(self) -> tuple[str, int, tuple[str, ...]]:
        """Master, its epoch, and the SyncStateSet by names, as the leading controller has them."""
        names = {self.address(broker): broker for broker in self.brokers}
        broker_set = self.by_role(Role.BROKER)[0].broker_set
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        request = Frame(code=code, body=f'["{broker_set}"]'.encode())
        for controller in self.controllers():
            with contextlib.suppress(OSError, RemoteProtocolError):
                answer = await self.pool.call(controller, request, timeout_s=2)
                if answer.code == ResponseCode.SUCCESS:
                    known = BrokerReplicasInfo.from_json(answer.body).replicas_info_table
                    if broker_set not in known:  # cleared controllers, and no broker came yet
                        return "", 0, ()
                    state = known[broker_set]
                    members = sorted(names[r.broker_address or ""] for r in state.in_sync_replicas)
                    master = names.get(state.master_address or "", "")
                    return master, state.master_epoch, tuple(members)
        return "", 0, ()

    async def epochs(self, broker: str) -> tuple[list[tuple[int, int]], int]:
        """A replica's epochs as (epoch, start), and the end of its log."""
        answer = await self.call(broker, Frame(code=RequestCode.GET_BROKER_EPOCH_CACHE))
        cache = EpochEntryCache.from_json(answer.body)
        return [(e.epoch, e.start_offset) for e in cache.epoch_list], cache.max_offset

    async def ha_status(self, broker: str) -> HaRuntimeInfo:
        answer = await self.call(broker, Frame(code=RequestCode.GET_BROKER_HA_STATUS))
        return HaRuntimeInfo.from_json(answer.body)

    async def make_tables(self, broker: str) -> None:
        """A topic, a group and a committed offset of it."""
        await self.make_topic(broker, TABLED)
        group = SubscriptionGroupConfig(group_name=TABLED).to_json()
        make = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        await self.call(broker, Frame(code=make, body=group))
        await self.commit(broker, 3)

    async def make_topic(self, broker: str, name: str) -> None:
        """A topic at one broker."""
        topic = CreateTopicRequest(
            topic=name, default_topic="TBW102", read_queue_nums=QUEUES, write_queue_nums=QUEUES,
            perm=6, topic_filter_type="SINGLE_TAG",
        )  # fmt: skip
        make = RequestCode.UPDATE_AND_CREATE_TOPIC
        await self.call(broker, Frame(code=make, ext=to_ext(topic)))

    async def read(self, broker: str, topic: str) -> list[bytes]:
        """The bodies that a broker gives of a topic: of its first messages, in each queue."""
        found: list[bytes] = []
        broker_set = broker.partition("-")[0]
        for queue_id in range(QUEUES):
            pull = pull_of(QueueName(topic, broker_set, queue_id), 0,
                           consumer_group="mixed", count=64)  # fmt: skip
            request = await self.pool.call(self.address(broker), pull, timeout_s=CALL_S)
            if request.code == ResponseCode.SUCCESS:
                found += [m.body for m in decode_all(request.body or b"")]
        return found

    async def producer(
        self, group: str, topics: Sequence[str], decided: Callable[[str], Decision]
    ) -> ProducerSession:
        """A producer of transactions, which knows the routes as they are now.

        Args:
            group: of producers.
            topics: that it sends to.
            decided: what a transaction has come to, by its key.
        """
        routes = RouteBook(self.namesrvs, self.dial, self._group)
        routes.watch(topics)
        await routes.refresh()
        routes.close()
        return ProducerSession(
            routes, self.dial, self._group,
            client_id=f"client-{group}", producer_group=group, decided=decided,
        )  # fmt: skip

    async def commit(self, broker: str, offset: int) -> None:
        """Commit the group's offset."""
        header = UpdateConsumerOffsetRequest(
            topic=TABLED, consumer_group=TABLED, queue_id=0, commit_offset=offset
        )
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        await self.call(broker, Frame(code=code, ext=to_ext(header)))

    async def committed(self, broker: str) -> int | None:
        """The group's offset."""
        header = QueryConsumerOffsetRequest(topic=TABLED, consumer_group=TABLED, queue_id=0)
        code = RequestCode.QUERY_CONSUMER_OFFSET
        answer = await self.call(broker, Frame(code=code, ext=to_ext(header)))
        return from_ext(OffsetResponse, answer.ext).offset

    async def has_tables(self, broker: str) -> bool:
        """Whether a slave has copied them."""
        topics = await self.call(broker, Frame(code=RequestCode.GET_ALL_TOPIC_CONFIG))
        groups = await self.call(broker, Frame(code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
        offsets = await self.call(broker, Frame(code=RequestCode.GET_ALL_CONSUMER_OFFSET))
        table = ConsumerOffsets.from_json(offsets.body).offset_table
        return (
            TABLED in TopicConfigSerializeWrapper.from_json(topics.body).topic_config_table
            and TABLED in SubscriptionGroups.from_json(groups.body).subscription_group_table
            and table.get(f"{TABLED}@{TABLED}") == {0: 3}
        )

    async def know_the_topic(self) -> bool:
        """Whether all brokers do. An empty slave of RocketMQ is a member of the SyncStateSet before
        it has copied its master's topics, which it does each 10 s; elected until then, it refuses
        every message."""
        request = Frame(code=RequestCode.GET_TOPIC_CONFIG, ext=to_ext(TopicRequest(topic=TOPIC)))
        answers = [
            await self.pool.call(self.address(broker), request, timeout_s=CALL_S)
            for broker in self.brokers
        ]
        return all(answer.code == ResponseCode.SUCCESS for answer in answers)

    async def log(self, broker: str, end: int) -> bytes:
        """A replica's log from its disk, up to `end`."""
        files = await self.processes.stored(broker, "store/commitlog")
        parts = [data for path, data in sorted(files.items()) if path.rpartition("/")[2].isdigit()]
        return b"".join(parts)[:end]

    # Messages.

    async def send(self, broker: str, *, size: int = 100) -> bool:
        """Send one message; true if it was acknowledged."""
        self._sent += 1
        body = f"message {self._sent} ".encode().ljust(size, b".") + b"!"
        header = SendRequest(
            topic=TOPIC,
            producer_group="mixed",
            default_topic="TBW102",
            default_topic_queue_nums=QUEUES,
            queue_id=self._sent % QUEUES,
            sys_flag=0,
            born_timestamp=round(time.time() * 1000),
            flag=0,
            properties=props.encode({props.WAIT: "true"}).decode(),
        )
        request = Frame(code=RequestCode.SEND_MESSAGE_V2, ext=to_short_ext(header), body=body)
        acked = False
        with contextlib.suppress(OSError):
            answer = await self.pool.call(self.address(broker), request, timeout_s=CALL_S)
            acked = answer.code == ResponseCode.SUCCESS
        (self.acked if acked else self.tail).append(body)
        return acked

    async def send_some(self, broker: str, count: int = 30) -> None:
        for _ in range(count):
            assert await self.send(broker)

    # Conditions.

    async def until(
        self, what: str, done: Callable[[], Awaitable[bool]], wait_s: float = JOIN_S
    ) -> None:
        """Wait for a condition while all nodes that should run do."""
        began = time.monotonic()

        async def held() -> bool:
            crashed = await self.processes.crashed()
            assert not crashed, f"ended while waiting for {what}: {crashed}"
            with contextlib.suppress(OSError):
                return await done()
            return False

        if not await until(held, wait_s):
            await self._dump_threads()
            raise AssertionError(f"not within {wait_s} s: {what}; {await self.master()}")
        print(f"{time.monotonic() - began:6.1f} s: {what}")

    async def _dump_threads(self) -> None:
        """Let the JVMs write what their threads do into their logs: it is why they wait."""
        asked = [node for node in await self.processes.living() if node in self._java]
        for node in asked:
            await self.processes.signal(node, signal.SIGQUIT)

        async def dumped() -> bool:
            machines = [self.processes.machine(node) for node in asked]
            logs = [await m.get(f"{m.data_dir}/{NODE_LOG}") or b"" for m in machines]
            return all(DUMP_END in log for log in logs)

        await until(dumped, DUMP_S)

    async def until_writable(self, broker: str) -> None:
        wait_s = LEAD_S if broker in self._java else JOIN_S
        await self.until(f"{broker} takes messages", lambda: self.send(broker), wait_s)

    async def until_read(self, slave: str) -> None:
        """The slave has appended what its master sent: its log's end stands for a second."""
        end, since = -1, time.monotonic()

        async def stands() -> bool:
            nonlocal end, since
            now = (await self.epochs(slave))[1]
            if now != end:
                end, since = now, time.monotonic()
            return time.monotonic() - since >= 1

        await self.until(f"{slave} has read what was sent", stands)

    async def settled(self, master: str) -> None:
        """All are in sync; more is written; replicas have the same, and all that was acked."""
        members = tuple(sorted(self.brokers))

        async def joined() -> bool:
            now, _, known = await self.master()
            return now == master and known == members

        await self.until(f"{master} leads {members}", joined)
        await self.until("all know the topic", self.know_the_topic)
        await self.until_writable(master)
        await self.send_some(master)

        async def level() -> bool:
            known = [await self.epochs(broker) for broker in members]
            return all(other == known[0] for other in known)

        await self.until("equal ends and epochs", level)
        end = (await self.epochs(master))[1]
        logs = [await self.log(broker, end) for broker in members]
        for broker, log in zip(members, logs, strict=True):
            at = first_difference(log, logs[0])
            assert log == logs[0], f"{broker} and {members[0]} differ from byte {at} of {end}"
        lost = [body[:20] for body in self.acked if body not in logs[0]]
        assert not lost, f"{len(lost)} of {len(self.acked)} acknowledged lost: {lost[:5]}"


def show_logs(folder: Path) -> None:
    """Print how the nodes' logs end; pytest shows it where a test failed."""
    for log in sorted(folder.glob("*/node.log")):
        text = log.read_text(errors="replace")
        said = [p for p in text.split("\n\n") if p[:1] != '"' or _busy(p)]
        shown = "\n\n".join(said)[-30_000:]
        print(f"--- {log.parent.name}\n{shown}")


def _busy(thread: str) -> bool:
    """Whether a thread of a dump is in RocketMQ's own code, and not between two rounds."""
    own = [line for line in thread.splitlines() if line.startswith("\tat org.apache.rocketmq")]
    return bool(own) and not any(at in thread for at in IDLE)


def first_difference(a: bytes, b: bytes) -> int:
    """Where two logs differ first."""
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


@contextlib.asynccontextmanager
async def mixed(
    folder: Path,
    target: MixedTarget,
    settings: Settings,
    placed: Mapping[str, tuple[str, ...]] | None = None,
) -> AsyncIterator[World]:
    """A mixed cluster that is up; nothing of it is left behind.

    Args:
        folder: of its machines.
        target: what each node is.
        settings: of all.
        placed: topics of some broker sets only, without controllers.
    """
    environment = LocalEnvironment(folder)
    async with asyncio.TaskGroup() as group:
        world = World(environment, target, settings, group)
        world.placed = dict(placed or {})
        try:
            await world.start_all()
            yield world
        finally:
            world.pool.close()
            await environment.down()
            show_logs(folder)
