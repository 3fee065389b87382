"""Operators' own files of settings: what is read, refused, overlooked."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.environment import Role
from maxq.harness.targets.known_keys import NEWEST, REFUSED, overlooks
from maxq.harness.targets.settings_files import OWN, SettingsError, check, read
from maxq.reference.java_keys import keys_of

REFERENCE, NEW, OLD = "reference", "rocketmq:5.5.0", "rocketmq:5.1.1"
QUICK = ["test", "--env", "simulated", "--plan", "--seed", "1"]


def refusal(tmp_path: Path, text: bytes, target: str = REFERENCE) -> list[str]:
    """What is said of a broker's file, without its path."""
    path = tmp_path / "broker.conf"
    path.write_bytes(text)
    with pytest.raises(SettingsError) as caught:
        check(read(path, Role.BROKER), target)
    return str(caught.value).replace(f"{path}:", "").splitlines()


@pytest.mark.parametrize("role", OWN)
def test_what_max_q_lays_out_are_keys_that_there_are_or_were(role: Role) -> None:
    """But for fields that RocketMQ shows and takes from no file."""
    shown = {"storePathConsumeQueue", "storePathIndex", "timerStorePath", "abortFile",
             "storeCheckpoint"}  # fmt: skip
    assert set(OWN[role]) - set(keys_of(role.value)) - shown == set()
    assert {key for key, _ in REFUSED[role]} - set(keys_of(role.value)) == set()


def test_everything_wrong_is_named_with_its_line_and_what_rocketmq_makes_of_it(
    tmp_path: Path,
) -> None:
    wrong = b"""\
allAckInSyncStateSet=ture
flushDiskType=SYNC_FLSH
minInSyncReplicas=two
brokerRole = ASYNC_MASTR
inSyncReplicas=0
flushDiskType.=
diskSpaceCleanForciblyRatio=0.85
traceTopicEnable=yes  # for audits
"""
    assert refusal(tmp_path, wrong) == [
        "1: allAckInSyncStateSet=ture: not one of true, false, did you mean true?; RocketMQ takes "
        "it for false",
        "2: flushDiskType=SYNC_FLSH: not one of SYNC_FLUSH, ASYNC_FLUSH, did you mean SYNC_FLUSH?; "
        "RocketMQ ignores the line and takes ASYNC_FLUSH",
        "3: minInSyncReplicas=two: not a whole number; RocketMQ ignores the line and takes 1",
        "4: brokerRole=ASYNC_MASTR: not one of ASYNC_MASTER, SYNC_MASTER, SLAVE, did you mean "
        "ASYNC_MASTER?; RocketMQ ignores the line and takes ASYNC_MASTER",
        "5: inSyncReplicas=0: not at least 1",
        "7: diskSpaceCleanForciblyRatio=0.85: not a whole number; RocketMQ ignores the line and "
        "takes 85",
        "8: traceTopicEnable=yes  # for audits: not one of true, false (a line has no comment "
        "after its value); RocketMQ takes it for false",
    ]


def test_what_no_run_can_have_is_refused_by_name_where_the_release_has_it(tmp_path: Path) -> None:
    acl2 = refusal(tmp_path, b"authenticationEnabled=true\n", NEW)
    assert acl2 == [
        "1: authenticationEnabled=true: ACL 2.0: Max-Q's clients do not sign what they ask for; "
        "set it to false to test without it"
    ]
    assert (
        "aclEnable=true: Max-Q's clients do not sign"
        in refusal(tmp_path, b"aclEnable=true\n", OLD)[0]
    )
    path = tmp_path / "broker.conf"
    path.write_bytes(b"authenticationEnabled=true\naclEnable=false\n")
    check(read(path, Role.BROKER), OLD)  # which has no such key, and overlooks it


def test_comments_may_have_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    """Java reads these files as Latin-1."""
    path = tmp_path / "broker.conf"
    path.write_bytes(b"\xef\xbb\xbf# \xc5\xe4\xd6\xc3\nflushDiskType=SYNC_FLUSH \n")
    (file,) = read(path, Role.BROKER)
    assert file.get("flushDiskType") == "SYNC_FLUSH"
    path.write_bytes(b"storePathRootDir=\\u12\n")
    with pytest.raises(SettingsError, match="malformed"):
        read(path, Role.BROKER)


def test_a_folder_has_files_of_any_roles_and_others(tmp_path: Path) -> None:
    (tmp_path / "broker-a.properties").write_text("brokerName=a\n")
    (tmp_path / "my-namesrv.conf").write_text("serverWorkerThreads=2\n")
    (tmp_path / "c0.conf").write_text("controllerDLegerSelfId=n0\ncontrollerDLegerGroup=g\n")
    (tmp_path / "ns.conf").write_text("enableControllerInNamesrv=true\nkvConfigPath=/x\n")
    (tmp_path / "rmq-proxy.json").write_text("{}")
    (tmp_path / "tools.properties").write_text("x=1\n")
    assert [(Path(f.name).name, f.role) for f in read(tmp_path, Role.BROKER)] == [
        ("broker-a.properties", Role.BROKER),
        ("c0.conf", Role.CONTROLLER),
        ("my-namesrv.conf", Role.NAMESRV),
        ("ns.conf", Role.NAMESRV),
    ]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SettingsError, match="no file in it is a broker's"):
        read(empty, Role.BROKER)


def test_a_container_s_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "container.conf"
    path.write_text("namesrvAddr=a:1\nbrokerConfigPaths=/a.conf:/b.conf\n")
    with pytest.raises(SettingsError, match=r":2: .*BrokerContainer"):
        read(path, Role.BROKER)


def test_a_wrong_file_is_a_wrong_argument(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "controller.conf"
    path.write_text("enableElectUncleanMaster=ture\n")
    assert run_cli([*QUICK, "--controller-conf", str(path)]) == 254
    assert f"{path}:1: enableElectUncleanMaster=ture: not one of true, false, did you mean" in (
        capsys.readouterr().err
    )
    assert run_cli([*QUICK, "--controller-conf", str(tmp_path / "none")]) == 254
    assert "No such file" in capsys.readouterr().err
    assert run_cli([*QUICK, "--set", "broker:flushDiskType=SYNC"]) == 254
    assert "not one of SYNC_FLUSH, ASYNC_FLUSH" in capsys.readouterr().err


@given(st.sampled_from(sorted(keys_of("broker"))), st.text(max_size=12))
def test_any_value_of_any_key_is_taken_or_refused_by_its_key(key: str, value: str) -> None:
    """Nothing is a traceback, and what is overlooked is not judged."""
    from maxq.harness.targets.settings_files import Line, SettingsFile

    file = SettingsFile(Role.BROKER, "f", {key: Line(value, 1)})
    said = ""
    try:
        check([file], REFERENCE)
    except SettingsError as error:
        said = str(error)
    assert not said or said.startswith(f"f:1: {key}=")
    assert not (said and overlooks(Role.BROKER, key, REFERENCE))


def test_the_table_has_every_release_and_every_type() -> None:
    keys = [key for role in Role for of in keys_of(role.value).values() for key in of]
    assert {key.type for key in keys} == {"int", "long", "double", "boolean", "string"}
    assert {key.last for key in keys} >= {"4.9.7", "5.1.0", "5.3.4", NEWEST}
    assert all(key.default == "" or key.default == "*" or key.values.count(key.default) == 1
               for key in keys if key.values)  # fmt: skip


def test_a_store_that_is_not_rocketmqs_own_is_refused_whatever_its_name(tmp_path: Path) -> None:
    store = b"messageStorePlugIn = org.apache.rocketmq.tieredstore.TieredMessageStore\n"
    assert refusal(tmp_path, store) == [
        "1: messageStorePlugIn=org.apache.rocketmq.tieredstore.TieredMessageStore: Max-Q judges "
        "RocketMQ's own message store; a plug-in such as tiered storage keeps messages elsewhere"
    ]
    path = tmp_path / "broker.conf"
    path.write_bytes(b"messageStorePlugIn =\n")
    check(read(path, Role.BROKER), OLD)  # as it is shipped


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x7fELF\x02\x01\x01\0\0\0", "not a text file of settings"),
        (b"apiVersion: v1\nkind: ConfigMap\n", "none of its keys is RocketMQ's: apiVersion, kind"),
    ],
)
def test_what_is_no_file_of_settings_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=f"{path}: {why}"):
        read(path, Role.BROKER)


def test_a_file_of_jraft_asks_for_controllers_that_agree_by_it(tmp_path: Path) -> None:
    path = tmp_path / "controller.conf"
    path.write_text("controllerType = jRaft\njRaftGroupId = g\n")
    files = read(path, Role.CONTROLLER)
    with pytest.raises(SettingsError, match=r"--target rocketmq:5\.5\.0:jraft has these"):
        check(files, "rocketmq:5.5.0")
    for target in ("rocketmq:5.5.0:jraft", "reference"):
        check(files, target)
