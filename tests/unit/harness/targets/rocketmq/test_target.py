"""Target rocketmq: releases and where their components come from, jars, command lines."""

import asyncio
import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from waiting import eventually

from maxq.harness.contracts.environment import EnvironmentUnavailable, Role
from maxq.harness.contracts.target import Settings, Topology, plan
from maxq.harness.run.judging import absent, checkers_of
from maxq.harness.run.replay import options_for
from maxq.harness.schedule.format import Header, Schedule
from maxq.harness.schedule.options import Options
from maxq.harness.targets.rocketmq import libraries as jars
from maxq.harness.targets.rocketmq.libraries import LIST, known_checksums, libraries, pom_of
from maxq.harness.targets.rocketmq.releases import (
    MISSING,
    Version,
    components,
    excluded,
    not_driven,
    ordered,
    parse,
    version_number,
)
from maxq.harness.targets.rocketmq.target import RocketMQTarget

NODES = plan(Topology(controllers=3, broker_sets=1, replicas=3))
ADDRESSES = {n.name: f"198.18.0.{i}" for i, n in enumerate(NODES, start=1)}
COMPONENTS = ("namesrv", "controller", "broker", "tools")

# What Maven does, without Maven: one jar, named after what was asked for.
MAVEN = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
for word; do case $word in -DoutputDirectory=*) out=${word#*=};; esac; done
mkdir -p "$out" && echo bytes > "$out/one.jar"
"""


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("rocketmq:5.5.0", Version("5.5.0")),
        ("rocketmq:5.2.0:jraft", Version("5.2.0", "jraft")),
        ("rocketmq:5.1.1:dledger", Version("5.1.1")),
        ("rocketmq:latest:jraft", Version([*MISSING][-1], "jraft")),
    ],
)
def test_a_target_is_spelled_as_it_is_told(text: str, version: Version) -> None:
    assert parse(text) == version
    assert parse(str(version)) == version


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rocketmq", "write reference, rocketmq:RELEASE"),
        ("rocketmq:", "is no target"),
        ("kafka:3.0", "is no target"),
        ("rocketmq:5.5.9", "no release 5.5.9, did you mean 5.5.*; there are: 5.0.0, 5.1.0"),
        ("rocketmq:newest", "is no target"),
        ("rocketmq:5.1.1:jraft", "jraft since 5.2.0, not in 5.1.1"),
        ("rocketmq:5.5.0:zookeeper", "dledger or jraft, not zookeeper"),
    ],
)
def test_what_is_no_target_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text)


def test_what_only_our_reference_can_do_is_refused_by_name() -> None:
    assert excluded(["reference"], "simulated", "some_mutant") == ""
    assert excluded(["reference", "rocketmq:5.5.0"], "local", "") == ""
    assert "simulator is for our reference" in excluded(
        ["reference", "rocketmq:5.5.0"], "simulated", ""
    )
    assert "seeded bugs are for our reference" in excluded(
        ["reference", "rocketmq:5.5.0"], "docker", "a_mutant"
    )
    with pytest.raises(ValueError, match="no release 4"):
        excluded(["rocketmq:4"], "local", "")


def test_releases_are_in_order() -> None:
    assert sorted(MISSING, key=ordered) == list(MISSING)
    assert ordered("5.10.0") > ordered("5.9.9")


def test_a_component_that_is_missing_is_taken_from_the_nearest_release() -> None:
    assert components("5.5.0") == dict.fromkeys(COMPONENTS, "5.5.0")
    assert components("5.3.1") == {**dict.fromkeys(COMPONENTS, "5.3.1"), "namesrv": "5.2.0"}
    assert components("5.5.1") == {
        **dict.fromkeys(COMPONENTS, "5.5.1"), "namesrv": "5.5.0", "tools": "5.5.0"
    }  # fmt: skip
    assert components("5.1.3") == {**dict.fromkeys(COMPONENTS, "5.1.1"), "broker": "5.1.3"}


def test_of_an_old_release_there_is_the_name_server_only(maven: Path, tmp_path: Path) -> None:
    """It knows no acting masters; who asks for one of its brokers is told so."""
    old = parse("rocketmq:4.9.7")
    assert components(old.release) == {"namesrv": "4.9.7"}
    assert version_number("4.9.7") == 407
    target = RocketMQTarget(old, here=False, place=tmp_path)
    assert list(target.prepare()) == ["namesrv"]
    told = not_driven([("namesrv", "rocketmq:4.9.7"), ("broker", "rocketmq:4.9.7")])
    assert told == "of 4.9.7 only the name server is driven, not the broker"
    assert not_driven([("namesrv", "rocketmq:4.9.7"), ("broker", "rocketmq:5.5.0")]) == ""
    with pytest.raises(ValueError, match="only the name server is driven"):
        options_for(Schedule(header=Header(options={"target": str(old)})), "local")


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a program ``mvn``, and nothing else on the path but a shell's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "mvn").write_text(MAVEN)
    (folder / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_dependencies_that_a_release_lacks_are_those_of_the_one_before() -> None:
    asked = pom_of("controller", "5.5.1")
    managed = asked[asked.index("<dependencyManagement>") :]
    for name, release in {"client": "5.5.0", "srvutil": "5.5.0", "common": "5.5.1"}.items():
        pinned = f"<artifactId>rocketmq-{name}</artifactId>\n<version>{release}</version>"
        assert pinned in managed
    assert pom_of("store", "5.5.1").count("rocketmq-store<") == 1, "itself is of its release"
    assert "<dependencies></dependencies>" in pom_of("broker", "5.5.0")


def test_jars_are_fetched_once_and_listed_with_their_digests(maven: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    folder = libraries("broker", "5.5.0", cache)
    assert folder == cache / "broker-5.5.0"
    listed = msgspec.json.decode((folder / LIST).read_bytes())
    assert listed == {"one.jar": hashlib.sha256(b"bytes\n").hexdigest()}
    assert libraries("broker", "5.5.0", cache) == folder
    assert libraries("namesrv", "5.5.0", cache) != folder
    calls = (maven / "calls").read_text().splitlines()
    assert len(calls) == 2, "what is there is not fetched again"
    assert sorted(p.name for p in cache.iterdir()) == ["broker-5.5.0", "namesrv-5.5.0"]


def test_processes_that_need_the_same_jars_at_a_time_fetch_them_once(
    maven: Path, tmp_path: Path
) -> None:
    go = maven / "go"
    turns = f"n=0; while ! [ -e {go} ] && [ $n -lt 9999999 ]; do n=$((n+1)); done; mkdir"
    slow = MAVEN.replace("mkdir", turns)
    (maven / "mvn").write_text(slow)
    with ThreadPoolExecutor(3) as threads:
        found = [threads.submit(libraries, "broker", "5.5.0", tmp_path / "cache") for _ in range(3)]
        assert eventually((maven / "calls").exists, 10)
        go.touch()
        folders = {one.result() for one in found}

    assert folders == {tmp_path / "cache" / "broker-5.5.0"}
    assert len((maven / "calls").read_text().splitlines()) == 1


@pytest.mark.parametrize("change", ["other bytes", "one more", "gone", "no list"])
def test_jars_that_are_not_what_was_fetched_are_refused(
    maven: Path, tmp_path: Path, change: str
) -> None:
    folder = libraries("broker", "5.5.0", tmp_path)
    match change:
        case "other bytes":
            (folder / "one.jar").write_bytes(b"other")
        case "one more":
            (folder / "two.jar").write_bytes(b"")
        case "gone":
            (folder / "one.jar").unlink()
        case "no list":
            (folder / LIST).write_bytes(b"{")
    with pytest.raises(EnvironmentUnavailable, match="remove it, and it is fetched again"):
        libraries("broker", "5.5.0", tmp_path)


def test_a_jar_that_is_known_by_other_bytes_is_neither_taken_nor_kept(
    maven: Path, tmp_path: Path
) -> None:
    """A mirror may serve false bytes with a checksum that fits them."""
    (maven / "mvn").write_text(MAVEN.replace("one.jar", "rocketmq-broker-5.5.0.jar"))
    with pytest.raises(
        EnvironmentUnavailable, match=r"false bytes \(rocketmq-broker-5.5.0.jar has"
    ):
        libraries("broker", "5.5.0", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_false_jar_that_was_taken_before_is_refused(maven: Path, tmp_path: Path) -> None:
    folder = tmp_path / "broker-5.5.0"
    folder.mkdir()
    jar = folder / "rocketmq-broker-5.5.0.jar"
    jar.write_bytes(b"false")
    digest = hashlib.sha256(b"false").hexdigest()
    (folder / LIST).write_bytes(msgspec.json.encode({jar.name: digest}))
    with pytest.raises(EnvironmentUnavailable, match=r"checksums\.txt lists .*; remove it, and it"):
        libraries("broker", "5.5.0", tmp_path)


def test_maven_is_not_to_take_what_its_repository_s_checksum_denies(
    maven: Path, tmp_path: Path
) -> None:
    libraries("broker", "5.0.0", tmp_path / "cache")
    assert "--strict-checksums" in (maven / "calls").read_text().split()


def test_the_known_checksums_are_those_of_the_newest_release() -> None:
    known = known_checksums()
    newest = list(MISSING)[-1]
    jar_names = {f"rocketmq-{name}-{release}.jar" for name, release in components(newest).items()}
    assert jar_names <= known.keys()
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in known.values())
    lines = jars.CHECKSUMS.read_text().splitlines()
    assert len(lines) == len(known), "one line a jar"
    assert lines == sorted(lines, key=lambda line: line.split()[1])


def test_a_fetch_that_was_cut_off_is_done_again(maven: Path, tmp_path: Path) -> None:
    half = tmp_path / "broker-5.5.0"
    half.mkdir()
    (half / "half.jar").write_bytes(b"")
    assert [p.name for p in libraries("broker", "5.5.0", tmp_path).glob("*.jar")] == ["one.jar"]


def test_what_maven_says_is_told(maven: Path, tmp_path: Path) -> None:
    (maven / "mvn").write_text("#!/bin/sh\necho no such artifact\nexit 1\n")
    with pytest.raises(EnvironmentUnavailable, match="no such artifact"):
        libraries("broker", "5.5.0", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == [], "nothing half is left"


def test_without_maven_it_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentUnavailable, match="no mvn"):
        libraries("broker", "5.5.0", tmp_path)


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jars.cache() == tmp_path / "maxq" / "rocketmq"


def test_nodes_are_the_jvms_of_their_components(maven: Path, tmp_path: Path) -> None:
    target = RocketMQTarget(Version("5.3.1"), here=False, place=tmp_path)
    told = target.prepare()
    assert told["namesrv"].startswith("5.2.0 (")
    assert told["broker"].startswith("5.3.1 (")
    assert len(target.folders()) == 3
    settings = Settings(topology=Topology(controllers=3, replicas=3), lock_lease_ms=10_000)
    commands = {n.name: list(target.argv(n, settings, f"/d/{n.name}/node.conf")) for n in NODES}
    assert commands["n0"][-4:] == [
        f"{tmp_path}/namesrv-5.2.0/*", "org.apache.rocketmq.namesrv.NamesrvStartup", "-c",
        "/d/n0/node.conf",
    ]  # fmt: skip
    broker = commands["b0-1"]
    assert "-Drocketmq.broker.rebalance.lockMaxLiveTime=10000" in broker
    assert "-Duser.home=/d/b0-1" in broker
    assert broker[0] == "java"
    assert not any("lockMaxLiveTime" in word for word in commands["c0"])


def test_only_a_broker_with_a_timer_has_the_second_compiler(maven: Path, tmp_path: Path) -> None:
    target = RocketMQTarget(Version("5.3.1"), here=False, place=tmp_path)
    target.prepare()
    ruled = Settings(topology=Topology(controllers=3, replicas=3))
    pair = Settings(topology=Topology(controllers=0, replicas=3))
    timed = msgspec.structs.replace(ruled, keys={"broker:timerWheelEnable": "true"})
    nodes = {n.name: n for n in NODES}

    def first_only(settings: Settings) -> set[str]:
        found = {n: target.argv(node, settings, "/d/node.conf") for n, node in nodes.items()}
        return {n for n, words in found.items() if "-XX:TieredStopAtLevel=1" in words}

    assert first_only(ruled) == nodes.keys()
    brokers = {n for n, node in nodes.items() if node.role is Role.BROKER}
    assert first_only(pair) == first_only(timed) == nodes.keys() - brokers


def configured(target: RocketMQTarget, name: str, *, by_name: bool = False) -> dict[str, str]:
    topology = Topology(controllers=3, broker_sets=1, replicas=3)
    settings = Settings(topology=topology, profile="P-SAFE", by_name=by_name)
    node = next(n for n in NODES if n.name == name)
    lines = target.config(node, settings, ADDRESSES, "/d").splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_brokers_find_their_addresses_themselves() -> None:
    keys = configured(RocketMQTarget(Version("5.5.0")), "b0-0")
    assert not {"brokerIP1", "brokerIP2"} & keys.keys(), "they are looked for at each start"
    assert keys["allAckInSyncStateSet"] == "true"
    assert keys["timerWheelEnable"] == "false"
    target = RocketMQTarget(Version("5.5.0"))
    assert {n.role for n in NODES if not target.follows_address(n)} == {Role.BROKER}


def test_brokers_without_controllers_know_their_ids_and_have_timers() -> None:
    """A master asks its slaves for their timers' checkpoints before it is online."""
    topology = Topology(controllers=0, broker_sets=1, replicas=2)
    nodes = plan(topology)
    addresses = {n.name: f"198.18.0.{i}" for i, n in enumerate(nodes, start=1)}
    target = RocketMQTarget(Version("5.5.0"))

    def keys(name: str, **more: str) -> dict[str, str]:
        settings = Settings(topology=topology, profile="P-SYNC", keys=more)
        node = next(n for n in nodes if n.name == name)
        lines = target.config(node, settings, addresses, "/d").splitlines()
        return dict(line.split("=", 1) for line in lines)

    master, slave = keys("b0-0"), keys("b0-1")
    assert (master["brokerId"], slave["brokerId"]) == ("0", "1")
    assert (master["brokerRole"], slave["brokerRole"]) == ("SYNC_MASTER", "SLAVE")
    assert master["enableSlaveActingMaster"] == slave["enableSlaveActingMaster"] == "true"
    assert master["timerWheelEnable"] == slave["timerWheelEnable"] == "true"
    assert "controllerAddr" not in master
    assert keys("b0-1", **{"broker:timerWheelEnable": "false"})["timerWheelEnable"] == "false"


def test_controllers_of_either_back_end() -> None:
    plain = configured(RocketMQTarget(Version("5.5.0")), "c1")
    assert "controllerType" not in plain
    raft = configured(RocketMQTarget(Version("5.5.0", "jraft")), "c1", by_name=True)
    assert raft["controllerType"] == "jRaft"
    assert raft["jRaftServerId"] == "c1:9879"
    assert raft["jRaftInitConf"] == "c0:9879,c1:9879,c2:9879"
    assert raft["jRaftControllerRPCAddr"] == "c0:9878,c1:9878,c2:9878"


@pytest.mark.parametrize(
    ("release", "package"), [("5.5.0", "org.apache.rocketmq"), ("5.0.0", "ch.")]
)
def test_their_logs_go_to_the_nodes_log(release: str, package: str) -> None:
    put: dict[str, bytes] = {}

    class Machine:
        data_dir = "/d"

        async def put(self, path: str, data: bytes) -> None:
            put[path] = data

    asyncio.run(RocketMQTarget(Version(release)).install(Machine()))  # type: ignore[arg-type]
    assert f'class="{package}'.encode() in put["/d/logback.xml"]
    assert ("/d/conf/logback_broker.xml" in put) == (release == "5.0.0")


def test_what_a_release_without_ids_cannot_show_is_not_judged() -> None:
    old = Options(environment="local", seed=1, target="rocketmq:5.1.0")
    new = Options(environment="local", seed=1, target="rocketmq:5.1.1")
    assert {"S1", "S2", "S4", "S7", "S9", "N1"} <= set(absent(old))
    assert not {"S6", "S10", "S11", "S13", "L1"} & set(absent(old))
    # What only the reference tells, or keeps, and what is of brokers that are not in strict mode.
    assert absent(new) == ["S9b", "S10b", "L3", "L4", "L6"]
    judged = {claim for checker in checkers_of(old) for claim in checker.claims}
    left = {
        "B13",
        "S6",
        "S10",
        "S11",
        "S12",
        "S13",
        "S13b",
        "S13d",
        "S14",
        "S14b",
        "S15",
        "S16",
        "S18",
        "L1",
    }
    left |= {"L2", "L6", "L7", "L8", "L9", "N2", "N3", "N4", "N7", "N8", "N9", "N11", "N12"}
    assert judged - set(absent(old)) == left
    assert not old.context().has_ids
    oldest = Options(environment="local", seed=1, target="rocketmq:5.0.0")
    bounds = [o.context().shrink_ns // 1_000_000_000 for o in (oldest, old, new)]
    assert bounds == [20, 8, 8], "5.0.0 runs with a limit of 15 s for slaves that lag"
    assert new.context().has_ids
    assert "O1" in absent(old), "nobody tells who was elected when"
    assert "O1" not in absent(new)


def test_of_pairs_no_release_lacks_ids_and_what_only_the_reference_keeps_is_not_judged() -> None:
    pair = Options(
        environment="local", seed=1, target="rocketmq:5.1.0", controllers=0, replicas=2,
        profile="P-SYNC",
    )  # fmt: skip
    judged = {claim for checker in checkers_of(pair) for claim in checker.claims}
    assert {"S8", "A1", "A2", "A3", "A4", "A8"} <= judged - set(absent(pair))
    assert {"S1", "S9b", "L6"} <= set(absent(pair))
    ours = msgspec.structs.replace(pair, target="reference")
    assert set(absent(pair)) - set(absent(ours)) == {"L6", "P1", "P2", "P3", "P8"}
    mixed = msgspec.structs.replace(ours, releases={"b0-1": "rocketmq:5.5.0"})
    assert set(absent(mixed)) - set(absent(ours)) == {"L6"}, "ours say whether they are isolated"
