"""Environment local: one Linux network namespace a machine, no Docker, no root.

Everything lives under one helper process (`harness.environments.helper`), which ends with the
harness. Files are shared with the host: a machine's data are a folder of the run.
"""

import asyncio
import errno
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
    CLIENT_ADDRESS,
    OBSERVER_ADDRESS,
    Capability,
    EnvironmentLost,
    EnvironmentUnavailable,
    MachineSpec,
    MissingCapability,
    ProcessStatus,
    machine_address,
)
from harness.environments.helper import PACKET_MAX
from reference.rpc import Dial, Wired

CLIENT = "client"
MACHINES_MAX = 255
SBIN = ":/usr/sbin:/sbin"  # where `ip` may be, and an ordinary user's PATH does not look
CHECK_TIMEOUT_S = 10
ERRORS_MAX = 65_536  # bytes of the helper's complaints that are looked at
UNSHARE = (
    "unshare", "--user", "--map-root-user", "--net", "--pid", "--mount-proc",
    "--fork", "--kill-child",
)  # fmt: skip


Answer = tuple[dict[str, Any], int | None]


class _Link:
    """Requests to the helper, answered in order. `errors` is a file with what it complains of."""

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket, errors: int) -> None:
        loop = asyncio.get_running_loop()
        self.process = process
        self.gone: asyncio.Future[None] = loop.create_future()
        self._sock = sock
        self._errors = errors
        self.last_words = ""  # of the helper, where it complained
        self._unsent: deque[bytes] = deque()
        self._waiting: deque[asyncio.Future[Answer]] = deque()
        loop.add_reader(sock, self._read)

    async def ask(self, do: str, **request: object) -> tuple[dict[str, Any], int | None]:
        """Ask the helper; returns its answer, and a descriptor if it sent one.

        Raises:
            EnvironmentLost: it has ended.
            OSError: it could not do what was asked.
        """
        packet = json.dumps({"do": do, **request}).encode()
        if len(packet) > PACKET_MAX:
            raise OSError(errno.EMSGSIZE, f"{do}: request too long: {len(packet)} > {PACKET_MAX}")
        if self.gone.done():
            raise EnvironmentLost(LOST)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._unsent.append(packet)
        self._write()
        try:
            answer, fd = await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                _close(future.result()[1])  # answered and cancelled in the same moment
            raise
        if "error" in answer:
            raise OSError(f"{do}: {answer['error']}")
        return answer, fd

    def _write(self) -> None:
        """Send what is not sent; wait for room where many ask at once."""
        loop = asyncio.get_running_loop()
        try:
            while self._unsent:
                self._sock.send(self._unsent[0])
                self._unsent.popleft()
        except BlockingIOError:
            loop.add_writer(self._sock, self._write)
            return
        except OSError:
            self.close()
            return
        loop.remove_writer(self._sock)

    def _read(self) -> None:
        try:
            packet, fds, _, _ = socket.recv_fds(self._sock, PACKET_MAX, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            packet, fds = b"", []
        if not packet:
            self.close()
            return
        future = self._waiting.popleft()
        fd = fds[0] if fds else None
        if future.done():  # whoever asked has given up
            _close(fd)
        else:
            future.set_result((json.loads(packet), fd))

    def close(self) -> None:
        if not self.gone.done():
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._sock)
            loop.remove_writer(self._sock)
            self._sock.close()
            lines = os.pread(self._errors, ERRORS_MAX, 0).decode(errors="replace").splitlines()
            self.last_words = lines[-1] if lines else ""
            os.close(self._errors)
            self.gone.set_result(None)
        self._unsent.clear()
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(EnvironmentLost(LOST))


def _close(fd: int | None) -> None:
    if fd is not None:
        os.close(fd)


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
            env={k: os.environ[k] for k in PASSED_ON if k in os.environ}
            | {"HOME": str(self._folder)},
        )
        return ProcessStatus(pid=answer["pid"], code=None)

    async def signal(self, pid: int, signal: int) -> None:
        await self._link.ask("signal", pid=pid, number=signal)

    async def power_loss(self) -> dict[str, int]:
        raise MissingCapability("local cannot do power-loss: its machines share one disk")

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
        try:
            self._link = start_helper()
            await self._link.ask("bridge")
            await self._link.ask(
                "machine", name=CLIENT, addresses=[CLIENT_ADDRESS, OBSERVER_ADDRESS]
            )
            for number, spec in enumerate(machines, start=1):
                address = machine_address(number)
                await self._link.ask("machine", name=spec.name, addresses=[address])
                folder = self._folder / spec.name
                folder.mkdir(parents=True, exist_ok=True)
                self._machines[spec.name] = LocalMachine(self._link, spec.name, address, folder)
        except (EnvironmentLost, OSError) as error:
            words = self._link.last_words if self._link is not None else ""
            await self.down()
            why = f"{error} ({words})" if words else str(error)
            raise EnvironmentUnavailable(f"local: {why}; {HINT}") from None

    async def lost(self) -> None:
        if self._link is None:
            raise EnvironmentLost(LOST)
        await asyncio.shield(self._link.gone)
        raise EnvironmentLost(LOST)

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
            raise EnvironmentLost(LOST)
        _, fd = await self._link.ask("socket", name=CLIENT, source=source)
        sock = socket.socket(fileno=fd)
        sock.setblocking(False)
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


LOST = "the helper of the local environment ended, and the cluster with it"
PASSED_ON = ("PATH", "PYTHONPATH")  # so that nodes find the same interpreter and packages
HINT = "`maxq doctor` says what this machine can host; `--environment simulated` works anywhere"


def start_helper() -> _Link:
    """Start the helper in namespaces of its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    errors = os.memfd_create("errors of the helper")
    program = (sys.executable, "-m", "harness.environments.helper", str(theirs.fileno()))
    try:
        with theirs:
            process = subprocess.Popen(
                [*UNSHARE, *program],
                env={**os.environ, "PATH": admin_path()},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,  # an interrupt at the terminal reaches the harness only
            )
    except OSError:
        ours.close()
        os.close(errors)
        raise
    return _Link(process, ours, errors)


def admin_path() -> str:
    """Where programs are looked for."""
    return os.environ.get("PATH", os.defpath) + SBIN


def check() -> None:
    """Try what `local` needs.

    Raises:
        EnvironmentUnavailable: says what is missing and what helps.
    """
    for program, package in (("unshare", "util-linux"), ("ip", "iproute2")):
        if shutil.which(program, path=admin_path()) is None:
            raise EnvironmentUnavailable(f"local: {program} is missing (package {package}); {HINT}")
    why = _tried("true")
    if why:
        raise EnvironmentUnavailable(
            f"local: this kernel lets this user make no namespaces ({why}); run as root, or allow "
            f"unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
            f"kernel.apparmor_restrict_unprivileged_userns=0); {HINT}"
        )
    for kind, words in (("bridge", ()), ("veth", ("peer", "name", "maxq2"))):
        why = _tried("ip", "link", "add", "maxq1", "type", kind, *words)
        if why:
            raise EnvironmentUnavailable(
                f"local: no {kind} can be made ({why}); the kernel may lack it "
                f"(modprobe {kind}); {HINT}"
            )


def _tried(*command: str) -> str:
    """Run a command in namespaces of its own; why it failed, or nothing."""
    try:
        done = subprocess.run(
            [*UNSHARE, *command],
            env={**os.environ, "PATH": admin_path()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CHECK_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit {done.returncode}"
