"""Our nodes as real processes on 127.0.0.1, one by one. Times are seconds."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
STOP_S = 10
SHARES, SHARE = 4, 3_000  # of ports, and how many in one


def worker() -> int:
    """Which of pytest-xdist's workers this is, from 0."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % SHARES


def free_port(rng: random.Random, taken: set[int]) -> int:
    """A port P such that P-2, P and P+1 are free, as a broker needs.

    Below the range from which the system takes the local ports of outgoing connections, so that
    none of ours gets there first; each worker of pytest-xdist has a share of its own.
    """
    first = 20_000 + worker() * SHARE
    for _ in range(200):
        port = rng.randrange(first + 2, first + SHARE - 1)
        wanted = {port - 2, port, port + 1}
        if wanted & taken:
            continue
        with contextlib.ExitStack() as stack:
            try:
                for p in sorted(wanted):
                    stack.enter_context(contextlib.closing(socket.create_server((HOST, p))))
            except OSError:
                continue
            taken |= wanted
            return port
    raise RuntimeError("no free ports in 200 tries")


class NodeProcess:
    """One of our nodes as a real process, its words in a file."""

    def __init__(
        self, folder: Path, role: str, name: str, settings: dict[str, object], *more: str
    ) -> None:
        self.role, self.name = role, name
        self.log = folder / f"{name}.log"
        config = folder / f"{name}.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "maxq.reference", role, "--config", str(config), *more],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def started(self) -> bool:
        """Whether it listens, by its own word."""
        return f'"{self.role}.started"' in self.log.read_text(errors="replace")

    def stop(self) -> int:
        """Ask it to stop; kill it if it does not. Returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait(STOP_S)


def controller_settings(
    folder: Path, group: str, name: str, addresses: Mapping[str, str]
) -> dict[str, object]:
    """What a controller is configured with; `addresses` has every controller of its group."""
    return {
        "controllerDLegerGroup": group,
        "controllerDLegerPeers": ";".join(f"{peer}-{at}" for peer, at in addresses.items()),
        "controllerDLegerSelfId": name,
        "controllerStorePath": folder / name,
        "scanNotActiveBrokerInterval": 1000,
        "bindAddress": HOST,
    }


def wait_until(
    done: Callable[[], bool], what: str, nodes: Iterable[NodeProcess], within_s: float
) -> None:
    """Wait for a condition while all nodes live."""

    def held() -> bool:
        if done():
            return True
        dead = [node.name for node in nodes if node.process.poll() is not None]
        assert not dead, f"ended while waiting for {what}: {dead}"
        return False

    assert eventually(held, within_s), f"not within {within_s} s: {what}"
