"""The way to a host: a login by paramiko, the agent of ours that runs there, and its link.

paramiko reads in a thread of its own, one a host; all else here is the loop's, but for logins,
which wait. A pulled cable is silence to TCP for many minutes, and to paramiko. So the agent is
asked for a sign each `BEAT_S`, and both ends count the other as gone after `SILENT_S`.

What is refused is said with what to do. Units: seconds.
"""

import asyncio
import base64
import hashlib
import json
import shlex
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from maxq.harness.contracts.environment import EnvironmentLost, MissingCapability
from maxq.harness.contracts.existing import SSH_PORT, SshFiles
from maxq.harness.environments.attached.host_boot import LEAST
from maxq.harness.environments.attached.host_bundle import BOOT, LOAD, bundle
from maxq.harness.environments.machines.agent_client import Answer
from maxq.harness.environments.machines.frames import (
    BEAT,
    BEAT_S,
    LENGTH,
    SILENT_S,
    Frames,
    framed,
)

CONNECT_TIMEOUT_S, LOGIN_TIMEOUT_S, BOOT_TIMEOUT_S = 10.0, 20.0, 30.0
PIECE = 1 << 16
LINE_MAX = 4096
HEALED_S = 45  # after a cut, at the latest
INSTALL = "pip install 'maxq[ssh]', with the pins of constraints-ssh.txt"


class Found(msgspec.Struct):
    """What a host has (`maxq.harness.environments.attached.host_boot`)."""

    python: tuple[int, int]
    interpreter: str
    sudo: str
    nft: bool


class Where(msgspec.Struct, frozen=True):
    """Who logs in where."""

    user: str
    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> "Where":
        """What ``user@host:port`` says."""
        user, _, at = text.partition("@")
        host, _, port = at.partition(":")
        return cls(user, host, int(port or SSH_PORT))

    @property
    def key(self) -> str:
        """How a file of known hosts names it."""
        return self.host if self.port == SSH_PORT else f"[{self.host}]:{self.port}"

    def __str__(self) -> str:
        port = "" if self.port == SSH_PORT else f":{self.port}"
        return f"{self.user}@{self.host}{port}"


class HostLink:
    """Requests to the agent of a host, and its life.

    Args:
        client: that is logged in.
        channel: on which the agent speaks.
        where: it is.
        port: of ssh, on the host.
    """

    def __init__(self, client: Any, channel: Any, where: Where, port: int) -> None:
        self.where, self.port = where, port
        self.lost = (
            f"the link to {where} is lost; its watchdog there puts everything right within "
            f"{HEALED_S} s"
        )
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._client, self._channel = client, channel
        self._frames = Frames()
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self._heard = self._loop.time()
        channel.settimeout(0.0)
        self._readable = channel.fileno()  # paramiko's own: readable while there is something
        self._loop.add_reader(self._readable, self._read)
        self._timer = self._loop.call_later(BEAT_S, self._beat)

    async def ask(self, do: str, **request: object) -> Answer:
        """As `maxq.harness.environments.machines.agent_client.Asked` says; no descriptor."""
        answer = await self._send({"do": do, **request})
        if "error" in answer:
            raise OSError(f"{self.where}: {answer['error']}")
        return answer, None

    def _send(self, request: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        if self.gone.done():
            raise EnvironmentLost(self.lost)
        self._number += 1
        future: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._waiting[self._number] = future
        data = framed({**request, "id": self._number})
        try:
            while data:
                data = data[self._channel.send(data) :]
        except OSError:  # it takes nothing: nobody has read for long
            self.close()
        return future

    def _read(self) -> None:
        try:
            while piece := self._channel.recv(PIECE):
                self._heard = self._loop.time()
                for answer in self._frames.take(piece):
                    future = self._waiting.pop(answer.pop("id"), None)
                    if future is not None and not future.done():
                        future.set_result(answer)
        except TimeoutError:
            return  # that was all, for now
        except (OSError, ValueError, KeyError):
            pass
        self.close()

    def _beat(self) -> None:
        if self._loop.time() - self._heard > SILENT_S:
            self.close()
            return
        with suppress(EnvironmentLost):
            self._send({"do": BEAT})
        if not self.gone.done():
            self._timer = self._loop.call_later(BEAT_S, self._beat)

    def close(self) -> None:
        """End the link; the agent reads end of file, and whoever waits learns that it is lost."""
        if self.gone.done():
            return
        self._timer.cancel()
        self._loop.remove_reader(self._readable)
        self.gone.set_result(None)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(EnvironmentLost(self.lost))
                future.exception()  # of a sign nobody asks
        self._waiting.clear()
        self._client.close()


async def link_to(text: str, files: SshFiles, folder: Path, *, nft: bool) -> HostLink:
    """Log in to a host, and have the agent run there.

    Args:
        text: ``user@host:port``.
        files: what is used to log in.
        folder: that their paths are relative to.
        nft: whether packet rules are needed.

    Raises:
        MissingCapability: it cannot be had, with what would mend it.
    """
    where = Where.of(text)
    client, channel, port = await asyncio.to_thread(_begun, where, files, folder, nft)
    return HostLink(client, channel, where, port)


def _begun(where: Where, files: SshFiles, folder: Path, nft: bool) -> tuple[Any, Any, int]:
    client = logged_in(where, files, folder)
    try:
        channel, port = agent_on(client, where, nft=nft)
    except BaseException:
        client.close()
        raise
    return client, channel, port


def logged_in(where: Where, files: SshFiles, folder: Path) -> Any:
    """A client of paramiko that has logged in.

    Raises:
        MissingCapability: it cannot.
    """
    try:
        import paramiko
    except ImportError:
        raise MissingCapability(f"ssh needs paramiko, which is not here: {INSTALL}") from None

    known = _path(files.known_hosts, folder) if files.known_hosts else "~/.ssh/known_hosts"
    key = _path(files.key, folder) if files.key else ""
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(_Unknown(where, known))
    try:
        client.load_system_host_keys(known if files.known_hosts else None)
    except OSError as error:
        raise MissingCapability(f"[ssh] known_hosts: {known}: {error.strerror}") from None
    try:
        own = paramiko.PKey.from_path(key) if key else None
    except paramiko.PasswordRequiredException:
        raise MissingCapability(_needs_agent(where, key)) from None
    except (paramiko.SSHException, paramiko.UnknownKeyType, OSError, ValueError) as error:
        raise MissingCapability(f"[ssh] key: {key}: {error}: name a private key") from None
    try:
        client.connect(
            where.host, where.port, where.user, pkey=own, look_for_keys=not key,
            sock=_dialled(where), timeout=CONNECT_TIMEOUT_S, banner_timeout=LOGIN_TIMEOUT_S,
            auth_timeout=LOGIN_TIMEOUT_S,
        )  # fmt: skip
    except (paramiko.SSHException, OSError, EOFError) as error:
        client.close()
        raise MissingCapability(_no_login(paramiko, error, where, known, key)) from None
    return client


def _no_login(paramiko: Any, error: Exception, where: Where, known: str, key: str) -> str:
    """Why nobody could log in, and what to do."""
    if isinstance(error, paramiko.BadHostKeyException):
        return (
            f"{where.host} has another key than {known} says: {fingerprint(error.key)}. It may be "
            f"another host. If not: ssh-keygen -R '{where.key}', and add its line"
        )
    if isinstance(error, paramiko.PasswordRequiredException):
        return _needs_agent(where, "~/.ssh/id_...")
    if isinstance(error, paramiko.AuthenticationException):
        return (
            f"{where} refuses the keys of {key or 'the agent and ~/.ssh'} ({error}): ssh-copy-id "
            "adds one, or name another key in [ssh]"
        )
    said = str(error) or "it ended the connection"
    return f"no login to {where}: {said}; try: ssh -p {where.port} {where.user}@{where.host}"


def _needs_agent(where: Where, key: str) -> str:
    return f"{where} needs a key that has a passphrase: ssh-add {key}"


class _Unknown:
    """What paramiko asks about a host whose key is not in a file."""

    def __init__(self, where: Where, known: str) -> None:
        self._where, self._known = where, known

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> None:
        """Refuse it.

        Raises:
            MissingCapability: always.
        """
        raise MissingCapability(
            f"{self._where.host} is not in {self._known}: see there that its key is "
            f"{fingerprint(key)}, then add the line\n"
            f"{self._where.key} {key.get_name()} {key.get_base64()}"
        )


def _dialled(where: Where) -> socket.socket:
    try:
        sock = socket.create_connection((where.host, where.port), CONNECT_TIMEOUT_S)
    except OSError as error:
        said = error.strerror or str(error)
        raise MissingCapability(
            f"{where.host} does not answer at port {where.port}: {said}. Start it, or correct ssh "
            "in the file"
        ) from None
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or answers take 42 ms
    return sock


def _path(text: str, folder: Path) -> str:
    return str(folder / Path(text).expanduser())


def fingerprint(key: Any) -> str:
    """A host's key as ssh shows it."""
    digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
    return f"{key.get_name()} SHA256:{digest}"


def agent_on(client: Any, where: Where, *, nft: bool) -> tuple[Any, int]:
    """Have the agent run on a host: the channel of its frames, and the port of ssh there.

    Raises:
        MissingCapability: the host lacks something.
    """
    sent = bundle()
    command = shlex.join(["python3", "-I", "-c", BOOT.read_text(), LOAD.read_text()])
    channel = client.get_transport().open_session(timeout=LOGIN_TIMEOUT_S)
    channel.settimeout(BOOT_TIMEOUT_S)
    channel.exec_command(f"exec {command}")
    try:
        found = msgspec.json.decode(_line(channel), type=Found)
    except (OSError, msgspec.DecodeError) as error:
        raise MissingCapability(f"{where} runs no Python 3: {_why(channel, error)}") from None
    if lack := lacking(found, where, nft=nft):
        raise MissingCapability(lack)
    try:
        channel.sendall(f"{len(sent)}\n".encode() + sent)
        first = _first(channel)
    except OSError as error:
        raise MissingCapability(f"{where}: no agent: {_why(channel, error)}") from None
    if "error" in first:
        raise MissingCapability(
            f"another run of Max-Q tests {where}, or puts it right (wait {HEALED_S} s); or two "
            "lines ssh of the file are one host: write both alike"
        )
    for what in first["left"]:
        raise MissingCapability(f"{where}: an earlier run could not be put right there: {what}")
    return channel, int(first["port"])


def lacking(found: Found, where: Where, *, nft: bool) -> str:
    """What a host lacks, and what would mend it; empty: nothing."""
    least = ".".join(map(str, LEAST))
    if found.python < LEAST:
        has = ".".join(map(str, found.python))
        return f"{where} has Python {has} as python3: install {least} or later there"
    if found.sudo:
        rule = f"{where.user} ALL=(root) NOPASSWD: {found.interpreter}"
        return (
            f"{where} is not root, and may not be ({found.sudo}): have sudo there, and in "
            f"/etc/sudoers.d/maxq the line\n{rule}"
        )
    if nft and not found.nft:
        return f"{where} has no nft: install nftables there, or ask for --nemesis kill,pause"
    return ""


def _line(channel: Any) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < LINE_MAX:
        byte = channel.recv(1)
        if not byte:
            raise OSError("it ended")
        line += byte
    return line


def _first(channel: Any) -> dict[str, Any]:
    """The agent's first message."""
    head = _exactly(channel, LENGTH)
    found: dict[str, Any] = json.loads(_exactly(channel, int.from_bytes(head, "big")))
    return found


def _exactly(channel: Any, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            raise OSError("it ended")
        data += piece
    return data


def _why(channel: Any, error: Exception) -> str:
    """What a program said as it ended."""
    said = b""
    with suppress(OSError):
        while piece := channel.recv_stderr(PIECE):
            said += piece
    last = said.decode(errors="replace").strip().splitlines()[-1:]
    return last[0] if last else str(error) or type(error).__name__
