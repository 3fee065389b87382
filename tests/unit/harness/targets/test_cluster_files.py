"""Which cluster an operator's files describe."""

import html
from pathlib import Path

import pytest

from maxq.harness.cli.given.asked import asked_from
from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.layouts import BUILT_IN
from maxq.harness.run.execute import make_target
from maxq.harness.schedule.options import Options
from maxq.harness.targets.changes import changes, written
from maxq.harness.targets.cluster_files import describe
from maxq.harness.targets.settings_files import Line, SettingsError, SettingsFile, read

REFERENCE, JAVA = "reference", "rocketmq:5.5.0"
CONTROLLED = "enableControllerMode=true\nallAckInSyncStateSet=true\nminInSyncReplicas=2\n"
GIVEN = {
    "environment": "simulated", "seed": 1, "workload": ("queue",), "nemesis": ("kill",),
    "rate": 50.0, "concurrency": 10, "time_limit": 10**10, "mutant": None,
}  # fmt: skip


def file(text: str, role: Role = Role.BROKER, name: str = "broker.conf") -> SettingsFile:
    lines = (line.partition("=") for line in text.splitlines())
    return SettingsFile(role, name, {k: Line(v, n) for n, (k, _, v) in enumerate(lines, 1)})


def options(*files: SettingsFile, **more: object) -> Options:
    """What a command line with these files comes to."""
    groups = {f"{role.value}_conf": tuple((f,) for f in files if f.role is role) for role in Role}
    return asked_from({**GIVEN, **groups, **more})


def configured(found: Options, node: str) -> dict[str, str]:
    """A node's own file."""
    target = make_target(found)
    nodes = {n.name: n for n in target_nodes(found)}
    return written(nodes[node], found.settings(), target)


def target_nodes(found: Options) -> tuple:  # type: ignore[type-arg]
    from maxq.harness.contracts.target import plan

    return plan(found.topology)


def test_a_master_s_file_is_a_pair_as_rocketmq_ships_it() -> None:
    """Neither a second copy nor a slave that acts is added to what the file says."""
    found = options(file("brokerName=a\nbrokerRole=SYNC_MASTER\nflushDiskType=ASYNC_FLUSH\n"))
    assert (found.pair, found.broker_sets, found.replicas, found.namesrvs) == (True, 1, 2, 1)
    master, slave = configured(found, "b0-0"), configured(found, "b0-1")
    assert (master["brokerRole"], master["brokerId"]) == ("SYNC_MASTER", "0")
    assert (slave["brokerRole"], slave["brokerId"]) == ("SLAVE", "1")
    for key in ("inSyncReplicas", "enableSlaveActingMaster", "slaveReadEnable", "totalReplicas",
                "lockInStrictMode", "autoCreateTopicEnable"):  # fmt: skip
        assert key not in master, "what nobody set is as shipped"
    assert "supportActingMaster" not in configured(found, "n0")


def test_controllers_follow_from_the_file_and_so_do_counts() -> None:
    addresses = (
        "controllerAddr=10.0.0.1:9878;10.0.0.2:9878;10.0.0.3:9878;10.0.0.4:9878;10.0.0.5:1\n"
    )
    found = options(file(f"{CONTROLLED}{addresses}namesrvAddr=a:1;b:1\ntotalReplicas=5\n"))
    assert (found.controllers, found.namesrvs, found.replicas) == (5, 2, 5)
    assert found.files[0] == (
        "cluster from your files: 1 broker set, 5 replicas each, 5 controllers, 2 name servers"
    )
    unsaid = options(file(f"{CONTROLLED}{addresses}"))
    assert unsaid.files[0].endswith(
        "5 controllers, 1 name server. They do not say how many name servers and replicas: set "
        "--namesrvs, --replicas"
    )


def test_several_files_are_a_broker_each() -> None:
    found = options(
        file("brokerName=b\nbrokerRole=SLAVE\nbrokerId=1\nfileReservedTime=48\n", name="b-s"),
        file("brokerName=a\nfileReservedTime=72\n", name="a"),
        file("brokerName=b\nbrokerRole=SYNC_MASTER\nfileReservedTime=72\n", name="b"),
        file("brokerName=a\nbrokerRole=SLAVE\nbrokerId=2\nfileReservedTime=72\n", name="a-s"),
    )
    assert (found.pair, found.broker_sets, found.replicas) == (True, 2, 2)
    assert found.keys == {
        "b0-1:fileReservedTime": "48", "b0-0:fileReservedTime": "72",
        "b1-0:fileReservedTime": "72", "b1-1:fileReservedTime": "72",
        "b0-0:brokerRole": "SYNC_MASTER", "b1-0:brokerRole": "ASYNC_MASTER",
    }  # fmt: skip
    assert configured(found, "b1-0")["brokerRole"] == "ASYNC_MASTER"
    assert configured(found, "b1-1")["brokerRole"] == "SLAVE"


def test_a_name_server_with_a_controller_in_it() -> None:
    text = "enableControllerInNamesrv=true\ncontrollerDLegerPeers=n0-a:1;n1-b:1;n2-c:1\n"
    text += "scanInactiveMasterInterval=700\nsupportActingMaster=true\n"
    found = options(file(CONTROLLED), file(text, Role.NAMESRV, "namesrv.conf"))
    assert (found.embedded, found.controllers) == (True, 3)
    assert found.keys["controller:scanInactiveMasterInterval"] == "700"
    assert found.keys["namesrv:supportActingMaster"] == "true"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([file("brokerRole=SLAVE\nbrokerId=1\n")], "no file is of its master"),
        ([file("brokerName=a\n", name="x"), file("brokerName=a\nbrokerId=1\n", name="y")],
         "x and y are both masters of a"),
        ([file("", name="x"), file("brokerRole=SLAVE\n", name="y")],
         "y: a slave's brokerId is 1 or more"),
        ([file("", name="x"), file(CONTROLLED, name="y")],
         "--mode controllers or --mode pair decides"),
        ([file(""), file("", Role.CONTROLLER, "controller.conf")],
         "broker.conf does not say enableControllerMode=true"),
        ([file("brokerName=a\n"), file("brokerName=b\n"),
          file("brokerName=b\nbrokerRole=SLAVE\nbrokerId=1\n")], "by brokerName: a 1, b 2"),
    ],
)  # fmt: skip
def test_what_cannot_be_laid_out_is_refused_in_words(files: list[SettingsFile], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        describe(files, REFERENCE)


def test_an_option_that_contradicts_several_files_is_refused() -> None:
    both = (
        file("brokerName=a\n"),
        file("brokerName=a\nbrokerRole=SLAVE\nbrokerId=1\n", name="s.conf"),
    )
    with pytest.raises(ValueError, match="--replicas 3: the files have 2 of 2 brokers"):
        options(*both, replicas=3)
    assert options(both[0], replicas=3).replicas == 3, "one file is for all brokers"


@pytest.mark.parametrize("layout", sorted(BUILT_IN.keys() - {"one"}))
@pytest.mark.parametrize("text", ["brokerRole=SYNC_MASTER\n", CONTROLLED])
def test_one_file_is_for_all_brokers_of_a_layout(layout: str, text: str) -> None:
    found = options(file(text), layout=layout)
    kind = BUILT_IN[layout]
    assert found.broker_sets == kind.sets
    assert found.replicas == (2 if found.pair else kind.replicas or 3)
    assert "broker sets: set" not in found.files[0], "the layout says how many"


def test_several_files_that_are_no_layout_are_refused() -> None:
    one = [file("brokerName=a\n"), file("brokerName=a\nbrokerRole=SLAVE\nbrokerId=1\n", name="s")]
    other = [file("brokerName=b\n", name="b"),
             file("brokerName=b\nbrokerRole=SLAVE\nbrokerId=1\n", name="t")]  # fmt: skip
    with pytest.raises(ValueError, match="--layout crossed-2 has 2 broker sets: the files have 1"):
        options(*one, layout="crossed-2")
    with pytest.raises(ValueError, match="has 2 broker sets: not --broker-sets 1"):
        options(one[0], layout="crossed-2", broker_sets=1)
    assert options(*one, *other, layout="crossed-2").layout == "crossed-2"


def test_a_mode_that_is_asked_for_comes_before_the_files() -> None:
    found = options(file("flushDiskType=SYNC_FLUSH\n"), mode="controllers")
    assert found.controllers == 3
    assert any("--mode" in line for line in found.files)
    pair = options(file(CONTROLLED), mode="pair", keys=(("broker:minInSyncReplicas", "1"),))
    assert pair.pair
    assert "allAckInSyncStateSet: without effect" in " ".join(pair.files)
    assert pair.context().settings["broker:allAckInSyncStateSet"] == "false", "it promises nothing"  # type: ignore[index]


def test_addresses_in_a_file_are_not_followed_by_name() -> None:
    """A name server that moves is lost to who knows its address; so it is not moved."""
    by_address = options(file("namesrvAddr=10.0.0.1:9876\n"), nemesis=("change-address",))
    assert not by_address.settings().by_name
    assert "--by-address" in by_address.command()
    by_name = options(file("namesrvAddr=mq-0.ns:9876\n"), nemesis=("change-address",))
    assert by_name.settings().by_name


def test_what_is_changed_is_what_nodes_have_otherwise_than_asked_and_shipped() -> None:
    """Of both targets; a setting of the file is never among it."""
    for target in (REFERENCE, JAVA):
        local = {"environment": "local", "target": target}
        found = options(file("haSendHeartbeatInterval=700\ntimerWheelEnable=true\n"), **local)
        changed = {k: v for of in changes(found.settings(), make_target(found)).values()
                   for k, v in of.items()}  # fmt: skip
        assert changed["slaveTimeout"] == ("1500", "3000")
        assert changed["mappedFileSizeCommitLog"] == (str(16 << 20), str(1 << 30))
        assert not {"haSendHeartbeatInterval", "timerWheelEnable", "brokerName", "listenPort",
                    "namesrvAddr", "storePathRootDir"} & changed.keys()  # fmt: skip
        stock = options(file(""), **local, timing="stock")
        assert "slaveTimeout" not in str(changes(stock.settings(), make_target(stock)))


def test_keys_that_rocketmq_overlooks_are_overlooked_and_named() -> None:
    text = "mapedFileSizeCommitLog=1073741824\nhaSlaveFallbehindMax=1\nfetchNothing=true\n"
    found = options(file(text), environment="local", target=JAVA)
    assert found.keys == {"broker:brokerRole": "ASYNC_MASTER"}
    assert (
        "unknown to RocketMQ 5.5.0, which ignores them: mapedFileSizeCommitLog (did you mean "
        "mappedFileSizeCommitLog?), haSlaveFallbehindMax (only in 4.9.7), fetchNothing"
    ) in found.files


def test_what_becomes_of_files_is_said_by_plan_verdict_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broker.conf"
    path.write_text(f"{CONTROLLED}brokerClusterName=c\nbrokerRole=SLAVE\nsendThreadPoolNums=8\n")
    small = ["--workload", "queue", "--nemesis", "none", "--time-limit", "2s", "--rate", "20"]
    words = ["test", "--env", "simulated", "--seed", "1", *small, "--broker-conf", str(path)]
    assert run_cli([*words, "--plan"]) == 0
    said = capsys.readouterr().out
    assert "--set broker:minInSyncReplicas=2" in said
    assert "slaveTimeout=1500 of 3000" in said
    assert run_cli([*words, "--store", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    own = "brokerClusterName (names are Max-Q's); brokerRole (controllers decide them)"
    assert f"not taken from the files: {own}" in err
    assert own in " ".join(out.split())
    assert "sendThreadPoolNums" in out
    assert own in html.unescape((tmp_path / "latest" / "report.html").read_text())
    assert run_cli(["check", str(tmp_path / "latest")]) == 0
    assert own in " ".join(capsys.readouterr().out.split()), "also when it is judged again"


def test_a_file_that_is_named_beside_its_folder_is_one_nodes(tmp_path: Path) -> None:
    (tmp_path / "namesrv.conf").write_text(
        "enableControllerInNamesrv=true\ncontrollerDLegerPeers=n0-192.0.2.1:9878\n"
    )
    (tmp_path / "broker.conf").write_text(CONTROLLED)
    again = read(tmp_path / "namesrv.conf", Role.NAMESRV)
    found = options(*read(tmp_path, None), *again)
    assert (found.controllers, found.namesrvs) == (1, 1)


def test_what_is_set_by_hand_comes_before_the_file() -> None:
    found = options(file(CONTROLLED), keys=(("broker:minInSyncReplicas", "1"),))
    assert found.keys["broker:minInSyncReplicas"] == "1"
    with pytest.raises(ValueError, match="minInSyncReplicas=2 needs --replicas 2"):
        options(file(CONTROLLED), replicas=1)
