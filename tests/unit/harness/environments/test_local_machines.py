"""The local environment by itself: sockets, processes, requests, and what is left of them."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from maxq.harness.contracts.environment import (
    CLIENT_ADDRESS,
    OBSERVER_ADDRESS,
    EnvironmentLost,
    EnvironmentUnavailable,
    MachineSpec,
)
from maxq.harness.environments import local
from maxq.harness.environments.leaks import left_of
from maxq.harness.environments.local import LocalEnvironment, check
from maxq.harness.environments.machines import rights
from maxq.harness.environments.machines.machine import LinkedMachine
from maxq.harness.environments.machines.machine_agent import PACKET_MAX
from maxq.harness.environments.machines.netns_agent import KEPT

try:
    check()
    MISSING = ""
except EnvironmentUnavailable as error:
    MISSING = str(error)

pytestmark = [pytest.mark.local, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
T = TypeVar("T")
PORT = 7007  # one that takes no right
ACCEPTS = (
    f"import socket; s = socket.create_server(('0.0.0.0', {PORT}), backlog=1024); kept = []\n"
    "while True:\n    c, who = s.accept(); kept.append(c); c.send(who[0].encode() + b'\\n')\n"
)


def world(folder: Path, main: Callable[[LocalEnvironment], Coroutine[Any, Any, T]]) -> T:
    """Do something in a world of one machine, ``m``."""

    async def body() -> T:
        environment = LocalEnvironment(folder)
        await environment.up([MachineSpec(name="m")])
        try:
            return await main(environment)
        finally:
            await environment.down()

    return asyncio.run(body())


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


async def ended(machine: LinkedMachine, pid: int) -> int:
    """The exit code of a process that ends soon."""
    for _ in range(200):
        code = (await machine.status(pid)).code
        if code is not None:
            return code
        await asyncio.sleep(0.01)
    raise TimeoutError


async def accepting(environment: LocalEnvironment) -> str:
    """Start a server on the machine; its address."""
    machine = environment.machine("m")
    await machine.spawn([sys.executable, "-c", ACCEPTS], log="node.log")
    for _ in range(200):
        with contextlib.suppress(OSError):
            transport, _ = await environment.dial(asyncio.Protocol, machine.address, PORT)
            transport.close()
            return machine.address
        await asyncio.sleep(0.02)
    raise TimeoutError


class Greeting(asyncio.Protocol):
    """Waits for the first line of a peer."""

    def __init__(self) -> None:
        self.line: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if not self.line.done():
            self.line.set_result(data)


def test_clients_and_observers_have_addresses_of_their_own(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        address = await accepting(environment)
        for dial, source in (
            (environment.dial, CLIENT_ADDRESS),
            (environment.observer_dial, OBSERVER_ADDRESS),
        ):
            transport, protocol = await dial(Greeting, address, PORT)
            assert isinstance(protocol, Greeting)
            assert await protocol.line == f"{source}\n".encode()
            transport.close()

    world(tmp_path, main)


def test_six_hundred_sockets_are_asked_for_at_once(tmp_path: Path) -> None:
    """More than fit into the buffer of the link to the agent."""

    async def main(environment: LocalEnvironment) -> None:
        address = await accepting(environment)
        made = await asyncio.gather(
            *(environment.dial(asyncio.Protocol, address, PORT) for _ in range(600))
        )
        assert len({t.get_extra_info("sockname") for t, _ in made}) == 600
        for transport, _ in made:
            transport.close()

    world(tmp_path, main)


def test_failing_and_cancelled_dials_leave_no_descriptor(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        address = environment.machine("m").address

        async def refused() -> None:
            with pytest.raises(ConnectionRefusedError):
                await environment.dial(asyncio.Protocol, address, 1)

        await refused()
        before = open_fds()
        for _ in range(25):
            await asyncio.gather(*(refused() for _ in range(20)))
        assert open_fds() == before

        async def dialling() -> None:
            await environment.dial(asyncio.Protocol, address, 1)

        for turns in range(100):  # given up at every stage
            task = asyncio.ensure_future(dialling())
            for _ in range(turns % 10):
                await asyncio.sleep(0)
            if turns % 3 == 0:
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await refused()  # every answer before this one has come
        assert open_fds() == before

    world(tmp_path, main)


def test_an_answer_and_a_cancellation_in_one_moment_leave_no_descriptor(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        link = environment._link()
        before = open_fds()
        asking = asyncio.ensure_future(link.ask("socket", name="m", source="198.18.0.16"))
        await asyncio.sleep(0)
        time.sleep(0.1)  # noqa: ASYNC251 - the loop does not turn; the answer lies in the socket
        link._read()
        assert open_fds() == before + 1
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert open_fds() == before

    world(tmp_path, main)


def test_nothing_stays_open_after_it_is_down(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        await environment.down()
        await environment.down()
        with pytest.raises(EnvironmentLost):
            await environment.dial(asyncio.Protocol, "198.18.0.16", PORT)

    world(tmp_path, main)
    before = open_fds()
    world(tmp_path, main)
    assert open_fds() == before


def test_a_request_that_is_too_long_is_refused_and_the_next_one_works(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        machine = environment.machine("m")
        with pytest.raises(OSError, match="request too long"):
            await machine.spawn(["true", "x" * PACKET_MAX], log="node.log")
        status = await machine.spawn(["true", "x" * (PACKET_MAX - 2000)], log="node.log")
        assert await ended(machine, status.pid) == 0

    world(tmp_path, main)


def test_how_processes_end(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        machine = environment.machine("m")

        async def code_of(*argv: str) -> int:
            return await ended(machine, (await machine.spawn(argv, log="node.log")).pid)

        assert await code_of("sh", "-c", "exit 3") == 3
        assert await code_of("sh", "-c", "kill -9 $$") == -signal.SIGKILL
        assert await code_of("no-such-program") == 127
        assert b"cannot start ['no-such-program']" in (
            await machine.get(f"{machine.data_dir}/node.log") or b""
        )
        ignored = await machine.spawn(["grep", "SigIgn", "/proc/self/status"], log="signals")
        assert await ended(machine, ignored.pid) == 0
        text = await machine.get(f"{machine.data_dir}/signals")
        assert text is not None
        assert int(text.split()[1], 16) & 0xFFFFFFFF == 0, "a node ignores no signal from the start"
        with pytest.raises(OSError, match="never started"):
            await machine.status(99_999)
        await machine.signal(ignored.pid, signal.SIGKILL)  # ended: no error

    world(tmp_path, main)


def helper_of(environment: LocalEnvironment) -> int:
    """The inner agent: the child of the `unshare` that we started."""
    agent = environment._agent
    assert agent is not None
    return int(children_of(agent.process.pid).split()[0])


def children_of(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


def test_orphans_are_reaped(tmp_path: Path) -> None:
    """Whatever nodes leave behind falls to the agent, process 1."""

    async def main(environment: LocalEnvironment) -> None:
        machine = environment.machine("m")
        script = "for i in 1 2 3 4 5; do sleep 0.05 & done; exit 0"
        status = await machine.spawn(["sh", "-c", script], log="node.log")
        assert await ended(machine, status.pid) == 0
        await asyncio.sleep(0.2)
        await machine.status(status.pid)
        assert children_of(helper_of(environment)) == ""

    world(tmp_path, main)


def test_a_process_that_ignores_every_polite_signal_goes_with_the_world(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        machine = environment.machine("m")
        script = f"trap '' TERM INT HUP; echo {tmp_path}; while :; do sleep 1; done"
        status = await machine.spawn(["sh", "-c", script], log="node.log")
        await asyncio.sleep(0.1)
        await machine.signal(status.pid, signal.SIGTERM)
        await asyncio.sleep(0.1)
        assert (await machine.status(status.pid)).code is None

    world(tmp_path, main)
    lines = [p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if p.exists()]
    assert not [line for line in lines if str(tmp_path).encode() in line]


def test_a_dead_helper_is_seen_at_once_and_by_everybody(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        machine = environment.machine("m")
        watching = asyncio.ensure_future(environment.lost())
        await asyncio.sleep(0)
        os.kill(helper_of(environment), signal.SIGKILL)
        with pytest.raises(EnvironmentLost, match="the agent of the local environment ended"):
            await asyncio.wait_for(watching, 5)
        with pytest.raises(EnvironmentLost):
            await machine.status(1)
        with pytest.raises(EnvironmentLost):
            await environment.dial(asyncio.Protocol, machine.address, PORT)

    world(tmp_path, main)


def test_a_helper_that_dies_with_requests_in_hand_answers_all_of_them(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        machine = environment.machine("m")
        os.kill(helper_of(environment), signal.SIGSTOP)
        asked = [asyncio.ensure_future(machine.status(1)) for _ in range(500)]
        await asyncio.sleep(0.05)
        os.kill(helper_of(environment), signal.SIGKILL)
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(a) for a in answers} == {EnvironmentLost}

    world(tmp_path, main)


def test_what_cannot_be_made_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [MachineSpec(name=f"m{i}") for i in range(300)]
    with pytest.raises(EnvironmentUnavailable, match="at most 255 machines"):
        asyncio.run(LocalEnvironment(tmp_path).up(many))
    twice = [MachineSpec(name="x" * 70_000)]
    with pytest.raises(EnvironmentUnavailable, match="request too long"):
        asyncio.run(LocalEnvironment(tmp_path).up(twice))
    monkeypatch.setattr(local, "check", lambda: None)
    monkeypatch.setattr(local, "UNSHARE", ("sh", "-c", "echo no luck >&2"))
    with pytest.raises(EnvironmentUnavailable, match=r"and the cluster with it \(no luck\);"):
        asyncio.run(LocalEnvironment(tmp_path).up([]))
    monkeypatch.setattr(local, "UNSHARE", ("false",))
    with pytest.raises(EnvironmentUnavailable, match=r"make no namespaces \(exit 1\)"):
        check()
    monkeypatch.setattr(local, "UNSHARE", ("sh", "-c", '[ "$0" = true ]'))
    with pytest.raises(EnvironmentUnavailable, match=r"no bridge can be made .*modprobe bridge"):
        check()


@pytest.mark.parametrize(("program", "package"), [("unshare", "util-linux"), ("ip", "iproute2")])
def test_a_missing_program_names_its_package(
    program: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unshare").write_text("#!/bin/sh\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) if program == "ip" else str(tmp_path / "none"))
    monkeypatch.setattr(local, "SBIN", "")
    with pytest.raises(
        EnvironmentUnavailable, match=rf"{program} is missing \(package {package}\)"
    ):
        check()


def test_files_of_a_machine(tmp_path: Path) -> None:
    async def main(environment: LocalEnvironment) -> None:
        machine = environment.machine("m")
        await machine.put(f"{machine.data_dir}/a/b c", b"1")
        await machine.put(f"{machine.data_dir}/z", b"")
        assert await machine.files(machine.data_dir) == ["a/b c", "z"]
        assert await machine.get(f"{machine.data_dir}/a/b c") == b"1"
        assert await machine.get(f"{machine.data_dir}/none") is None

    world(tmp_path, main)


AGENT = b"maxq.harness.environments.machines.netns_agent"
STATUS = "import sys; sys.stdout.write(open('/proc/self/status').read())"


def rights_in(status: str) -> dict[str, int]:
    """The sets of rights of a process, and whether it can gain others, from its status."""
    lines = (line.split() for line in status.splitlines())
    return {w[0]: int(w[1], 16) for w in lines if w and w[0].startswith(("Cap", "NoNewPrivs"))}


def test_a_node_has_no_rights_and_its_agent_those_for_namespaces(tmp_path: Path) -> None:
    """Whoever takes a node over can change no address, no rule and no mount, and trace nobody."""

    async def main(environment: LocalEnvironment) -> str:
        machine = environment.machine("m")
        node = await machine.spawn([sys.executable, "-c", STATUS], log="status")
        assert await ended(machine, node.pid) == 0
        return await asyncio.to_thread(status_of_agent)

    agent = rights_in(world(tmp_path, main))
    node = rights_in((tmp_path / "m" / "status").read_text())
    assert (node["CapEff:"], node["CapPrm:"], node["CapAmb:"], node["NoNewPrivs:"]) == (0, 0, 0, 1)
    kept = rights.bits_of(KEPT)
    assert (agent["CapEff:"], agent["CapPrm:"], agent["NoNewPrivs:"]) == (kept, kept, 1)


def status_of_agent() -> str:
    """Of the agent below this process, which is what `unshare` became inside."""
    below = (Path(f"/proc/{pid}") for pid, _ in left_of(os.getpid()).processes)
    [agent] = [p for p in below if is_agent(p)]
    return (agent / "status").read_text()


def is_agent(process: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        argv = (process / "cmdline").read_bytes().split(b"\0")
        return AGENT in argv and argv[0] != b"unshare"
    return False
