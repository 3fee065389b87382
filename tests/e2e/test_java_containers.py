"""RocketMQ's mqadmin and its producer with a broker container of ours.

Each of its four commands, as it succeeds and as it fails; `java/Judge.java` runs them. All traffic
stays on 127.0.0.1. Times are seconds.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from container_world import World
from java_jars import COMPILE_S, FETCH_S, compiled
from judge_world import Judge
from reference_nodes import HOST

pytestmark = [
    pytest.mark.rocketmq,
    pytest.mark.timeout(FETCH_S + COMPILE_S + 120),
]


class Admin:
    """mqadmin, which is given the container of a world."""

    def __init__(self, world: World, judge: Judge) -> None:
        self._world = world
        self._judge = judge

    def does(self, command: str, *words: object) -> str:
        """What it prints of success."""
        found = self._judge.admin(command, "-n", self._world.at("n"), *words)
        return "\n".join(line for line in found if line)

    def fails(self, command: str, *words: object) -> str:
        """The code and the remark of the refusal that it prints."""
        lines = self._judge.admin_tried(command, "-n", self._world.at("n"), *words)
        found = [line.partition("CODE: ")[2] for line in lines if "CODE: " in line]
        assert found, lines
        return found[0]

    def add(self, file: object) -> tuple[str, ...]:
        return ("addBroker", "-c", self._world.at("k"), "-b", str(file))

    def remove(self, identity: str) -> tuple[str, ...]:
        return ("removeBroker", "-c", self._world.at("k"), "-b", identity)

    def update(self, key: str, value: str) -> tuple[str, ...]:
        return ("updateBrokerConfig", "-b", self._world.at("k"), "-k", key, "-v", value)


@contextlib.contextmanager
def running(folder: Path, release: str) -> Iterator[tuple[World, Judge]]:
    """A container with brokers x and y, and the JVM; all must end well."""
    class_path = compiled("Judge.java", release, folder)
    world, code = World(folder), 0
    codes: list[int] = []
    try:
        world.namesrv()
        world.up("container", "k", world.container("x", "y"))
        world.until_listed("x", "y")
        judge = Judge(class_path, world.at("n"), folder / "judge", release)
        try:
            yield world, judge
        finally:
            code = judge.close()
    finally:
        codes = [node.stop() for node in reversed(world.nodes)]
        for node in world.nodes:
            print(f"--- {node.name}\n{node.log.read_text(errors='replace')[-4000:]}")
    assert (code, set(codes)) == (0, {0})


def wrong_file(world: World, **settings: object) -> Path:
    """z's file, with other settings."""
    path = world.folder / "wrong.conf"
    wrong = {**world.settings("z"), **settings}
    path.write_text("".join(f"{key}={value}\n" for key, value in wrong.items()))
    return path


def check_additions(world: World, admin: Admin) -> None:
    """B1, B3, B6: who is refused leaves nothing that the last one would meet."""
    twice = "c_x_0 has already been added to current broker container"
    assert admin.fails(*admin.add(world.path("x"))).startswith(f"1  DESC: {twice}")
    refusals = {
        world.folder / "none.conf": "addBroker properties empty",
        wrong_file(world, listenPort=world.ports["x"] + 2): f"The port {world.ports['x']} already",
    }
    for path, why in refusals.items():
        assert admin.fails(*admin.add(path)).startswith(f"1  DESC: {why}")
    slave = wrong_file(world, brokerRole="SLAVE")
    assert "1  DESC: slave broker id must be > 0" in admin.fails(*admin.add(slave))
    replicas = wrong_file(world, totalReplicas=2, inSyncReplicas=3)
    assert "1  DESC: invalid replicas number" in admin.fails(*admin.add(replicas))
    done = f"add broker to {world.at('k')} success"
    assert done in admin.does(*admin.add(world.path("z")))
    assert world.listed() == {"x", "y", "z"}
    rows = [line.split()[:4] for line in admin.does("clusterList").split("\n")]
    assert ["c", "z", "0", world.at("z")] in rows


def check_removals(world: World, admin: Admin) -> None:
    """B2, B4."""
    done = f"remove broker from {world.at('k')} success"
    assert done in admin.does(*admin.remove("c:z:0"))
    assert world.listed() == {"x", "y"}
    for absent in ("c:z:0", "c:x:1", "d:x:0"):
        assert admin.fails(*admin.remove(absent)).startswith("211  DESC: Broker not exist")
    assert "can't be negative" in admin.does(*admin.remove("c:x:-1"))
    assert world.listed() == {"x", "y"}


def check_settings(world: World, admin: Admin) -> None:
    """Of the container, and of a broker in it, which are told apart by the port."""
    told = admin.does("getBrokerConfig", "-b", world.at("k"))
    assert str(world.path("x")) in told
    assert f"{world.folder}/x" in admin.does("getBrokerConfig", "-b", world.at("x"))
    black = "16  DESC: Can not update config in black list."
    assert admin.fails(*admin.update("brokerConfigPaths", "/x")).startswith(black)
    assert admin.fails(*admin.update("listenPrt", "1")).startswith("29  DESC: request:1: unknown")
    same = f"{world.at('n')};{HOST}:1"
    assert "update broker config success" in admin.does(*admin.update("namesrvAddr", same))
    assert f"namesrvAddr={same}\n" in (world.folder / "k.conf").read_text()
    assert "update broker config success" in admin.does(*admin.update("namesrvAddr", world.at("n")))


def test_mqadmin_rules_a_container_of_ours(release: str, tmp_path: Path) -> None:
    """Beside it a producer of RocketMQ's sends to all brokers, and nothing of it fails."""
    with running(tmp_path, release) as (world, judge):
        admin = Admin(world, judge)
        admin.does("updateTopic", "-c", "c", "-t", "rows", "-r", 2, "-w", 2)
        for check in (check_additions, check_removals, check_settings):
            check(world, admin)
            sent = judge.send("plain", "rows", f"{check.__name__}-", 8)
            assert {one.status for one in sent} == {"SEND_OK"}
