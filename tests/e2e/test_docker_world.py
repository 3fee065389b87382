"""The docker environment by itself: what its end leaves, whatever the end is."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import eventually

from docker import APIClient
from maxq.harness.cluster.deployment import until
from maxq.harness.contracts.environment import (
    CLIENT,
    Capability,
    EnvironmentLost,
    EnvironmentUnavailable,
    MachineSpec,
)
from maxq.harness.environments import docker
from maxq.harness.environments.docker import DockerEnvironment
from maxq.harness.environments.engine import leaks, rights
from maxq.harness.environments.engine.client import Engine, connect
from maxq.harness.environments.machines import callers
from maxq.harness.environments.machines import rights as machine_rights
from maxq.harness.environments.machines.machine import LinkedMachine

try:
    connect().close()
    MISSING = ""
except EnvironmentUnavailable as error:
    MISSING = str(error)

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
    pytest.mark.timeout(300),
]
GONE_S = 15.0
UP = """
import asyncio, sys
from pathlib import Path
from maxq.harness.contracts.environment import MachineSpec
from maxq.harness.environments.docker import DockerEnvironment

async def main():
    environment = DockerEnvironment(Path(sys.argv[1]))
    print(environment.run, flush=True)
    await environment.up([MachineSpec(name=f"m{i}") for i in range(3)])
    machine = environment.machine("m0")
    await machine.spawn(["sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done"], log="x")
    print("up", flush=True)
    await environment.lost()

asyncio.run(main())
"""


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = connect()
    yield made
    made.close()


@contextlib.contextmanager
def harness(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that brings machines up and is killed at the latest in the end; its run."""
    process = subprocess.Popen(
        [sys.executable, "-c", UP, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def kinds(engine: Engine, run: str) -> list[str]:
    return [r.kind for r in engine.remains(run)]


def wait_for_up(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"


def watchdog_of(process: subprocess.Popen[str], run: str) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    # A thread of the harness starts it, so it need not be a child of the first one.
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    children += [pid for task in tasks for pid in task.read_text().split()]
    for pid in children:
        if run.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    raise LookupError(run)


def test_nothing_is_left_of_a_harness_that_is_killed(engine: Engine, tmp_path: Path) -> None:
    with harness(tmp_path) as (process, run):
        wait_for_up(process)
        assert kinds(engine, run) == ["container"] * 4 + ["network"]
        assert not list(tmp_path.glob(".maxq*")), "nobody would remove it"
        process.kill()
        assert eventually(lambda: not kinds(engine, run), GONE_S)


@pytest.mark.parametrize("made", ["network", "container"])
def test_nothing_is_left_of_a_harness_that_is_killed_while_it_comes_up(
    engine: Engine, tmp_path: Path, made: str
) -> None:
    with harness(tmp_path) as (process, run):
        assert eventually(lambda: made in kinds(engine, run), 200)
        process.kill()
        process.wait()
        assert eventually(lambda: not kinds(engine, run), GONE_S)
        assert eventually(lambda: not list(tmp_path.glob(".maxq*")), GONE_S)


def test_what_even_the_watchdog_left_is_found_later_and_only_that(
    engine: Engine, tmp_path: Path
) -> None:
    with harness(tmp_path / "alive") as (alive, living), harness(tmp_path / "dead") as (dead, run):
        wait_for_up(alive)
        wait_for_up(dead)
        os.kill(watchdog_of(dead, run), signal.SIGKILL)
        dead.kill()
        dead.wait()
        assert eventually(lambda: "container" not in kinds(engine, run), GONE_S)
        removed = leaks.clean().removed  # if no run beside this one has done so already
        assert kinds(engine, run) == []
        assert not [line for line in removed if living in line]
        assert len(kinds(engine, living)) == 5


def test_a_network_of_a_dead_run_with_a_container_in_it_is_named_and_goes_later(
    engine: Engine, tmp_path: Path
) -> None:
    """The engine removes no network that has endpoints; those of containers are not ours to cut."""
    name = f"maxq-dead-{os.getpid()}"
    free = docker.free_subnets(24, engine.networks())[-1]
    dead = {**leaks.this_process().labels(name, tmp_path), leaks.BOOT: "of another boot"}
    api = APIClient()

    async def main() -> None:
        environment = DockerEnvironment(tmp_path / "a")
        try:
            await environment.up([MachineSpec(name="m")])
            assert engine.make_network(name, free, dead)
            container = engine.remains(environment.run)[0]
            api.connect_container_to_network(container.id, name)
            (why,) = [kept for kept in leaks.clean().kept if name in kept]
            assert "has active endpoints" in why
        finally:
            await environment.down()

    try:
        asyncio.run(main())
        leaks.clean()  # or a run beside this one has done so already
        assert kinds(engine, name) == []
    finally:
        for remain in engine.remains(name):
            engine.remove(remain)
        api.close()


def test_runs_side_by_side_have_networks_of_their_own(engine: Engine, tmp_path: Path) -> None:
    async def main() -> None:
        both = [DockerEnvironment(tmp_path / name) for name in "ab"]
        try:
            for environment in both:  # one builds the image, the other finds it
                await environment.up([MachineSpec(name="m")])
            first, second = (e.machine("m") for e in both)
            assert first.address != second.address
            assert await first.probe(second.address, 1, timeout_s=0.3) == "silent"
        finally:
            for environment in both:
                await environment.down()
                await environment.down()
        assert [kinds(engine, e.run) for e in both] == [[], []]

    asyncio.run(main())
    assert not list(tmp_path.glob("*/.maxq*"))


def test_a_container_that_ends_ends_the_run(engine: Engine, tmp_path: Path) -> None:
    async def main() -> None:
        environment = DockerEnvironment(tmp_path)
        with pytest.raises(EnvironmentLost):
            await environment.lost()
        await environment.up([MachineSpec(name="m"), MachineSpec(name="n")])
        try:
            watching = asyncio.ensure_future(environment.lost())
            remains = await asyncio.to_thread(engine.remains, environment.run)
            await asyncio.to_thread(engine.remove, next(r for r in remains if r.name[-1] == "m"))
            with pytest.raises(EnvironmentLost, match=r"a container .* ended, .*: m$"):
                await asyncio.wait_for(watching, GONE_S)
            with pytest.raises(EnvironmentLost):
                await environment.machine("m").status(1)
        finally:
            await environment.down()
        with pytest.raises(EnvironmentLost):
            await environment.dial(asyncio.Protocol, "198.18.0.16", 1)
        assert kinds(engine, environment.run) == []

    asyncio.run(main())


def test_what_cannot_come_up_says_why_and_leaves_nothing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(environment: DockerEnvironment, names: list[str], why: str) -> None:
        with pytest.raises(EnvironmentUnavailable, match=why):
            await environment.up([MachineSpec(name=name) for name in names])
        assert kinds(engine, environment.run) == []

    async def main() -> None:
        await refused(DockerEnvironment(tmp_path / "a"), ["m"] * 256, "at most 255 machines")
        # Two of one name: the engine refuses the second when the first is there.
        await refused(DockerEnvironment(tmp_path / "b"), ["m", "m"], "in use")
        monkeypatch.setattr(callers, "CALL_TIMEOUT_S", 0.5)
        # Containers look for the harness's socket where it is not.
        monkeypatch.setattr(docker, "SOCKET", "nowhere")
        await refused(DockerEnvironment(tmp_path / "c"), ["m"], "no call from client, m within")

    asyncio.run(main())


def shown(engine: Engine, run: str) -> dict[str, dict[str, Any]]:
    """What the engine says of a run's containers, by machine."""
    api = APIClient()
    try:
        found = [api.inspect_container(r.id) for r in engine.remains(run) if r.kind == "container"]
    finally:
        api.close()
    return {info["Config"]["Hostname"]: info for info in found}


@pytest.mark.parametrize(
    ("need", "of_machine"), [(Capability.KILL, ()), (Capability.CUT, ("NET_ADMIN",))]
)
def test_a_container_has_the_rights_of_its_faults_and_bounds(
    engine: Engine, tmp_path: Path, need: Capability, of_machine: tuple[str, ...]
) -> None:
    """A node has none, and writes nowhere but to its folder and to /tmp."""
    program = (
        "grep -E 'Cap|NoNew' /proc/self/status; touch /x || touch /opt/x || touch /usr/x; "
        "touch /tmp/x && touch here && echo written"
    )
    as_user = () if os.getuid() == 0 else ("DAC_OVERRIDE", "KILL", "SETGID", "SETUID")

    async def main() -> None:
        environment = DockerEnvironment(tmp_path, needs=frozenset({need}))
        await environment.up([MachineSpec(name="m")])
        try:
            machine = environment.machine("m")
            started = await machine.spawn(["sh", "-c", program], log="said")
            await until_ended(machine, started.pid)
            containers = await asyncio.to_thread(shown, engine, environment.run)
            status = await asyncio.to_thread(status_of, containers["m"])
        finally:
            await environment.down()
        kept = machine_rights.bits_of((*of_machine, *as_user))
        assert f"CapPrm:\t{kept:016x}\nCapEff:\t{kept:016x}\n" in status
        assert set(containers) == {CLIENT, "m"}
        for info in containers.values():
            host = info["HostConfig"]
            assert host["CapDrop"] == ["ALL"]
            assert set(host["CapAdd"]) <= {"NET_ADMIN", *as_user}
            assert host["ReadonlyRootfs"]
            assert "no-new-privileges" in host["SecurityOpt"]
            assert not host["Privileged"]
            assert host["Memory"] == host["MemorySwap"] == rights.MEMORY_BYTES
            assert host["PidsLimit"] == rights.PROCESSES_MAX

    asyncio.run(main())
    said = (tmp_path / "m" / "said").read_text()
    assert re.search(r"CapPrm:\s0+\nCapEff:\s0+\n", said)
    assert re.search(r"NoNewPrivs:\s1\n", said)
    assert said.count("Read-only file system") == 3
    assert said.endswith("written\n")


def status_of(info: dict[str, Any]) -> str:
    """Of a container's process 1."""
    return Path(f"/proc/{info['State']['Pid']}/status").read_text()


async def until_ended(machine: LinkedMachine, pid: int) -> None:
    async def has_ended() -> bool:
        return (await machine.status(pid)).code is not None

    assert await until(has_ended, GONE_S)


def test_a_machine_cannot_take_all_processes(engine: Engine, tmp_path: Path) -> None:
    """Whoever forks without end is refused, and the agent beside it still answers."""
    few = "PROCESSES_MAX"
    program = "while :; do sleep 60 & done"

    async def main() -> None:
        environment = DockerEnvironment(tmp_path)
        await environment.up([MachineSpec(name="m")])
        try:
            machine = environment.machine("m")
            started = await machine.spawn(["sh", "-c", program], log="said")
            await until_ended(machine, started.pid)
            assert (await machine.status(started.pid)).code != 0
        finally:
            await environment.down()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rights, few, 16)
        asyncio.run(main())
    assert "Cannot fork" in (tmp_path / "m" / "said").read_text()


def test_a_kernel_that_cannot_lose_packets_is_found_before_the_run(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that needs it does not come up, by name; another does, and says that it cannot."""
    monkeypatch.setattr(docker, "loss_ruleset", lambda _: "add rule inet none none numgen none")

    async def found(needs: Capability) -> tuple[str, set[Capability]]:
        environment = DockerEnvironment(tmp_path / needs.value, needs=frozenset({needs}))
        try:
            await environment.up([MachineSpec(name="m")])
        except EnvironmentUnavailable as error:
            return str(error), set()
        finally:
            await environment.down()
        return "", set(environment.lacking())

    why, _ = asyncio.run(found(Capability.LOSS))
    assert "no packets can be lost at random" in why
    assert "modprobe nft_numgen" in why
    assert asyncio.run(found(Capability.CUT)) == ("", {Capability.LOSS, *docker.lacking()})


def test_a_base_that_is_not_there_says_what_helps(tmp_path: Path) -> None:
    environment = DockerEnvironment(tmp_path, base_image="maxq-none.invalid/no:such")
    with pytest.raises(EnvironmentUnavailable, match=r"--base-image.*docker/debootstrap-base"):
        asyncio.run(environment.up([MachineSpec(name="m")]))
    assert re.search("maxq-[0-9a-f]{8}", environment.run)
