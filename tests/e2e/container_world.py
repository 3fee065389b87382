"""A name server and a broker container of ours as real processes on loopback."""

import asyncio
import random
from pathlib import Path

from reference_nodes import HOST, NodeProcess, free_port, wait_until

from maxq.reference.member_group import members_of
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import SendRequest, to_ext

BOUND_S = 20.0
SEND = SendRequest(
    topic="T", producer_group="p", default_topic="TBW102", default_topic_queue_nums=1,
    queue_id=0, sys_flag=0, born_timestamp=1, flag=0,
)  # fmt: skip


class World:
    """A name server, and the files of a container with brokers x and y, and of z."""

    def __init__(self, folder: Path) -> None:
        rng, taken = random.Random(), set[int]()
        self.folder = folder
        self.ports = {name: free_port(rng, taken) for name in ("n", "k", "x", "y", "z")}
        self.nodes: list[NodeProcess] = []
        for name in ("x", "y", "z"):
            text = "".join(f"{key}={value}\n" for key, value in self.settings(name).items())
            self.path(name).write_text(text)

    def at(self, name: str) -> str:
        return f"{HOST}:{self.ports[name]}"

    def path(self, name: str) -> Path:
        return self.folder / f"{name}-broker.conf"

    def settings(self, name: str) -> dict[str, object]:
        return {
            "brokerClusterName": "c",
            "brokerName": name,
            "brokerId": 0,
            "listenPort": self.ports[name],
            "brokerIP1": HOST,
            "storePathRootDir": self.folder / name,
            "mappedFileSizeCommitLog": 65536,
        }

    def start(self, role: str, name: str, settings: dict[str, object], *more: str) -> NodeProcess:
        node = NodeProcess(self.folder, role, name, settings, *more)
        self.nodes.append(node)
        return node

    def up(self, role: str, name: str, settings: dict[str, object], *more: str) -> NodeProcess:
        node = self.start(role, name, settings, *more)
        wait_until(node.started, f"{name} to start", [node], BOUND_S)
        return node

    def namesrv(self) -> NodeProcess:
        return self.up("namesrv", "n", {
            "listenPort": self.ports["n"], "bindAddress": HOST, "kvConfigPath": self.folder / "kv",
        })  # fmt: skip

    def container(self, *names: str) -> dict[str, object]:
        return {
            "listenPort": self.ports["k"],
            "bindAddress": HOST,
            "namesrvAddr": self.at("n"),
            "brokerConfigPaths": ":".join(str(self.path(name)) for name in names),
        }

    def ask(self, name: str, code: int, ext: dict[str, str], body: bytes = b"") -> Frame:
        async def run() -> Frame:
            async with asyncio.TaskGroup() as group:
                pool, frame = Pool(group), Frame(code=code, ext=ext, body=body)
                answer = await pool.call(self.at(name), frame, timeout_s=BOUND_S)
                pool.close()
            return answer

        return asyncio.run(run())

    def send(self, name: str) -> int:
        return self.ask(name, RequestCode.SEND_MESSAGE, to_ext(SEND), b"m").code

    def add(self, name: str) -> tuple[int, str]:
        answer = self.ask("k", RequestCode.ADD_BROKER, {"configPath": str(self.path(name))})
        return answer.code, answer.remark or ""

    def listed(self) -> set[str]:
        async def run() -> set[str]:
            async with asyncio.TaskGroup() as group:
                pool = Pool(group)
                found = {n: await members_of(pool, self.at("n"), "c", n) for n in "xyz"}
                pool.close()
            return {name for name, members in found.items() if members == {0: self.at(name)}}

        return asyncio.run(run())

    def until_listed(self, *names: str, within_s: float = BOUND_S) -> None:
        live = [node for node in self.nodes if node.process.poll() is None]
        wait_until(lambda: self.listed() == set(names), f"{names} to be listed", live, within_s)
