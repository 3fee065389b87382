"""Environment local: one Linux network namespace a machine, no Docker, no root.

Everything lives under one helper process (`harness.environments.helper`), which ends with the
harness. Files are shared with the host: a machine's data are a folder of the run.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from harness.environments.api import (
    Capability,
    EnvironmentUnavailable,
    MachineSpec,
    ProcessStatus,
)
from harness.environments.helper import PACKET_MAX
from reference.rpc import Dial, Wired

NETWORK = "198.18"  # of 198.18.0.0/15, set aside for benchmarks: never a real host
CLIENT, CLIENT_ADDRESS, OBSERVER_ADDRESS = "client", f"{NETWORK}.0.2", f"{NETWORK}.0.3"
BLOCK = 16  # addresses that a machine owns
MACHINES_MAX = 255
UNSHARE = (
    "unshare", "--user", "--map-root-user", "--net", "--pid", "--mount-proc",
    "--fork", "--kill-child",
)  # fmt: skip


class HelperGone(Exception):
    """The helper ended, and the whole local world with it."""


class _Link:
    """Requests to the helper, answered in order."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self.process = process
        self._sock = sock
        self._waiting: deque[asyncio.Future[tuple[dict[str, Any], int | None]]] = deque()
        asyncio.get_running_loop().add_reader(sock, self._read)

    async def ask(self, do: str, **request: object) -> tuple[dict[str, Any], int | None]:
        """Ask the helper; returns its answer, and a descriptor if it sent one.

        Raises:
            HelperGone: it has ended.
            OSError: it could not do what was asked.
        """
        future = asyncio.get_running_loop().create_future()
        try:
            self._sock.send(json.dumps({"do": do, **request}).encode())
        except OSError as error:
            raise HelperGone(f"the helper of the local environment is gone: {error}") from None
        self._waiting.append(future)
        answer, fd = await asyncio.shield(future)
        if "error" in answer:
            raise OSError(f"{do}: {answer['error']}")
        return answer, fd

    def _read(self) -> None:
        try:
            packet, fds, _, _ = socket.recv_fds(self._sock, PACKET_MAX, 1)
        except BlockingIOError:
            return
        except OSError:
            packet, fds = b"", []
        if not packet:
            self.close()
            return
        future = self._waiting.popleft()
        if not future.cancelled():
            future.set_result((json.loads(packet), fds[0] if fds else None))

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._sock)
            self._sock.close()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(HelperGone("the helper of the local environment ended"))


class LocalMachine:
    """A network namespace and a folder."""

    def __init__(self, link: _Link, name: str, address: str, folder: Path) -> None:
        self._link = link
        self._name = name
        self._address = address
        self._folder = folder

    @property
    def name(self) -> str:
        return self._name

    @property
    def address(self) -> str:
        return self._address

    @property
    def data_dir(self) -> str:
        return str(self._folder)

    async def spawn(self, argv: Sequence[str], *, log: str) -> ProcessStatus:
        answer, _ = await self._link.ask(
            "spawn",
            name=self._name,
            argv=list(argv),
            log=str(self._folder / log),
            folder=str(self._folder),
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self._folder)},
        )
        return ProcessStatus(pid=answer["pid"], code=None)

    async def signal(self, pid: int, signal: int) -> None:
        await self._link.ask("signal", pid=pid, number=signal)

    async def status(self, pid: int) -> ProcessStatus:
        answer, _ = await self._link.ask("status", pid=pid)
        return ProcessStatus(pid=pid, code=answer["code"])

    async def put(self, path: str, data: bytes) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    async def get(self, path: str) -> bytes | None:
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None

    async def files(self, folder: str) -> list[str]:
        root = Path(folder)
        return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


class LocalEnvironment:
    """Machines as namespaces, until `down` or the end of this process.

    Args:
        folder: the machines' folders are made in it.
    """

    name = "local"
    capabilities = frozenset({Capability.KILL, Capability.RESTART})

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._link: _Link | None = None
        self._machines: dict[str, LocalMachine] = {}

    async def up(self, machines: Sequence[MachineSpec]) -> None:
        check()
        if len(machines) > MACHINES_MAX:
            raise EnvironmentUnavailable(f"local holds at most {MACHINES_MAX} machines")
        self._link = start_helper()
        try:
            await self._link.ask(
                "machine", name=CLIENT, addresses=[CLIENT_ADDRESS, OBSERVER_ADDRESS]
            )
            for number, spec in enumerate(machines, start=1):
                block = number * BLOCK
                address = f"{NETWORK}.{block // 256}.{block % 256}"
                await self._link.ask("machine", name=spec.name, addresses=[address])
                folder = self._folder / spec.name
                folder.mkdir(parents=True, exist_ok=True)
                self._machines[spec.name] = LocalMachine(self._link, spec.name, address, folder)
        except (HelperGone, OSError) as error:
            await self.down()
            raise EnvironmentUnavailable(f"local: {error}; {HINT}") from None

    def machine(self, name: str) -> LocalMachine:
        return self._machines[name]

    @property
    def dial(self) -> Dial:
        return self._dial_from(CLIENT_ADDRESS)

    @property
    def observer_dial(self) -> Dial:
        return self._dial_from(OBSERVER_ADDRESS)

    def _dial_from(self, source: str) -> Dial:
        def dial(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Awaitable[Wired]:
            return self._connect(source, factory, host, port)

        return dial

    async def _connect(
        self, source: str, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> Wired:
        if self._link is None:
            raise HelperGone("the local environment is not up")
        _, fd = await self._link.ask("socket", name=CLIENT, source=source)
        sock = socket.socket(fileno=fd)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(sock, (host, port))
            return await loop.create_connection(factory, sock=sock)
        except BaseException:
            sock.close()
            raise

    async def down(self) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        link.close()  # the helper reads end of file
        loop = asyncio.get_running_loop()
        try:
            await asyncio.wait_for(loop.run_in_executor(None, link.process.wait), 10)
        except TimeoutError:
            link.process.kill()
            await loop.run_in_executor(None, link.process.wait)


HINT = "`maxq doctor` says what this machine can host; `--environment simulated` works anywhere"


def start_helper() -> _Link:
    """Start the helper in namespaces of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    with theirs:
        process = subprocess.Popen(
            [*UNSHARE, sys.executable, "-m", "harness.environments.helper", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt at the terminal reaches the harness only
        )
    return _Link(process, ours)


def check() -> None:
    """Try what `local` needs.

    Raises:
        EnvironmentUnavailable: says what is missing and what helps.
    """
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for program, package in (("unshare", "util-linux"), ("ip", "iproute2")):
        if shutil.which(program, path=path) is None:
            raise EnvironmentUnavailable(f"local: {program} is missing (package {package}); {HINT}")
    tried = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True)
    if tried.returncode != 0:
        why = tried.stderr.strip() or f"exit {tried.returncode}"
        raise EnvironmentUnavailable(
            f"local: this kernel lets this user make no namespaces ({why}); run as root, or allow "
            f"unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            f"kernel.apparmor_restrict_unprivileged_userns=0); {HINT}"
        )
