"""What is fuzzed: name server, controller, two brokers and a container, as processes on 127.0.0.1.

Beside them runs one controller of a group of three, whose peers are played by the fuzzer: in the
brokers' own group it would be right that nobody leads after what those say.

Times are seconds, memory is bytes.
"""

import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import fuzz_raft
from reference_nodes import HOST, NodeProcess, controller_settings, free_port, wait_until

from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Decoder, Frame, encode

START_S = 60
ASK_S = 20
UNKNOWN_CODE = 31_000  # which every node answers with 3, whatever it was told before


@dataclass(frozen=True)
class Port:
    """One listening port and who listens there."""

    node: str
    number: int
    speaks: str = ""  # ha or raft; else the requests of clients

    @property
    def is_broker(self) -> bool:
        """Whether clients of a broker speak here."""
        return self.node.startswith("b") and not self.speaks


class FuzzCluster:
    """The nodes, below `folder` / inner, so that what leads out of a store is found.

    Args:
        folder: an empty one.
        rng: chooses the ports.
    """

    def __init__(self, folder: Path, rng: Random) -> None:
        self.outer = folder
        self._folder = folder / "a" / "b" / "c" / "inner"
        self._folder.mkdir(parents=True)
        taken: set[int] = set()
        names = ("n0", "c0", "b1", "b2", "k0", *fuzz_raft.PEERS, fuzz_raft.VICTIM)
        self._at = {name: free_port(rng, taken) for name in names}
        self.nodes: dict[str, NodeProcess] = {}
        self.ports = [
            *(
                Port(name, self._at[name])
                for name in ("n0", "c0", "b1", "b2", "k0", fuzz_raft.VICTIM)
            ),
            *(Port(name, self._at[name] - 2) for name in ("b1", "b2", "k0")),
            *(Port(name, self._at[name] + 1, "ha") for name in ("b1", "b2")),
            *(Port(name, self._at[name] + 1, "raft") for name in ("c0", fuzz_raft.VICTIM)),
        ]

    def start(self) -> None:
        """Start every node; waits until they serve and one broker is master.

        Raises:
            AssertionError: a node ends instead, or takes too long.
        """
        settings = self._settings()
        for name, role in (("n0", "namesrv"), ("c0", "controller"), ("b1", "broker"),
                           ("b2", "broker"), ("k0", "container"),
                           (fuzz_raft.VICTIM, "controller")):  # fmt: skip
            node = NodeProcess(self._folder, role, name, settings[name])
            self.nodes[name] = node
            wait_until(node.started, f"{name} started", [node], START_S)
        brokers = [self.nodes["b1"], self.nodes["b2"]]
        wait_until(
            lambda: any('"role":"master"' in node.log.read_text() for node in brokers),
            "a master", self.nodes.values(), START_S,
        )  # fmt: skip

    def _settings(self) -> dict[str, dict[str, object]]:
        folder = self._folder
        namesrv = {"listenPort": self._at["n0"], "bindAddress": HOST,
                   "kvConfigPath": folder / "n0" / "kvConfig.json"}  # fmt: skip
        controller = controller_settings(folder, "g", "c0", {"c0": f"{HOST}:{self._at['c0']}"})
        broker = {
            "brokerName": "b", "brokerClusterName": "C", "brokerIP1": HOST, "bindAddress": HOST,
            "namesrvAddr": f"{HOST}:{self._at['n0']}", "enableControllerMode": "true",
            "controllerAddr": f"{HOST}:{self._at['c0']}", "syncBrokerMetadataPeriod": 1000,
            "mappedFileSizeCommitLog": 1 << 24, "slaveReadEnable": "true",
        }  # fmt: skip
        own = {
            name: {"listenPort": self._at[name], "storePathRootDir": folder / name}
            for name in ("b1", "b2")
        }
        trio = {n: f"{HOST}:{self._at[n]}" for n in (fuzz_raft.VICTIM, *fuzz_raft.PEERS)}
        alone = controller_settings(folder, fuzz_raft.GROUP, fuzz_raft.VICTIM, trio)
        brokers = {n: {**broker, **own[n]} for n in own}
        container = {"listenPort": self._at["k0"], "bindAddress": HOST,
                     "namesrvAddr": f"{HOST}:{self._at['n0']}"}  # fmt: skip
        return {"n0": namesrv, "c0": controller, **brokers, "k0": container,
                fuzz_raft.VICTIM: alone}  # fmt: skip

    def dead(self) -> list[str]:
        """Nodes that have ended, with the ends of what they said."""
        return [
            f"{name} ended with {node.process.returncode}: {node.log.read_text()[-800:]}"
            for name, node in self.nodes.items()
            if node.process.poll() is not None
        ]

    def peak_bytes(self) -> dict[str, int]:
        """The most memory that each node ever had."""
        return {
            name: _peak_bytes(node.process.pid)
            for name, node in self.nodes.items()
            if node.process.poll() is None
        }

    def neighbour_s(self) -> dict[str, float]:
        """How long a request takes of each node that has nothing to do with what was sent.

        Raises:
            OSError: it is not served.
        """
        found = {}
        for port in self.ports:
            if not port.speaks:
                began = time.monotonic()
                answer = ask(port.number, Frame(code=UNKNOWN_CODE))
                if answer.code != 3:
                    raise OSError(f"{port} answers {answer.code}")
                found[f"{port.node}:{port.number}"] = time.monotonic() - began
        return found

    def role(self, name: str) -> int:
        """The code with which a broker answers the question how it is."""
        return ask(self._at[name], Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO)).code

    def escaped(self, name: str) -> list[Path]:
        """Files and folders of this name that a store's nodes have made outside of it."""
        return list(self.outer.rglob(f"*{name}*"))

    def stop(self) -> dict[str, int]:
        """Stop every node; their exit codes."""
        codes = {name: node.stop() for name, node in reversed(self.nodes.items())
                 if node.process.poll() is None}  # fmt: skip
        self.nodes.clear()
        return codes


def _peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) * 1024 if found else 0


def ask(port: int, frame: Frame) -> Frame:
    """One request and its answer.

    Raises:
        OSError: there is none in time.
    """
    with socket.create_connection((HOST, port), ASK_S) as stream:
        stream.sendall(encode(frame))
        decoder = Decoder()
        while data := stream.recv(1 << 16):
            for answer in decoder.feed(data):
                return answer
    raise ConnectionError(f"port {port} closed instead of an answer")
