"""RocketMQ's mqadmin and its producer with a broker container of ours.

Each of its four commands, as it succeeds and as it fails; `java/Judge.java` runs them. All traffic
stays on 127.0.0.1. Times are seconds.
"""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from container_world import World
from java_jars import COMPILE_S, FETCH_S, compiled, java_jars
from judge_world import Judge
from reference_nodes import HOST

from maxq.harness.targets.rocketmq.target import JVM
from maxq.reference.wire.codes import RequestCode

JAVA_S, QUIT_S = 60, 30

pytestmark = [
    pytest.mark.rocketmq,
    pytest.mark.timeout(FETCH_S + COMPILE_S + 120),
]


EARLY = {"5.1.1"}  # 25 takes any key, and an addition that failed keeps no port
INIT, START = "Failed to initialize master broker c_z_0", "start broker failed"
NOTHING = "addBroker properties empty"
# z's file with other settings, as far as they depend on x's port, and how the refusal begins.
Change = Callable[[int], dict[str, object]]
REFUSALS: dict[str, tuple[Change, str]] = {
    "twice": (
        lambda x: {"brokerName": "x"},
        "c_x_0 has already been added to current broker container",
    ),
    "main port": (lambda x: {"listenPort": x}, INIT),
    "fast port": (lambda x: {"listenPort": x + 2}, INIT),
    "HA port": (lambda x: {"listenPort": x - 1}, START),
    "slave": (lambda x: {"brokerRole": "SLAVE"}, "slave broker id must be > 0"),
    "replicas": (lambda x: {"totalReplicas": 2, "inSyncReplicas": 3}, "invalid replicas number"),
    "duplication": (
        lambda x: {"duplicationEnable": "true"},
        "Can not add broker to container when duplicationEnable is true currently",
    ),
    "no file": (lambda x: {}, NOTHING),
    "a folder": (lambda x: {}, NOTHING),
}


def wrong_file(world: World, row: str) -> tuple[Path, str]:
    """The file of a row, and how its refusal begins."""
    change, remark = REFUSALS[row]
    if row == "a folder":
        return world.folder, remark
    path = world.folder / f"{row}.conf"
    if row != "no file":
        wrong = {**world.settings("z"), **change(world.ports["x"])}
        path.write_text("".join(f"{key}={value}\n" for key, value in wrong.items()))
    return path, remark


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


def check_additions(world: World, admin: Admin) -> None:
    """B1, B3, B6: who is refused leaves nothing that the last one would meet."""
    for row in REFUSALS:
        path, remark = wrong_file(world, row)
        assert admin.fails(*admin.add(path)).startswith(f"1  DESC: {remark}"), row
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


@contextlib.contextmanager
def javas(world: World, release: str) -> Iterator[None]:
    """RocketMQ's own container in the place of ours, with the same files."""
    jars = java_jars("container", release)
    path = world.folder / "k.conf"
    path.write_text("".join(f"{k}={v}\n" for k, v in world.container("x", "y").items()))
    with (world.folder / "java.log").open("wb") as log:
        process = subprocess.Popen(
            ["java", "-Xmx640m", *JVM, "-XX:TieredStopAtLevel=1",
             f"-Duser.home={world.folder}", f"-Drocketmq.home.dir={world.folder}",
             "-cp", f"{jars}/*", "org.apache.rocketmq.container.BrokerContainerStartup",
             "-c", str(path)],
            cwd=world.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(QUIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        print((world.folder / "java.log").read_text(errors="replace")[-4000:])


def answers(world: World) -> Iterator[tuple[str, int, str]]:
    """What a container answers, row by row: to 902, 903 and 25."""
    for row in REFUSALS:
        path, remark = wrong_file(world, row)
        answer = world.ask("k", RequestCode.ADD_BROKER, {"configPath": str(path)})
        yield row, answer.code, (answer.remark or "")[: len(remark)]
    for row, ext in {"no path": {}, "an empty path": {"configPath": ""}}.items():
        answer = world.ask("k", RequestCode.ADD_BROKER, ext)
        yield row, answer.code, (answer.remark or "").partition(" ")[0]  # 5.1.1 says less
    absent = {"brokerClusterName": "c", "brokerName": "z", "brokerId": "0"}
    answer = world.ask("k", RequestCode.REMOVE_BROKER, absent)
    yield "absent", answer.code, answer.remark or ""
    answer = world.ask("k", RequestCode.UPDATE_BROKER_CONFIG, {}, b"brokerConfigPaths=/x")
    yield "black list", answer.code, answer.remark or ""
    present = {**absent, "brokerName": "x"}
    yield "present", world.ask("k", RequestCode.REMOVE_BROKER, present).code, ""


def test_both_containers_answer_alike(release: str, tmp_path: Path) -> None:
    """Code and remark, as far as RocketMQ's goes; its brokers register with our name server.

    The last request is one that they do not answer alike (B6): a broker at a port whose fast port
    was taken once, and is free now. RocketMQ has kept that port, but for 5.1.1.
    """
    found, last = [], []
    for name in ("ours", "java"):
        folder = tmp_path / name
        folder.mkdir()
        world = World(folder)
        try:
            world.namesrv()
            with contextlib.ExitStack() as stack:
                if name == "java":
                    stack.enter_context(javas(world, release))
                    world.until_listed("x", "y", within_s=JAVA_S)
                else:
                    world.up("container", "k", world.container("x", "y"))
                    world.until_listed("x", "y")
                found.append(list(answers(world)))
                path, _ = wrong_file(world, "fast port")
                last.append(world.ask("k", RequestCode.ADD_BROKER, {"configPath": str(path)}).code)
        finally:
            codes = [node.stop() for node in reversed(world.nodes)]
        assert set(codes) == {0}
    ours, javas_own = found
    assert [(row, code) for row, code, _ in ours][-2:] == [("black list", 16), ("present", 0)]
    if release in EARLY:
        ours, javas_own = ([a for a in said if a[0] != "black list"] for said in found)
    assert ours == javas_own
    assert last == [0, 0 if release in EARLY else 1]
