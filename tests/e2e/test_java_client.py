"""The released Java client produces to and consumes from our nodes.

Our own client shares its codec with our nodes; the Java client shares nothing with them, so it
shows what a mirrored mistake would hide. `java/Exchange.java` does what a user does and prints
what the library reports; this module starts the cluster and judges the lines.

All traffic stays on 127.0.0.1. Jars come from Maven Central once and are kept in ``.cache/java``.
Times are seconds.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from reference import rpc
from reference.records import RemoteProtocolError
from reference.wire.codes import RequestCode, ResponseCode
from reference.wire.frame import Frame
from reference.wire.route import TopicRouteData

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path(__file__).resolve().parent / "java"
CACHE = ROOT / ".cache" / "java"
RELEASES = ("5.5.0",)  # 5.3.3 and 5.1.1 pass as well; one is enough for every run
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
LIST = "jars.json"  # name -> bytes, written last: its presence says that a fetch was finished

HOST = "127.0.0.1"
CLUSTER, BROKERS = "maxq-java", ("ja", "jb")
QUEUES, SENDS, BATCH = 4, 100, 5  # as in Exchange.java
FETCH_S, COMPILE_S, READY_S, EXCHANGE_S, STOP_S = 120, 30, 20, 60, 10
STALE_S = 3600  # a fetch that began earlier has long been dead


# --- the jars ------------------------------------------------------------------------------------


def intact(folder: Path) -> bool:
    """Whether a folder holds all that was once fetched into it."""
    try:
        sizes = json.loads((folder / LIST).read_bytes())
        return bool(sizes) and all((folder / n).stat().st_size == s for n, s in sizes.items())
    except (OSError, ValueError):
        return False


def cached(folder: Path, fetch: Callable[[Path], None]) -> Path:
    """Return `folder`, filled by `fetch` unless it is intact.

    The fetch goes aside and is renamed, so that an interrupted one leaves nothing that could be
    taken for a whole one, and two at the same time do not disturb each other.
    """
    if intact(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(".fetch-*"):
        with contextlib.suppress(FileNotFoundError):  # somebody else cleans up as well
            if time.time() - left.stat().st_mtime > STALE_S:
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as aside:
        fresh = Path(aside) / "jars"
        fresh.mkdir()
        fetch(fresh)
        sizes = {jar.name: jar.stat().st_size for jar in sorted(fresh.glob("*.jar"))}
        (fresh / LIST).write_text(json.dumps(sizes, indent=1))
        if not intact(folder):
            with contextlib.suppress(FileNotFoundError):
                folder.rename(Path(aside) / "damaged")
            with contextlib.suppress(OSError):  # another fetch was faster; its result is as good
                fresh.rename(folder)
    assert intact(folder), f"{folder} was not filled"
    return folder


def fetch_jars(release: str, folder: Path, pom: str = "pom.xml") -> None:
    """Copy the jars that a POM names from Maven Central; skips where it cannot be reached."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as repository:
        command = [
            "mvn", "--batch-mode", "--quiet", "-Dstyle.color=never",
            "--file", str(SOURCES / pom), COPY, "-DincludeScope=runtime",
            f"-Drocketmq.version={release}", f"-DoutputDirectory={folder}",
            f"-Dmaven.repo.local={repository}",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_S, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"nothing cached, and Maven Central too slow: not done in {FETCH_S} s")
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        _, word, why = said.partition("Could not transfer")
        if word:
            why = why.splitlines()[0]
            pytest.skip(f"nothing cached, and Maven Central not reached: could not transfer{why}")
        pytest.fail(f"mvn failed, exit code {done.returncode}:\n{said[-4000:]}")


@pytest.fixture(scope="module", params=RELEASES)
def class_path(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """The compiled program and the client's jars."""
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs a JDK and Maven; not found: {', '.join(missing)}")
    release: str = request.param
    jars = cached(CACHE / release, lambda folder: fetch_jars(release, folder))
    classes = tmp_path_factory.mktemp("classes")
    subprocess.run(
        ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", classes, SOURCES / "Exchange.java"],
        check=True, timeout=COMPILE_S,
    )  # fmt: skip
    return str(classes), f"{jars}/*"


# --- the cluster ---------------------------------------------------------------------------------


def free_port(rng: random.Random, taken: set[int]) -> int:
    """A port P such that P-2, P and P+1 are free, as a broker needs.

    Below the range from which the system takes the local ports of outgoing connections, so that
    none of ours gets there first.
    """
    for _ in range(200):
        port = rng.randrange(20_002, 32_000)
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

    def __init__(self, folder: Path, role: str, name: str, settings: dict[str, object]) -> None:
        self.role, self.name = role, name
        self.log = folder / f"{name}.log"
        config = folder / f"{name}.conf"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "reference", role, "--config", str(config)],
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


def plan(folder: Path) -> tuple[str, list[tuple[str, str, dict[str, object]]]]:
    """Choose ports; gives the name server's address, and role, name, settings of each node."""
    rng, taken = random.Random(), set[int]()
    namesrv, controller = free_port(rng, taken), free_port(rng, taken)
    address = f"{HOST}:{namesrv}"
    nodes: list[tuple[str, str, dict[str, object]]] = [
        ("namesrv", "n0", {"listenPort": namesrv, "bindAddress": HOST})
    ]
    peers: dict[str, object] = {
        "controllerDLegerGroup": CLUSTER,
        "controllerDLegerPeers": f"c0-{HOST}:{controller}",
        "controllerDLegerSelfId": "c0",
        "controllerStorePath": folder / "c0",
        "bindAddress": HOST,
    }
    nodes.append(("controller", "c0", peers))
    for name in BROKERS:
        settings: dict[str, object] = {
            "brokerClusterName": CLUSTER,
            "brokerName": name,
            "brokerRole": "SLAVE",  # until the controller says otherwise
            "listenPort": free_port(rng, taken),
            "bindAddress": HOST,
            "brokerIP1": HOST,
            "namesrvAddr": address,
            "controllerAddr": f"{HOST}:{controller}",
            "enableControllerMode": "true",
            "autoCreateTopicEnable": "false",
            "syncBrokerMetadataPeriod": 500,
            "storePathRootDir": folder / name,
            "mappedFileSizeCommitLog": 16 << 20,
            "mappedFileSizeConsumeQueue": 600_000,
        }
        nodes.append(("broker", name, settings))
    return address, nodes


async def masters(namesrv: str, topic: str) -> set[str]:
    """The broker names that have a master for a topic, as a name server sees it now."""
    async with asyncio.TaskGroup() as group:
        try:
            connection = await rpc.connect(namesrv, group=group)
        except rpc.NotSent:
            return set()
        request = Frame(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": topic})
        try:
            answer = await connection.call(request, timeout_s=3)
            if answer.code != ResponseCode.SUCCESS:
                return set()
            route = TopicRouteData.from_json(answer.body)
        except (OSError, TimeoutError, RemoteProtocolError):
            return set()
        finally:
            connection.close()
    return {data.broker_name for data in route.broker_datas if 0 in data.broker_addrs}


def wait_until(done: Callable[[], bool], what: str, nodes: list[NodeProcess]) -> None:
    """Poll a condition while all nodes live."""
    deadline = time.monotonic() + READY_S
    while not done():
        dead = [node.name for node in nodes if node.process.poll() is not None]
        assert not dead, f"ended while waiting for {what}: {dead}"
        assert time.monotonic() < deadline, f"not within {READY_S} s: {what}"
        time.sleep(0.05)


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    """A running cluster; gives the name server's address and demands a clean stop."""
    address, planned = plan(tmp_path)
    nodes: list[NodeProcess] = []
    codes: dict[str, int] = {}
    try:
        for role, name, settings in planned:
            # One after the other: a broker that finds no name server waits long for its next try.
            nodes.append(NodeProcess(tmp_path, role, name, settings))
            wait_until(nodes[-1].started, f"{name} to start", nodes)
        wait_until(
            lambda: asyncio.run(masters(address, CLUSTER)) == set(BROKERS), "all masters", nodes
        )
        yield address
    finally:
        for node in reversed(nodes):
            codes[node.name] = node.stop()
            # pytest shows this only where the test failed.
            print(f"--- {node.name}, exit code {codes[node.name]}")
            print(node.log.read_text(errors="replace")[-4000:])
    assert codes == {node.name: 0 for node in nodes}


# --- the test ------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """A line of Exchange.report: one send that was SEND_OK."""

    msg_id: str
    offset_msg_id: str
    broker: str
    queue: int
    offset: int
    body: str


class Got(NamedTuple):
    """A line of Exchange.take: one message as a consumer saw it."""

    msg_id: str
    offset_msg_id: str
    broker: str
    queue: int
    offset: int
    tag: str
    key: str
    body: str


def run_exchange(class_path: tuple[str, str], namesrv: str, home: Path) -> dict[str, list[str]]:
    """Run the Java program; gives its lines by their first field."""
    done = subprocess.run(
        [
            "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Duser.home={home}",  # where the client logs
            "-cp", os.pathsep.join(class_path), "Exchange", namesrv, CLUSTER,
        ],
        capture_output=True, text=True, timeout=EXCHANGE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
    lines: dict[str, list[str]] = defaultdict(list)
    for line in done.stdout.splitlines():
        word, _, rest = line.partition("\t")
        lines[word].append(rest)
    return lines


def sent(line: str) -> Sent:
    msg_id, offset_msg_id, broker, queue, offset, body = line.split("\t")
    return Sent(msg_id, offset_msg_id, broker, int(queue), int(offset), body)


def got(line: str) -> Got:
    msg_id, offset_msg_id, broker, queue, offset, tag, key, body = line.split("\t")
    return Got(msg_id, offset_msg_id, broker, int(queue), int(offset), tag, key, body)


def by_queue(messages: list[Got]) -> dict[tuple[str, int], list[int]]:
    """The offsets of each queue in the order of receipt."""
    queues: dict[tuple[str, int], list[int]] = defaultdict(list)
    for m in messages:
        queues[m.broker, m.queue].append(m.offset)
    return queues


@pytest.mark.java
@pytest.mark.timeout(FETCH_S + COMPILE_S + READY_S + EXCHANGE_S + 60)
def test_java_client_exchanges_messages(
    class_path: tuple[str, str], namesrv: str, tmp_path: Path
) -> None:
    """What is sent comes back once, in place, under its ids; commits are remembered."""
    lines = run_exchange(class_path, namesrv, tmp_path)
    sends, [batch] = [sent(x) for x in lines["sent"]], [sent(x) for x in lines["batch"]]
    assigned, subscribed = ([got(x) for x in lines[w]] for w in ("assigned", "subscribed"))

    # Every body once: the 100, the batch, and the one-way message that nobody confirmed.
    bodies = [f"body-{i}" for i in range(SENDS)]
    bodies[-1] += "x" * 10_000  # compressed by the client
    extra = [*(f"batch-{i}" for i in range(BATCH)), "oneway"]
    everything = [*bodies, *extra]
    assert [s.body for s in sends] == bodies
    assert Counter(m.body for m in assigned) == Counter(everything)
    places = {m.body: m for m in assigned}
    for i, body in enumerate(everything):
        assert (places[body].key, places[body].tag) == (f"key-{i}", "odd" if i % 2 else "even")

    # Each where its answer said, under both of its ids.
    for s in sends:
        assert s == (*places[s.body][:5], s.body)
    ids = zip(batch.msg_id.split(","), batch.offset_msg_id.split(","), strict=True)
    for i, (msg_id, offset_msg_id) in enumerate(ids):
        expected = (msg_id, offset_msg_id, batch.broker, batch.queue, batch.offset + i)
        assert places[f"batch-{i}"][:5] == expected
    assert len({m.msg_id for m in assigned}) == len(everything)
    assert len({m.offset_msg_id for m in assigned}) == len(everything)

    # Every queue of both brokers was used, has no gap, and was read in order.
    queues = by_queue(assigned)
    assert set(queues) == {(broker, q) for broker in BROKERS for q in range(QUEUES)}
    for offsets in queues.values():
        assert offsets == list(range(len(offsets)))

    # A new consumer of the group finds every queue committed to its end.
    committed = (line.split("\t") for line in lines["committed"])
    assert {(b, int(q)): int(offset) for b, q, offset in committed} == {
        key: len(offsets) for key, offsets in queues.items()
    }

    # A second group gets its own copy of what it asked for, and nothing else.
    assert sorted(subscribed) == sorted(m for m in assigned if m.tag == "even")
    for offsets in by_queue(subscribed).values():
        assert offsets == sorted(offsets)


# --- the cache -----------------------------------------------------------------------------------


def write_jar(folder: Path) -> None:
    (folder / "a.jar").write_bytes(b"whole")


def test_jars_are_fetched_once_and_again_when_damaged(tmp_path: Path) -> None:
    fetched: list[Path] = []

    def fetch(folder: Path) -> None:
        fetched.append(folder)
        write_jar(folder)

    folder = tmp_path / "5.5.0"
    assert cached(folder, fetch) == cached(folder, fetch) == folder
    assert len(fetched) == 1
    (folder / "a.jar").write_bytes(b"who")  # cut short
    cached(folder, fetch)
    (folder / "a.jar").unlink()
    cached(folder, fetch)
    (folder / LIST).unlink()
    cached(folder, fetch)
    (folder / LIST).write_bytes(b"{")
    cached(folder, fetch)

    assert len(fetched) == 5
    assert (folder / "a.jar").read_bytes() == b"whole"
    assert [p.name for p in tmp_path.iterdir()] == ["5.5.0"]


def test_an_interrupted_fetch_leaves_nothing(tmp_path: Path) -> None:
    def interrupted(folder: Path) -> None:
        write_jar(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached(tmp_path / "5.5.0", interrupted)
    assert list(tmp_path.iterdir()) == []

    left = tmp_path / ".fetch-killed"  # what a killed fetch leaves
    write_jar_in = left / "jars"
    write_jar_in.mkdir(parents=True)
    write_jar(write_jar_in)
    os.utime(left, (0, 0))
    cached(tmp_path / "5.5.0", write_jar)
    assert [p.name for p in tmp_path.iterdir()] == ["5.5.0"]


def test_a_faster_fetch_wins(tmp_path: Path) -> None:
    folder = tmp_path / "5.5.0"

    def overtaken(aside: Path) -> None:
        write_jar(aside)
        cached(folder, write_jar)  # somebody else finishes first

    assert cached(folder, overtaken) == folder
    assert [p.name for p in tmp_path.iterdir()] == ["5.5.0"]
