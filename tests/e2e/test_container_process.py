"""A broker container as a real process on loopback: its ports, its stores, its end."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from container_world import BOUND_S, SEND, World
from reference_nodes import HOST, NodeProcess, wait_until

from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    for node in made.nodes:
        node.process.kill()
        node.process.wait()


def test_a_container_lives_is_killed_returns_and_stops(world: World) -> None:
    """B3, B7: what is added lasts as long as the process; a stop says goodbye."""
    world.namesrv()
    first = world.up("container", "k", world.container("x", "y"))
    world.until_listed("x", "y")
    assert world.add("z") == (0, "")
    assert world.listed() == {"x", "y", "z"}
    assert {world.send(name) for name in "xyz"} == {0}
    first.process.kill()
    first.process.wait()
    second = world.up("container", "k", world.container("x", "y"))
    world.until_listed("x", "y")
    assert {world.send(name) for name in "xy"} == {0}
    assert second.stop() == 0
    assert world.listed() == set()


def taken(port: int) -> "contextlib.closing[socket.socket]":
    """Another process's port, as good as."""
    return contextlib.closing(socket.create_server((HOST, port)))


@pytest.mark.parametrize("apart", [-2, 0, 1])
def test_an_addition_without_a_port_leaves_nothing_behind(world: World, apart: int) -> None:
    """B5, B6: also where what is taken is another process's, which no file says."""
    world.namesrv()
    world.up("container", "k", world.container("x"))
    with taken(world.ports["z"] + apart):
        code, why = world.add("z")
        assert (code, why[:21]) == (1, "start broker failed: ")
        assert f"{world.path('z')}:4: OSError: [Errno 98]" in why
        assert str(world.ports["z"] + apart) in why
    assert world.add("z") == (0, "")
    world.until_listed("x", "z")
    assert world.send("x") == 0


def ends(node: NodeProcess) -> tuple[int, str]:
    """Exit code and last word of a node that does not start."""
    code = node.process.wait(BOUND_S)
    return code, node.log.read_text().splitlines()[-1]


@pytest.mark.parametrize(
    ("apart", "where"),
    [(("y", -2), "y"), (("y", 0), "y"), (("y", 1), "y"), (("k", 0), ""), (("k", -2), "")],
)
def test_a_container_whose_port_is_taken_ends(
    world: World, apart: tuple[str, int], where: str
) -> None:
    """And says whose, where it is that of a broker of its file."""
    with taken(world.ports[apart[0]] + apart[1]):
        code, said = ends(world.start("container", "k", world.container("x", "y")))
    assert code == 1
    assert f"{world.path(where)}:4: " in said if where else "StartFailed" not in said
    assert "[Errno 98]" in said


@pytest.mark.parametrize("other", ["a broker alone", "a container"])
def test_a_store_of_another_process_is_not_touched(world: World, other: str) -> None:
    moved = {**world.settings("y"), "listenPort": world.ports["z"]}
    if other == "a container":
        text = "".join(f"{key}={value}\n" for key, value in moved.items())
        world.path("z").write_text(text)
        world.up("container", "o", {**world.container("z"), "listenPort": world.ports["n"]})
    else:
        world.up("broker", "y", {**moved, "bindAddress": HOST})
    code, said = ends(world.start("container", "k", world.container("x", "y")))
    assert (code, f"{world.path('y')}:6: BlockingIOError" in said) == (1, True)


def test_bad_settings_exit_2_with_file_and_line(world: World) -> None:
    world.path("y").write_text("listenPort=many\n")
    code, said = ends(world.start("container", "k", world.container("x", "y")))
    assert (code, said) == (2, f"error: {world.path('y')}:1: listenPort=many: not a whole number")


def test_the_command_line_of_mqbrokercontainer(world: World) -> None:
    """-b and -n say more than the file, -p and -m print what counts."""
    world.namesrv()
    settings = {**world.container("x"), "namesrvAddr": f"{HOST}:1"}
    given = ("-b", str(world.path("y")), "-n", world.at("n"))
    code, said = ends(world.start("container", "p", settings, *given, "-m"))
    assert (code, said) == (0, f"namesrvAddr={world.at('n')}")
    code, said = ends(world.start("container", "p", settings, "-n", "nowhere"))
    why = "error: command line:1: namesrvAddr=nowhere: not host:port;host:port: nowhere"
    assert (code, said) == (2, why)
    code, said = ends(world.start("broker", "z", world.settings("z"), "-p"))
    assert (code, said.endswith("error: -b, -n, -p and -m are a container's")) == (2, True)
    world.up("container", "k", settings, *given)
    world.until_listed("y")


def test_a_file_of_settings_that_is_read_only_is_enough(world: World) -> None:
    world.namesrv()
    world.path("x").chmod(0o444)
    world.up("container", "k", world.container("x"))
    world.until_listed("x")


MiB = 1 << 20


def stored(world: World, name: str) -> dict[str, bytes]:
    """The files of a log that are there for as long as it takes to read them."""
    found = {}
    for path in sorted((world.folder / name / "commitlog").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # retention took it meanwhile
            found[path.name] = path.read_bytes()
    return found


def flood(world: World, name: str, bodies: int) -> set[int]:
    """Send so many messages of 64 KiB to a broker, one after the other; returns the answers."""

    async def run() -> set[int]:
        frame = Frame(code=RequestCode.SEND_MESSAGE, ext=to_ext(SEND), body=bytes(MiB // 16))
        async with asyncio.TaskGroup() as group:
            pool, codes = Pool(group), set()
            for _ in range(bodies):
                codes.add((await pool.call(world.at(name), frame, timeout_s=BOUND_S)).code)
            pool.close()
        return codes

    return asyncio.run(run())


def test_a_flooded_broker_keeps_to_its_share_of_a_real_disk(world: World) -> None:
    """B9, B10: the share is so small a part of this machine's partition that it fills up."""
    disk = os.statvfs(world.folder)
    share = 16 * MiB / (disk.f_frsize * (disk.f_blocks - disk.f_bfree + disk.f_bavail))
    small = {
        "mappedFileSizeCommitLog": MiB,
        "mappedFileSizeConsumeQueue": 60000,
        "cleanResourceInterval": 500,
        "quotaPercentForDiskPartition": f"{share:.15f}",
    }
    for name in "xy":
        lines = {**world.settings(name), **small}
        world.path(name).write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    world.namesrv()
    node = world.up("container", "k", world.container("x", "y"))
    world.until_listed("x", "y")
    assert flood(world, "y", 4 * 16) == {0}
    quiet = stored(world, "y")
    assert flood(world, "x", 40 * 16) == {0}

    def kept() -> bool:
        return 11 <= len(stored(world, "x")) <= 13

    wait_until(kept, "x to keep to 0.8 of 16 MiB", [node], BOUND_S)
    assert min(stored(world, "x")) > f"{20 * MiB:020d}"
    assert {name: stored(world, "y")[name] for name in quiet} == quiet
