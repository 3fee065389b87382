"""A released Java broker and ours replicate each other, under our controllers.

Both sides of replication are ours in every other test, so a misreading of the protocol is seen by
neither. Here a Java broker is slave, then master, then slave again of ours in one broker set with
allAckInSyncStateSet. At every turn the SyncStateSet has both, the logs are equal byte by byte, and
every acknowledged message is there. Masters end by SIGKILL or by an election that an operator
asks for, and both kinds come back with a tail that they alone have. RocketMQ's own mqadmin reads
our answers.

Not shown, since Java cannot: a Java master that writes nothing in its epoch, then ours. The Java
slave refuses the entry that starts where its last one does (controller-ha.md, H2). Our own
masters begin each epoch with a record.

All traffic is on 127.0.0.1 (Java's HA port listens on every address). Times are seconds.
"""

import asyncio
import contextlib
import random
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from java_jars import FETCH_S, need, server_jars
from reference_nodes import HOST, NodeProcess, controller_settings, free_port

from reference import rpc
from reference.records import RemoteProtocolError
from reference.wire import node_headers
from reference.wire import property as props
from reference.wire.bodies import (
    BrokerReplicasInfo,
    ConsumerOffsets,
    EpochEntryCache,
    HaRuntimeInfo,
    SubscriptionGroupConfig,
    SubscriptionGroups,
)
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.headers import (
    SendRequest,
    UpdateConsumerOffsetRequest,
    to_ext,
    to_short_ext,
)
from reference.wire.route import TopicConfigSerializeWrapper

RELEASE = "5.5.0"
CLUSTER, SET, TOPIC, GROUP = "maxq-mixed", "m", "mixed", "mixed-readers"
OURS, JAVA = 1, 2  # persistent ids, in the order of joining
FILE_BYTES = 16 << 20
READY_S, CALL_S, JOIN_S = 30, 6, 30
BIG, TAIL = 300_000, 40  # bytes, messages: more than sockets hold
PACE = {
    "syncBrokerMetadataPeriod": 500,
    "checkSyncStateSetPeriod": 500,
    "haSendHeartbeatInterval": 500,
    "registerNameServerPeriod": 10_000,
}
JVM = [
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    *(f"--add-opens=java.base/{p}=ALL-UNNAMED"
      for p in ("java.nio", "sun.nio.ch", "java.lang", "jdk.internal.ref")),
    "-Xms256m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
]  # fmt: skip


class JavaBroker:
    """A released broker as a real process."""

    def __init__(self, folder: Path, jars: Path, settings: dict[str, object]) -> None:
        self.name, self.home = "java", folder / "java-home"
        self.home.mkdir(exist_ok=True)
        config = folder / "java.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        with (folder / "java.log").open("ab") as log:
            self.process = subprocess.Popen(
                ["java", *JVM, f"-Duser.home={self.home}", f"-Drocketmq.home.dir={self.home}",
                 "-Drmq.logback.configurationFile=rmq.broker.logback.xml", "-cp", f"{jars}/*",
                 "org.apache.rocketmq.broker.BrokerStartup", "-c", str(config)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip


class World:
    """A mixed broker set and what is asked of it."""

    def __init__(self, folder: Path, jars: Path, group: asyncio.TaskGroup) -> None:
        self.folder, self.jars = folder, jars
        self.pool = rpc.Pool(group)
        rng, taken = random.Random(), set[int]()
        self.namesrv = f"{HOST}:{free_port(rng, taken)}"
        self.controllers = {f"c{i}": f"{HOST}:{free_port(rng, taken)}" for i in range(3)}
        self.address = {b: f"{HOST}:{free_port(rng, taken)}" for b in (OURS, JAVA)}
        self.nodes: dict[str, NodeProcess | JavaBroker] = {}
        self.acked: list[bytes] = []
        self.sent = 0

    # Processes.

    def start_cluster(self) -> None:
        port = self.namesrv.partition(":")[2]
        self._node("namesrv", "n0", {"listenPort": port, "bindAddress": HOST})
        for name in self.controllers:
            settings = controller_settings(self.folder, CLUSTER, name, self.controllers)
            self._node("controller", name, settings)

    def _node(self, role: str, name: str, settings: dict[str, object]) -> None:
        self.nodes[name] = NodeProcess(self.folder, role, name, settings)

    def start(self, broker: int) -> None:
        address = self.address[broker]
        settings: dict[str, object] = {
            "brokerClusterName": CLUSTER,
            "brokerName": SET,
            "brokerId": -1,
            "brokerRole": "SLAVE",
            "listenPort": address.partition(":")[2],
            "bindAddress": HOST,
            "brokerIP1": HOST,
            "brokerIP2": HOST,
            "namesrvAddr": self.namesrv,
            "controllerAddr": ";".join(self.controllers.values()),
            "enableControllerMode": "true",
            "allAckInSyncStateSet": "true",
            "minInSyncReplicas": 1,
            "autoCreateTopicEnable": "false",
            "storePathRootDir": self.store(broker),
            "storePathCommitLog": self.store(broker) / "commitlog",
            "mappedFileSizeCommitLog": FILE_BYTES,
            "mappedFileSizeConsumeQueue": 600_000,
            **PACE,
        }
        if broker == OURS:
            self._node("broker", "ours", settings)
        else:
            java = {"maxHashSlotNum": 10_000, "maxIndexNum": 40_000, "timerWheelEnable": "false"}
            self.nodes["java"] = JavaBroker(self.folder, self.jars, settings | java)

    def store(self, broker: int) -> Path:
        return self.folder / f"store-{broker}"

    def process(self, broker: int) -> "subprocess.Popen[bytes]":
        return self.nodes["ours" if broker == OURS else "java"].process

    async def stands(self, broker: int) -> bool:
        return stopped(self.process(broker).pid)

    def signal(self, broker: int, number: signal.Signals) -> None:
        process = self.process(broker)
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait(10)

    def stop(self) -> None:
        for node in self.nodes.values():
            node.process.kill()
            node.process.wait(10)

    # Questions.

    async def call(self, address: str, request: Frame) -> Frame:
        answer = await self.pool.call(address, request, timeout_s=CALL_S)
        assert answer.code == ResponseCode.SUCCESS, (request.code, answer.code, answer.remark)
        return answer

    async def in_sync(self) -> tuple[int | None, int, tuple[int, ...]]:
        """The master, its epoch, and the SyncStateSet, as the leading controller has them."""
        request = Frame(code=RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=f'["{SET}"]'.encode())
        for address in self.controllers.values():
            with contextlib.suppress(OSError, TimeoutError, RemoteProtocolError):
                answer = await self.pool.call(address, request, timeout_s=2)
                if answer.code == ResponseCode.SUCCESS:
                    table = BrokerReplicasInfo.from_json(answer.body).replicas_info_table
                    known = table.get(SET)
                    if known is not None:
                        members = tuple(sorted(r.broker_id for r in known.in_sync_replicas))
                        return known.master_broker_id, known.master_epoch, members
        return None, 0, ()

    async def epochs(self, broker: int) -> tuple[list[tuple[int, int]], int]:
        """A replica's epochs as (epoch, start), and the end of its log."""
        request = Frame(code=RequestCode.GET_BROKER_EPOCH_CACHE)
        answer = await self.call(self.address[broker], request)
        cache = EpochEntryCache.from_json(answer.body)
        return [(e.epoch, e.start_offset) for e in cache.epoch_list], cache.max_offset

    async def send(self, broker: int, *, size: int = 100) -> bool:
        """Send one message; true if it was acknowledged."""
        self.sent += 1
        body = f"message {self.sent} ".encode().ljust(size, b".") + b"!"
        header = SendRequest(
            topic=TOPIC,
            producer_group="mixed",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=self.sent % 4,
            sys_flag=0,
            born_timestamp=round(time.time() * 1000),
            flag=0,
            properties=props.encode({props.WAIT: "true"}).decode(),
        )
        request = Frame(code=RequestCode.SEND_MESSAGE_V2, ext=to_short_ext(header), body=body)
        try:
            answer = await self.pool.call(self.address[broker], request, timeout_s=CALL_S)
        except (OSError, TimeoutError):
            return False
        if answer.code == ResponseCode.SUCCESS:
            self.acked.append(body)
        return answer.code == ResponseCode.SUCCESS

    async def send_some(self, broker: int, count: int = 30) -> None:
        for _ in range(count):
            assert await self.send(broker)

    async def until(self, what: str, done: Callable[[], Awaitable[bool]], wait_s: float) -> None:
        """Poll while all brokers live."""
        began = time.monotonic()
        while True:
            with contextlib.suppress(OSError, TimeoutError):
                if await done():
                    print(f"{time.monotonic() - began:6.1f} s: {what}")
                    return
            assert time.monotonic() - began < wait_s, f"not within {wait_s} s: {what}"
            await asyncio.sleep(0.1)

    async def until_master(self, broker: int, members: tuple[int, ...]) -> None:
        async def done() -> bool:
            master, _, now = await self.in_sync()
            return master == broker and now == members

        await self.until(f"master {broker}, in sync {members}", done, JOIN_S)

    async def until_writable(self, broker: int) -> None:
        await self.until(f"{broker} takes messages", lambda: self.send(broker), JOIN_S)

    async def until_equal(self) -> None:
        """Both logs have one end, and the same bytes up to it; nothing acknowledged is missing."""

        async def done() -> bool:
            ends = [(await self.epochs(broker))[1] for broker in (OURS, JAVA)]
            return ends[0] == ends[1]

        await self.until("equal ends", done, JOIN_S)
        end = (await self.epochs(OURS))[1]
        ours, java = (log_bytes(self.store(broker), end) for broker in (OURS, JAVA))
        assert ours == java, f"logs differ from byte {first_difference(ours, java)} of {end}"
        lost = [body[:20] for body in self.acked if body not in ours]
        assert not lost, f"{len(lost)} of {len(self.acked)} acknowledged messages lost: {lost[:5]}"

    async def until_same_epochs(self) -> None:
        async def done() -> bool:
            return (await self.epochs(OURS))[0] == (await self.epochs(JAVA))[0]

        try:
            await self.until("equal epochs", done, 10)
        finally:
            print(await self.epochs(OURS), await self.epochs(JAVA))


def log_bytes(store: Path, end: int) -> bytes:
    files = sorted((store / "commitlog").iterdir())
    return b"".join(f.read_bytes() for f in files if f.name.isdigit())[:end]


def stopped(pid: int) -> bool:
    """Whether every thread of a process stands still: a stop reaches them one by one."""
    states = [
        stat.read_text().rpartition(") ")[2][0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")
    ]
    return set(states) == {"T"}


def first_difference(a: bytes, b: bytes) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
                min(len(a), len(b)))  # fmt: skip


@pytest.fixture(scope="module")
def jars() -> Path:
    """The jars of a Java broker and of mqadmin."""
    need("java", "mvn")
    return server_jars(RELEASE)


def show_logs(folder: Path) -> None:
    """Print what the nodes said; pytest shows it only where the test failed."""
    for log in (*folder.glob("*.log"), *folder.glob("java-home/logs/rocketmqlogs/broker.log")):
        print(f"--- {log.name}\n{log.read_text(errors='replace')[-4000:]}")


@contextlib.asynccontextmanager
async def world(folder: Path, jars: Path) -> AsyncIterator[World]:
    """Three controllers and a name server of ours; brokers as the test starts them."""
    async with asyncio.TaskGroup() as group:
        made = World(folder, jars, group)
        try:
            made.start_cluster()
            yield made
        finally:
            made.stop()
            made.pool.close()
            show_logs(folder)


async def make_tables(w: World, broker: int) -> None:
    """A topic, a group and a committed offset."""
    address = w.address[broker]
    topic = node_headers.CreateTopicRequest(
        topic=TOPIC, default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=6,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip
    await w.call(address, Frame(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=to_ext(topic)))
    group = SubscriptionGroupConfig(group_name=GROUP)
    await w.call(
        address,
        Frame(code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group.to_json()),
    )
    offset = UpdateConsumerOffsetRequest(
        topic=TOPIC, consumer_group=GROUP, queue_id=0, commit_offset=3
    )
    await w.call(address, Frame(code=RequestCode.UPDATE_CONSUMER_OFFSET, ext=to_ext(offset)))


async def has_tables(w: World, broker: int) -> bool:
    address = w.address[broker]
    topics = await w.call(address, Frame(code=RequestCode.GET_ALL_TOPIC_CONFIG))
    groups = await w.call(address, Frame(code=RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))
    offsets = await w.call(address, Frame(code=RequestCode.GET_ALL_CONSUMER_OFFSET))
    table = ConsumerOffsets.from_json(offsets.body).offset_table
    return (
        TOPIC in TopicConfigSerializeWrapper.from_json(topics.body).topic_config_table
        and GROUP in SubscriptionGroups.from_json(groups.body).subscription_group_table
        and bool(table.get(f"{TOPIC}@{GROUP}"))
    )


async def ha_status(w: World, broker: int) -> HaRuntimeInfo:
    answer = await w.call(w.address[broker], Frame(code=RequestCode.GET_BROKER_HA_STATUS))
    return HaRuntimeInfo.from_json(answer.body)


def mqadmin(w: World, *words: str) -> str:
    """Run a command of RocketMQ's own administration tool; gives what it prints."""
    home = w.folder / "mqadmin"
    done = subprocess.run(
        ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
         f"-Drocketmq.home.dir={home}", f"-Duser.home={home}",
         "-Drmq.logback.configurationFile=rmq.tools.logback.xml", "-cp", f"{w.jars}/*",
         "org.apache.rocketmq.tools.command.MQAdminStartup", *words],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert "Exception" not in done.stdout + done.stderr, done.stdout + done.stderr
    return "".join(line + "\n" for line in done.stdout.splitlines() if "|-INFO" not in line)


async def elect(w: World, broker: int) -> None:
    """Ask the leading controller for a certain master, as `mqadmin electMaster` does."""
    header = node_headers.ElectMasterRequest(
        cluster_name=CLUSTER, broker_name=SET, broker_id=broker, designate_elect=True
    )
    request = Frame(code=RequestCode.CONTROLLER_ELECT_MASTER, ext=to_ext(header))
    codes = [(await w.pool.call(a, request, timeout_s=CALL_S)).code for a in w.controllers.values()]
    assert sorted(codes)[0] == ResponseCode.SUCCESS, codes


async def settled(w: World, master: int) -> None:
    """Both are in sync, more is written, and both have the same."""
    await w.until_master(master, (OURS, JAVA))
    await w.send_some(master)
    await w.until_equal()
    await w.until_same_epochs()


async def first_join(w: World) -> None:
    """Java joins our master, whose log holds no message yet; then there are tables and messages."""
    w.start(OURS)
    await w.until_master(OURS, (OURS,))
    w.start(JAVA)
    await w.until_master(OURS, (OURS, JAVA))

    async def made() -> bool:
        await make_tables(w, OURS)
        return True

    await w.until("a topic", made, READY_S)
    await settled(w, OURS)
    await w.until("tables in Java", lambda: has_tables(w, JAVA), READY_S)
    seen = await ha_status(w, JAVA)
    assert seen.ha_client_runtime_info is not None
    assert (seen.master, bool(seen.ha_client_runtime_info.master_addr)) == (False, True)
    [link] = (await ha_status(w, OURS)).ha_connection_info
    assert (link.in_sync, link.diff) == (True, 0)


async def die(w: World, dies: int, survives: int) -> None:
    """The master is killed and comes back."""
    w.signal(dies, signal.SIGKILL)
    await w.until_writable(survives)
    await w.send_some(survives)
    w.start(dies)
    await settled(w, survives)


async def die_with_tail(w: World, dies: int, survives: int) -> None:
    """The master is killed with messages that its stopped slave has in part, or not at all."""
    before = (await w.epochs(dies))[1]
    w.signal(survives, signal.SIGSTOP)
    await w.until("stopped", lambda: w.stands(survives), 5)
    tail = await asyncio.gather(*(w.send(dies, size=BIG) for _ in range(TAIL)))
    assert not any(tail), f"{sum(tail)} acknowledged without the slave"
    end = (await w.epochs(dies))[1]
    assert end > before + TAIL // 2 * BIG, "Java refuses some when it is busy, but not half of them"
    w.signal(dies, signal.SIGKILL)
    w.signal(survives, signal.SIGCONT)
    await w.until_writable(survives)
    assert (await w.epochs(survives))[1] < end
    await w.send_some(survives)
    w.start(dies)
    await settled(w, survives)


def ask_as_operator(w: World) -> None:
    """What mqadmin makes of our answers."""
    controller = next(iter(w.controllers.values()))
    said = mqadmin(w, "getSyncStateSet", "-a", controller, "-b", SET)
    assert "#SyncStateSetNums\t2" in said, said
    said = mqadmin(w, "haStatus", "-n", w.namesrv, "-b", w.address[OURS])
    assert "#InSyncSlaveNum\t1" in said, said
    said = mqadmin(w, "getBrokerEpoch", "-n", w.namesrv, "-b", SET)
    assert said.count("EpochEntry{epoch=1, startOffset=0") == 2, said
    said = mqadmin(w, "clusterList", "-n", w.namesrv)
    assert w.address[OURS] in said, said
    assert "null" not in said, said


@pytest.mark.rocketmq
@pytest.mark.campaign
@pytest.mark.timeout(FETCH_S + 240)
def test_a_java_broker_and_ours_take_turns(jars: Path, tmp_path: Path) -> None:
    """S6, S8, S14 between implementations."""

    async def run() -> None:
        async with world(tmp_path, jars) as w:
            await first_join(w)
            await asyncio.to_thread(ask_as_operator, w)
            await die(w, OURS, JAVA)
            await die(w, JAVA, OURS)
            for master in (JAVA, OURS):
                await elect(w, master)
                await w.until_writable(master)
                await settled(w, master)
            await die_with_tail(w, OURS, JAVA)
            await die_with_tail(w, JAVA, OURS)

    asyncio.run(run())
