"""RocketMQ's own clients and mqadmin with masters and slaves of ours, without controllers.

One set of three is a SYNC_MASTER and two slaves with strict locks, the other one a master alone. A
consumer in order, a consumer, and a producer of transactions of RocketMQ's go on while the master
of the first set is killed, a slave acts for it, and it comes back; `java/Judge.java` does and
reports. All traffic stays on 127.0.0.1. Times are seconds.
"""

import asyncio
import contextlib
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from java_jars import COMPILE_S, FETCH_S, compiled
from judge_world import READY_S, RECOVER_S, Judge
from reference_nodes import HOST, NodeProcess, free_port, wait_until

from maxq.reference import rpc
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame

CLUSTER, SET, OTHER = "maxq-pairs", "pa", "pb"
REPLICAS, COUNT, QUEUES, TRIES_MAX = 3, 5, 4, 2
BEFORE, AFTER = 40, 40  # messages of the stream before the kill, and once the master is back
COMMON: dict[str, object] = {
    "brokerClusterName": CLUSTER,
    "bindAddress": HOST,
    "brokerIP1": HOST,
    "enableSlaveActingMaster": "true",
    "enableRemoteEscape": "true",
    "slaveReadEnable": "true",
    "lockInStrictMode": "true",
    "autoCreateTopicEnable": "false",
    "brokerNotActiveTimeoutMillis": 3000,
    "registerNameServerPeriod": 10_000,
    "transactionTimeOut": 2000,
    "transactionCheckInterval": 1000,
    # One consumer holds all; a broker that starts grants nothing for so long.
    "rocketmq.broker.rebalance.lockMaxLiveTime": 8000,
    "mappedFileSizeCommitLog": 16 << 20,
    "mappedFileSizeConsumeQueue": 600_000,
}

pytestmark = [
    pytest.mark.rocketmq,
    pytest.mark.timeout(FETCH_S + COMPILE_S + 240),
]


class Pairs:
    """A name server n0, brokers pa0 to pa2, and pb0; the number is a broker's id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        rng, taken = random.Random(), set[int]()
        names = ["n0", *(f"{SET}{i}" for i in range(REPLICAS)), f"{OTHER}0"]
        self.addresses = {name: f"{HOST}:{free_port(rng, taken)}" for name in names}
        self.nodes: dict[str, NodeProcess] = {}

    @property
    def namesrv(self) -> str:
        return self.addresses["n0"]

    def start(self) -> None:
        self._node("namesrv", "n0", {
            "listenPort": self._port("n0"), "bindAddress": HOST, "supportActingMaster": "true",
            "scanNotActiveBrokerInterval": 1000, "kvConfigPath": f"{self._folder}/kvConfig.json",
        })  # fmt: skip
        for name in self.addresses:
            if name != "n0":
                self.start_broker(name)

    def start_broker(self, name: str) -> None:
        number = int(name[-1])
        several = name.startswith(SET)
        role = "SLAVE" if number else "SYNC_MASTER" if several else "ASYNC_MASTER"
        self._node("broker", name, {
            **COMMON,
            "brokerName": name[:-1],
            "brokerId": number,
            "brokerRole": role,
            "totalReplicas": REPLICAS if several else 1,
            "inSyncReplicas": 2 if several else 1,
            "listenPort": self._port(name),
            "namesrvAddr": self.namesrv,
            "storePathRootDir": self._folder / name,
        })  # fmt: skip

    def _port(self, name: str) -> str:
        return self.addresses[name].partition(":")[2]

    def _node(self, role: str, name: str, settings: dict[str, object]) -> None:
        self.nodes[name] = NodeProcess(self._folder, role, name, settings)
        wait_until(self.nodes[name].started, f"{name} to start", self.nodes.values(), READY_S)

    def know_topic(self, topic: str) -> bool:
        """Whether every broker of the first set has a topic."""
        request = Frame(code=RequestCode.GET_TOPIC_CONFIG, ext={"topic": topic})
        return asyncio.run(self._all_take(request))

    async def _all_take(self, request: Frame) -> bool:
        async with asyncio.TaskGroup() as group:
            pool = rpc.Pool(group)
            try:
                brokers = [a for name, a in self.addresses.items() if name.startswith(SET)]
                answers = [await pool.call(a, request, timeout_s=2) for a in brokers]
            except (OSError, TimeoutError):
                return False
            finally:
                pool.close()
        return all(answer.code == ResponseCode.SUCCESS for answer in answers)

    def kill(self, name: str) -> None:
        node = self.nodes.pop(name)
        node.process.kill()
        node.process.wait()

    def stop(self) -> dict[str, int]:
        codes = {name: node.stop() for name, node in reversed(self.nodes.items())}
        for name, node in self.nodes.items():
            print(f"--- {name}, exit code {codes[name]}")
            print(node.log.read_text(errors="replace")[-4000:])
        return codes


@contextlib.contextmanager
def running(folder: Path, release: str) -> Iterator[tuple[Pairs, Judge]]:
    """The cluster, and the JVM; both must end well."""
    class_path = compiled("Judge.java", release, folder)
    pairs, judge, code = Pairs(folder), None, 0
    codes: dict[str, int] = {}
    try:
        pairs.start()
        judge = Judge(class_path, pairs.namesrv, folder / "judge", release)
        yield pairs, judge
    finally:
        if judge is not None:
            code = judge.close()
        codes = pairs.stop()
    assert (code, set(codes.values())) == (0, {0})


def status(w: Pairs, judge: Judge, broker: str) -> dict[str, str]:
    """brokerStatus, by key."""
    lines = judge.admin("brokerStatus", "-n", w.namesrv, "-b", w.addresses[broker])
    found = (re.match(r"([\w.]+)\s*: (.*)", line) for line in lines)
    return {m[1]: m[2].strip() for m in found if m}


def listed(w: Pairs, judge: Judge) -> set[tuple[str, str, str]]:
    """clusterList: set, id and address of each broker."""
    lines = judge.admin("clusterList", "-n", w.namesrv)
    rows = [line.split() for line in lines if line.startswith(CLUSTER)]
    return {(row[1], row[2], row[3]) for row in rows}


def sent(judge: Judge) -> list[str]:
    """What the stream has sent and was acknowledged."""
    return [fields[0] for fields in judge.facts("sent") if fields[0].startswith("s-")]


def wait_for(judge: Judge, consumer: str, bodies: Sequence[str]) -> None:
    wanted = set(bodies)
    judge.until(
        lambda: wanted <= {m.body for m in judge.got(consumer)},
        f"all of {len(wanted)} messages for {consumer}", RECOVER_S,
    )  # fmt: skip


def make_topics(w: Pairs, judge: Judge) -> None:
    queues = ("-r", QUEUES, "-w", QUEUES)
    where = ("-b", w.addresses[f"{SET}0"])
    # A topic of the cluster is made at the masters that are listed by then.
    wait_until(
        lambda: len(listed(w, judge)) == REPLICAS + 1, "all to be listed", w.nodes.values(), READY_S
    )
    judge.admin("updateTopic", "-n", w.namesrv, *where, "-t", "rows", *queues)
    judge.admin("updateTopic", "-n", w.namesrv, "-c", CLUSTER, "-t", "deals", *queues)
    for topic in ("rows", "deals"):
        wait_until(
            lambda of=topic: w.know_topic(of),  # type: ignore[misc]
            f"{topic} at the slaves", w.nodes.values(), RECOVER_S,
        )  # fmt: skip


def check_order(judge: Judge) -> None:
    """Of each queue every message was given for the first time after the one before it."""
    queues: dict[tuple[str, int], list[int]] = defaultdict(list)
    for m in judge.got("rows"):
        seen = queues[m.offset_msg_id[:16], m.queue]
        if m.offset not in seen:
            seen.append(m.offset)
    assert len(queues) == QUEUES
    for place, offsets in queues.items():
        assert offsets == list(range(len(offsets))), place


def check_tables(w: Pairs, judge: Judge) -> None:
    """What mqadmin says of a set that is whole."""
    addresses = {(SET, str(i), w.addresses[f"{SET}{i}"]) for i in range(REPLICAS)}
    addresses.add((OTHER, "0", w.addresses[f"{OTHER}0"]))
    whole = rf"#InSyncSlaveNum\s+{REPLICAS - 1}$"

    def in_sync() -> bool:
        lines = judge.admin("haStatus", "-n", w.namesrv, "-b", w.addresses[f"{SET}0"])
        return any(re.match(whole, line) for line in lines)

    wait_until(
        lambda: listed(w, judge) == addresses, "all to be listed", w.nodes.values(), RECOVER_S
    )
    wait_until(in_sync, "all to be in sync", w.nodes.values(), RECOVER_S)
    told = status(w, judge, f"{SET}0")
    assert (told["maxq.role"], told["maxq.isolated"]) == ("master", "false")


def check_permissions(w: Pairs, judge: Judge) -> None:
    """Write permission of a set is taken and given back by order."""
    for command, perm in (("wipeWritePerm", 4), ("addWritePerm", 6)):
        lines = judge.admin(command, "-n", w.namesrv, "-b", SET)
        assert any("OK" in line for line in lines), lines
        route = "\n".join(judge.admin("topicRoute", "-n", w.namesrv, "-t", "rows"))
        assert re.search(rf'"perm":\s*{perm}\b', route), route


def test_javas_clients_go_on_while_a_slave_acts(release: str, tmp_path: Path) -> None:
    """Nothing acknowledged is lost, order is kept, and what was open ends at another set."""
    with running(tmp_path, release) as (w, judge):
        make_topics(w, judge)
        judge.tell("push", "rows", "orderly", "rows", "rows", TRIES_MAX)
        judge.tell("push", "deals", "concurrent", "deals", "deals", TRIES_MAX)
        judge.tell("trade", "trader", "traders")
        judge.tell("stream", "flow", "rows", "s-")
        judge.until(lambda: len(sent(judge)) >= BEFORE, "a stream", RECOVER_S)
        judge.tell("transact", "trader", "deals", "open-", "uc", COUNT)
        judge.tell("transact", "trader", "deals", "back-", "ur", COUNT)
        before = sent(judge)
        w.kill(f"{SET}0")

        def acts() -> bool:
            return status(w, judge, f"{SET}1").get("maxq.acting") == "true"

        wait_until(acts, "a slave to act", w.nodes.values(), RECOVER_S)
        assert (SET, "0", w.addresses[f"{SET}0"]) not in listed(w, judge)
        wait_for(judge, "rows", before)
        wait_for(judge, "deals", [f"open-{i}?uc" for i in range(COUNT)])

        w.start_broker(f"{SET}0")
        wait_until(
            lambda: (SET, "0", w.addresses[f"{SET}0"]) in listed(w, judge),
            "the master to be back", w.nodes.values(), RECOVER_S,
        )  # fmt: skip
        back = len(sent(judge))
        judge.until(lambda: len(sent(judge)) >= back + AFTER, "more of the stream", RECOVER_S)
        judge.tell("stop", "flow")
        wait_for(judge, "rows", sent(judge))
        check_order(judge)
        assert not [m.body for m in judge.got("deals") if m.body.startswith("back-")]

        def consumed() -> bool:
            # A group that has not yet committed at the master (206) fails the command.
            lines = judge.admin_tried("consumerProgress", "-n", w.namesrv, "-g", "rows")
            return "Consume Diff Total: 0" in lines

        wait_until(consumed, "offsets at the end", w.nodes.values(), RECOVER_S)
        check_tables(w, judge)
        check_permissions(w, judge)
        judge.tell("stop", "rows", "deals", "trader")
