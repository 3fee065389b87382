"""A P-SAFE cluster of ours as processes, and a JVM with RocketMQ's own clients and tools.

One set of three brokers with allAckInSyncStateSet and two in-sync replicas at least, three
controllers, one name server. `Judge` speaks with `java/Judge.java`: commands go in, facts come out
line by line; whoever waits, waits for a condition within a bound. Times are seconds.
"""

import asyncio
import contextlib
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from reference_nodes import HOST, NodeProcess, controller_settings, free_port, wait_until

from maxq.reference import rpc
from maxq.reference.wire.bodies import BrokerReplicasInfo
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame

CLUSTER, SET = "maxq-judge", "jg"
REPLICAS, CONTROLLERS = 3, 3
COMMAND_S, READY_S, RECOVER_S, QUIT_S = 40, 40, 60, 20


class Got(NamedTuple):
    """A message as a consumer saw it."""

    consumer: str
    body: str
    reconsume_times: int
    topic: str
    queue: int
    offset: int
    msg_id: str
    offset_msg_id: str


class Sent(NamedTuple):
    """What a producer was told of a send."""

    body: str
    status: str
    msg_id: str
    offset_msg_id: str
    queue: int
    offset: int


class CommandFailed(AssertionError):
    """RocketMQ's client could not do what it was told."""


class Judge:
    """The JVM. Facts are kept as lines, in the order of their arrival."""

    def __init__(self, class_path: Sequence[str], namesrv: str, home: Path, release: str) -> None:
        home.mkdir(exist_ok=True)
        self.release = release
        self._log = (home / "judge.log").open("wb")
        self.process = subprocess.Popen(
            [
                "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                f"-Duser.home={home}", f"-Drocketmq.home.dir={home}",  # where clients log
                "-Drmq.logback.configurationFile=rmq.client.logback.xml",
                "-Drocketmq.client.logRoot=" + str(home),
                "-cp", os.pathsep.join(class_path), "Judge", namesrv,
            ],
            cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()

    def until(self, done: Callable[[], bool], what: str, within_s: float) -> None:
        """Wait until a condition on the lines holds."""
        with self._news:
            while_s = time.monotonic() + within_s
            while not done():
                assert self.process.poll() is None, f"the JVM ended while waiting for {what}"
                left = while_s - time.monotonic()
                assert left > 0, f"not within {within_s} s: {what}; {self.lines[-5:]}"
                self._news.wait(min(left, 0.5))
        print(f"{time.monotonic() - while_s + within_s:5.1f} s: {what}")

    def tell(self, *words: object, within_s: float = COMMAND_S) -> list[str]:
        """Give a command, wait until it is through; returns the lines of that time."""
        assert self.process.stdin is not None
        command = "\t".join(map(str, words))
        begin, began = len(self.lines), time.monotonic()
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        end = f"done\t{command}"
        self.until(lambda: end in self.lines[begin:], command, within_s)
        print(f"{time.monotonic() - began:5.1f} s: {command}")
        lines = self.lines[begin:]
        if failed := [line for line in lines if line.startswith("failed\t")]:
            raise CommandFailed(failed)
        return lines

    def admin(self, *words: object) -> list[str]:
        """What mqadmin prints; it must not fail."""
        out = self.admin_tried(*words)
        wrong = [line for line in out if "Exception" in line]
        assert not wrong, out
        return out

    def admin_tried(self, *words: object) -> list[str]:
        """What mqadmin prints, be it that it failed."""
        lines = self.tell("admin", *words)
        out = [line.partition("\t")[2].rstrip() for line in lines if line.startswith("out\t")]
        return [line for line in out if "|-INFO" not in line and "|-WARN" not in line]

    def send(self, kind: str, topic: str, prefix: str, count: int) -> list[Sent]:
        """Send messages ``<prefix>0`` and so on; returns what was answered."""
        found = [line.split("\t") for line in self.tell("send", kind, topic, prefix, count)]
        return [Sent(f[1], f[2], f[3], f[4], int(f[5]), int(f[6])) for f in found if f[0] == "sent"]

    def got(self, consumer: str) -> list[Got]:
        """Everything that a consumer has seen, in its order."""
        found = [line.split("\t") for line in self.lines if line.startswith(f"got\t{consumer}\t")]
        return [Got(f[1], f[2], int(f[3]), f[4], int(f[5]), int(f[6]), f[7], f[8]) for f in found]

    def facts(self, word: str) -> list[list[str]]:
        """The fields of all lines of a kind."""
        return [x.split("\t")[1:] for x in self.lines if x.startswith(f"{word}\t")]

    def close(self) -> int:
        """Let it end; kill it if it does not. Returns its exit code."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            code = self.process.wait(QUIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._log.close()
        return code


class Cluster:
    """Our nodes, by name: n0, c0 to c2, b1 to b3 (their persistent ids, as they join in turn)."""

    def __init__(self, folder: Path, broker_settings: dict[str, object]) -> None:
        self.folder = folder
        self._more = broker_settings
        rng, taken = random.Random(), set[int]()
        self.namesrv = f"{HOST}:{free_port(rng, taken)}"
        self.controllers = {f"c{i}": f"{HOST}:{free_port(rng, taken)}" for i in range(CONTROLLERS)}
        self.brokers = {i: f"{HOST}:{free_port(rng, taken)}" for i in range(1, REPLICAS + 1)}
        self.nodes: dict[str, NodeProcess] = {}

    def start(self) -> None:
        port = self.namesrv.partition(":")[2]
        kv = f"{self.folder}/kvConfig.json"
        self._node("namesrv", "n0", {"listenPort": port, "bindAddress": HOST, "kvConfigPath": kv})
        for name in self.controllers:
            settings = controller_settings(self.folder, CLUSTER, name, self.controllers)
            self._node("controller", name, settings)
        for number in self.brokers:
            self.start_broker(number)
            identity = self.folder / f"b{number}" / "brokerIdentity"
            self.wait(identity.exists, f"b{number} to have an id")

    def start_broker(self, number: int) -> None:
        address = self.brokers[number]
        self._node("broker", f"b{number}", {
            "brokerClusterName": CLUSTER,
            "brokerName": SET,
            "brokerId": -1,
            "brokerRole": "SLAVE",
            "listenPort": address.partition(":")[2],
            "bindAddress": HOST,
            "brokerIP1": HOST,
            "namesrvAddr": self.namesrv,
            "controllerAddr": ";".join(self.controllers.values()),
            "enableControllerMode": "true",
            "allAckInSyncStateSet": "true",
            "minInSyncReplicas": 2,
            "totalReplicas": REPLICAS,
            "autoCreateTopicEnable": "false",
            "syncBrokerMetadataPeriod": 500,
            "checkSyncStateSetPeriod": 500,
            "haSendHeartbeatInterval": 500,
            "haMaxTimeSlaveNotCatchup": 3000,
            "registerNameServerPeriod": 10_000,
            "storePathRootDir": self.folder / f"b{number}",
            "mappedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 600_000,
            **self._more,
        })  # fmt: skip

    def _node(self, role: str, name: str, settings: dict[str, object]) -> None:
        self.nodes[name] = NodeProcess(self.folder, role, name, settings)
        self.wait(self.nodes[name].started, f"{name} to start")

    def wait(self, done: Callable[[], bool], what: str, within_s: float = READY_S) -> None:
        """Wait for a condition while all nodes live."""
        wait_until(done, what, self.nodes.values(), within_s)

    def know_topic(self, topic: str) -> bool:
        """Whether every broker has a topic."""
        request = Frame(code=RequestCode.GET_TOPIC_CONFIG, ext={"topic": topic})
        answers = asyncio.run(self._ask(self.brokers.values(), request))
        return all(a is not None and a.code == ResponseCode.SUCCESS for a in answers)

    def replicas(self) -> tuple[int, int, set[int]]:
        """The master's id, its epoch and the SyncStateSet, as the leading controller has them."""
        request = Frame(code=RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=f'["{SET}"]'.encode())
        for answer in asyncio.run(self._ask(self.controllers.values(), request)):
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                known = BrokerReplicasInfo.from_json(answer.body).replicas_info_table[SET]
                members = {r.broker_id for r in known.in_sync_replicas}
                return known.master_broker_id or 0, known.master_epoch, members
        return 0, 0, set()

    async def _ask(self, addresses: Iterable[str], request: Frame) -> list[Frame | None]:
        """What each says; None of those that do not answer."""
        answers: list[Frame | None] = []
        async with asyncio.TaskGroup() as group:
            pool = rpc.Pool(group)
            for address in addresses:
                answers.append(None)
                with contextlib.suppress(OSError, TimeoutError):
                    answers[-1] = await pool.call(address, request, timeout_s=2)
            pool.close()
        return answers

    def wait_in_sync(self) -> None:
        """Wait until every replica is in the SyncStateSet of a master."""
        self.wait(lambda: self.replicas()[2] == set(self.brokers), "all in sync", RECOVER_S)

    @property
    def master(self) -> int:
        return self.replicas()[0]

    def kill(self, number: int) -> None:
        """SIGKILL of a broker."""
        node = self.nodes.pop(f"b{number}")
        node.process.kill()
        node.process.wait()

    def stop(self) -> dict[str, int]:
        """Stop all; returns their exit codes."""
        codes = {name: node.stop() for name, node in reversed(self.nodes.items())}
        for name, node in self.nodes.items():
            print(f"--- {name}, exit code {codes[name]}")
            print(node.log.read_text(errors="replace")[-4000:])
        return codes


@contextlib.contextmanager
def judged(
    folder: Path, class_path: Sequence[str], release: str, **broker_settings: object
) -> Iterator[tuple[Cluster, Judge]]:
    """A running cluster and its judge; both must end well."""
    cluster = Cluster(folder, broker_settings)
    judge: Judge | None = None
    code, codes = 0, dict[str, int]()
    try:
        cluster.start()
        judge = Judge(class_path, cluster.namesrv, folder / "judge", release)
        yield cluster, judge
    finally:
        if judge is not None:
            code = judge.close()
        codes = cluster.stop()
    assert (code, set(codes.values())) == (0, {0})
