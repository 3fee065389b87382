"""A small simulated cluster for the tests of the reference nodes: start, kill, ask, wait."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import msgspec

from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.oracle.oracle import Oracle
from maxq.harness.simulation.world import SimMachine, World
from maxq.reference.__main__ import make_node
from maxq.reference.controller.server import Controller
from maxq.reference.node_file import parse_node
from maxq.reference.rpc import Connection, Handler, Pool, refuse
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import PullRequest, SendRequest, to_ext
from maxq.reference.wire.message import Message, decode_all
from maxq.reference.wire.node_headers import CreateTopicRequest
from maxq.reference.wire.route import KVTable

T = TypeVar("T")
NAMESRV, CONTROLLER = "198.18.0.16:9876", "198.18.0.32:9878"
BROKER = "198.18.0.48:10911"  # of machine b1
SECOND_NS = 1_000_000_000
FILE = "/etc/node.conf"  # of what a machine's process was started with
ADDRESSES = {"namesrv": 16, "controller": 32, "b1": 48, "b2": 64, "b3": 80, "relay": 96}

NAMESRV_CONF = {"listenPort": "9876", "scanNotActiveBrokerInterval": "1000"}
CONTROLLER_CONF = {
    "controllerDLegerGroup": "g",
    "controllerDLegerPeers": f"n0-{CONTROLLER}",
    "controllerDLegerSelfId": "n0",
    "controllerStorePath": "/data",
}
BROKER_CONF = {
    "brokerClusterName": "c",
    "brokerName": "b",
    "namesrvAddr": NAMESRV,
    "storePathRootDir": "/data",
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "2000",
}
ALONE = {**BROKER_CONF, "namesrvAddr": ""}
JOINED = {
    **BROKER_CONF,
    "enableControllerMode": "true",
    "controllerAddr": CONTROLLER,
    "brokerRole": "SLAVE",
    "syncBrokerMetadataPeriod": "1000",
}


# Machines of the world that run the controllers of a group, by Raft id.
HOMES = {"n0": "controller", "n1": "b3", "n2": "relay"}


class Process:
    """A node as a simulated process."""

    def __init__(self, loop: SimLoop, task: "asyncio.Task[None]", node: Any) -> None:
        self.loop, self.task, self.node = loop, task, node
        self.ready = False

    @property
    def healthy(self) -> bool:
        return self.loop.alive and not self.task.done() and not self.loop.failures


class Cluster:
    """Machines by name; each has at most one live process."""

    def __init__(self, seed: int | str = 1) -> None:
        self.world = World(seed)
        self.oracle = Oracle(self.world)
        self.machines: dict[str, SimMachine] = {
            name: self.world.add_machine(name, f"198.18.0.{last}")
            for name, last in {**ADDRESSES, "client": 2}.items()
        }

    @property
    def now_ns(self) -> int:
        return self.world.scheduler.now_ns

    def disk(self, name: str, path: str) -> bytes | None:
        content = self.machines[name].disk.files.get(path)
        return None if content is None else bytes(content)

    def logged(self, name: str, trace: str) -> int:
        return sum(entry[1] == trace for entry in self.machines[name].log)

    def write(self, name: str, path: str, settings: Mapping[str, str]) -> bytes:
        """Put a file of settings onto a machine."""
        text = "".join(f"{k}={v}\n" for k, v in settings.items()).encode()
        self.machines[name].disk.install(path, text)
        return text

    def start(self, name: str, role: str, settings: Mapping[str, str], mutant: str = "") -> Process:
        text = self.write(name, FILE, settings)
        configs, _ = parse_node(role, text, FILE)
        loop, host = self.world.process(self.machines[name])
        node = make_node(configs, host, mutant=mutant, file=FILE)
        self.oracle.attach(loop, self.machines[name], node)
        process = Process(loop, loop.create_task(asyncio.sleep(0)), node)
        process.task = loop.create_task(node.run(lambda: setattr(process, "ready", True)))
        return process

    def up(self, name: str, role: str, settings: Mapping[str, str], mutant: str = "") -> Process:
        """Start, and wait until requests are answered."""
        process = self.start(name, role, settings, mutant)
        self.until(lambda: process.ready or process.task.done())
        if process.task.done():
            process.loop.kill()  # with its node a process ends, and lets go of its locks
            process.task.result()
        if isinstance(process.node, Controller) and ";" not in settings["controllerDLegerPeers"]:
            self.until(lambda: process.node.leads)  # alone, it leads at once
        return process

    def until(self, done: Callable[[], bool], *, seconds: float = 60) -> None:
        """Run until `done`, which must be within a bound of virtual time. Where that asks a node,
        it does so every ten milliseconds, and else between any two steps."""
        limit = self.now_ns + round(seconds * SECOND_NS)

        def over() -> bool:
            before = self.now_ns
            if done():
                return True
            if self.now_ns > before:
                self.sleep(0.01)
            return self.now_ns > limit

        self.world.scheduler.run_until(over)
        assert done(), f"not within {seconds} virtual seconds"

    def sleep(self, seconds: float) -> None:
        end = self.now_ns + round(seconds * SECOND_NS)
        loop, _ = self.world.process(self.machines["client"])
        loop.call_later(seconds, lambda: None)
        self.world.scheduler.run_until(lambda: self.now_ns >= end)

    def steps(self, count: int) -> None:
        """Run `count` events."""
        left = [count + 1]

        def done() -> bool:
            left[0] -= 1
            return left[0] == 0

        self.world.scheduler.run_until(done)

    def client(
        self,
        main: Callable[[Pool], Awaitable[T]],
        *,
        handler: Handler = refuse,
        name: str = "client",
    ) -> T:
        """Run a client process to its end."""

        async def run(_: object) -> T:
            async with asyncio.TaskGroup() as group:
                pool = Pool(group, handler=handler)
                result = await main(pool)
                pool.close()
            return result

        return self.world.run(self.machines[name], run)

    def ask(
        self,
        address: str,
        code: int,
        header: Any = None,
        body: bytes | None = None,
        *,
        timeout_s: float = 100.0,
    ) -> Frame:
        """One call of one client."""
        ext = {} if header is None else header if isinstance(header, dict) else to_ext(header)
        frame = Frame(code=code, ext=ext, body=body)
        return self.client(lambda pool: pool.call(address, frame, timeout_s=timeout_s))

    def send(self, address: str, body: bytes, **more: Any) -> Frame:
        return self.ask(address, RequestCode.SEND_MESSAGE, send_header(**more), body)

    def pull(self, address: str, **more: Any) -> Frame:
        return self.ask(address, RequestCode.PULL_MESSAGE, pull_header(**more))

    def info(self, address: str) -> dict[str, str]:
        answer = self.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return KVTable.from_json(answer.body).table

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *failure: object) -> None:
        self.world.close()


class Controllers:
    """A group of three controllers and its processes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.addresses = {i: f"{cluster.machines[m].address}:9878" for i, m in HOMES.items()}
        self.peers = ";".join(f"{i}-{a}" for i, a in self.addresses.items())
        self.processes: dict[str, Process] = {}
        for name in HOMES:
            self.start(name)

    def start(self, name: str) -> None:
        settings = {**CONTROLLER_CONF, "controllerDLegerPeers": self.peers,
                    "controllerDLegerSelfId": name, "jRaftElectionTimeoutMs": "300",
                    "scanNotActiveBrokerInterval": "500"}  # fmt: skip
        self.processes[name] = self.cluster.up(HOMES[name], "controller", settings)

    def kill(self, name: str) -> None:
        self.processes.pop(name).loop.kill()

    def leader(self) -> str:
        def leading() -> list[str]:
            return [n for n, p in self.processes.items() if p.node.leads]

        self.cluster.until(lambda: len(leading()) == 1)
        return leading()[0]


def relay(cluster: Cluster, handle: Callable[[Pool, Frame], Awaitable[Frame | None]]) -> None:
    """Listen as a controller on the relay's address; `handle` answers or loses each request."""
    from maxq.reference import rpc

    loop, _ = cluster.world.process(cluster.machines["relay"])
    open_ = [False]

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)

            async def answer(request: Frame) -> Frame | None:
                reply = await handle(pool, request)
                return reply and msgspec.structs.replace(reply, opaque=request.opaque)

            def handler(request: Frame, connection: Connection) -> Awaitable[Frame | None]:
                return answer(request)

            await rpc.serve("0.0.0.0", 9878, handler, group=group)
            open_[0] = True
            await asyncio.Event().wait()  # until it is killed

    loop.create_task(main())
    cluster.until(lambda: open_[0])


RELAYED = {**JOINED, "controllerAddr": "198.18.0.96:9878"}


def through_relay(answer: Frame) -> Frame:
    """Name the relay as the leader, so that every request goes through it."""
    address = RELAYED["controllerAddr"]
    return msgspec.structs.replace(
        answer, ext={**(answer.ext or {}), "controllerLeaderAddress": address}
    )


def send_header(**more: Any) -> SendRequest:
    base = SendRequest(
        topic="T",
        producer_group="p",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
    )
    return msgspec.structs.replace(base, **more)


def pull_header(**more: Any) -> PullRequest:
    base = PullRequest(
        topic="T",
        consumer_group="g",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )
    return msgspec.structs.replace(base, **more)


def bodies(answer: Frame) -> list[bytes]:
    return [m.body for m in messages(answer)]


def messages(answer: Frame) -> list[Message]:
    return decode_all(answer.body or b"")


def ext(answer: Frame) -> dict[str, str]:
    return answer.ext or {}


def broker_up(cluster: Cluster, mutant: str = "", **settings: str) -> Process:
    """Start broker b1, a master without a controller."""
    return cluster.up("b1", "broker", {**ALONE, **settings}, mutant)


def create_topic(cluster: Cluster, topic: str = "T", **more: Any) -> Frame:
    """Make a topic of two queues on broker b1."""
    header = CreateTopicRequest(
        topic=topic, default_topic="TBW102", read_queue_nums=2, write_queue_nums=2, perm=6,
        topic_filter_type="SINGLE_TAG",
    )  # fmt: skip
    header = msgspec.structs.replace(header, **more)
    return cluster.ask(BROKER, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
