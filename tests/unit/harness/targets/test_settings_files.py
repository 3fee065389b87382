"""Operators' own files of settings."""

from pathlib import Path

import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.environment import Role
from maxq.harness.targets.settings_files import OWN, SettingsError, taken
from maxq.reference.config import keys_known

# As the distribution of RocketMQ 5 has it, with what operators add.
CONF = b"""\
# a comment
brokerClusterName = DefaultCluster
brokerName=broker-a
brokerId=-1
deleteWhen=04
fileReservedTime=48
brokerRole=SLAVE
flushDiskType=ASYNC_FLUSH
namesrvAddr=10.0.0.1:9876;10.0.0.2:9876
enableControllerMode=true
allAckInSyncStateSet=true
minInSyncReplicas=2
transientStorePoolEnable=true
"""
QUICK = ["test", "--env", "simulated", "--plan", "--seed", "1"]


def test_what_is_of_a_node_is_left_out() -> None:
    found = taken(Role.BROKER, CONF, "broker.conf")
    assert found.keys == {
        "broker:deleteWhen": "04",
        "broker:fileReservedTime": "48",
        "broker:flushDiskType": "ASYNC_FLUSH",
        "broker:allAckInSyncStateSet": "true",
        "broker:minInSyncReplicas": "2",
        "broker:transientStorePoolEnable": "true",
    }
    assert found.own == (
        "brokerClusterName", "brokerName", "brokerId", "brokerRole", "namesrvAddr",
        "enableControllerMode",
    )  # fmt: skip


@pytest.mark.parametrize("role", OWN)
def test_what_is_left_out_are_keys_that_there_are(role: Role) -> None:
    assert set(OWN[role]) - set(keys_known(role.value)) == set()


def test_everything_wrong_is_named_with_its_line() -> None:
    wrong = CONF + b"flushDiskTyp=SYNC_FLUSH\nflushDiskType=SYNC_FLSH\nminInSyncReplicas=two\n"
    with pytest.raises(SettingsError) as caught:
        taken(Role.BROKER, wrong, "broker.conf")
    assert str(caught.value).splitlines() == [
        "broker.conf:14: a broker has no key 'flushDiskTyp', did you mean flushDiskType?",
        "broker.conf:15: flushDiskType=SYNC_FLSH: not one of ASYNC_FLUSH, SYNC_FLUSH",
        "broker.conf:16: minInSyncReplicas=two: expected `int`, got `str`",
    ]
    with pytest.raises(SettingsError, match=r"c: .*malformed"):
        taken(Role.CONTROLLER, b"controllerStorePath=\\u12", "c")


def test_a_file_settles_what_is_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(CONF)
    assert run_cli([*QUICK, "--broker-conf", str(path)]) == 0
    said = capsys.readouterr().out
    assert "P-DEFAULT" in said
    assert "--set broker:minInSyncReplicas=2" in said
    assert "--set broker:lockInStrictMode=false" in said  # what RocketMQ ships
    assert "left out of the files, as Max-Q lays out the cluster itself: brokerClusterName" in said
    assert "not used by reference, and so without effect: transientStorePoolEnable" in said


def test_what_is_left_out_is_said_with_the_reason_by_verdict_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(CONF + b"totalReplicas=3\n")
    small = ["--workload", "queue", "--nemesis", "none", "--time-limit", "2s", "--rate", "20"]
    words = ["test", "--env", "simulated", "--seed", "1", *small, "--store", str(tmp_path)]
    assert run_cli([*words, "--broker-conf", str(path)]) == 0
    out, err = capsys.readouterr()
    ids = "brokerClusterName, brokerName, brokerId, brokerRole (who a node is)"
    assert f"as Max-Q lays out the cluster itself: {ids}; namesrvAddr" in err
    said = " ".join(out.split())
    assert ids in said
    assert "totalReplicas (--replicas says it)" in said
    assert ids in (tmp_path / "latest" / "report.html").read_text()
    assert run_cli(["check", str(tmp_path / "latest")]) == 0
    assert ids in " ".join(capsys.readouterr().out.split()), "also when it is judged again"


def test_what_is_set_by_hand_comes_before_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(CONF)
    by_hand = ["--set", "broker:minInSyncReplicas=1"]
    assert run_cli([*QUICK, "--broker-conf", str(path), *by_hand]) == 0
    assert "--set broker:minInSyncReplicas=1" in capsys.readouterr().out
    assert run_cli([*QUICK, "--broker-conf", str(path), "--replicas", "1"]) == 254
    assert "needs --replicas 2" in capsys.readouterr().err


def test_a_wrong_file_is_a_wrong_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "controller.conf"
    path.write_text("enableElectUncleanMastr=true\n")
    assert run_cli([*QUICK, "--controller-conf", str(path)]) == 254
    assert f"{path}:1: a controller has no key 'enableElectUncleanMastr', did you mean" in (
        capsys.readouterr().err
    )
    assert run_cli([*QUICK, "--controller-conf", str(tmp_path / "none")]) == 254
    assert "No such file" in capsys.readouterr().err
    assert run_cli([*QUICK, "--set", "broker:flushDiskType=SYNC"]) == 254
    assert "not one of ASYNC_FLUSH, SYNC_FLUSH" in capsys.readouterr().err
