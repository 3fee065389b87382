"""The settings file of a process: what only the whole of it shows."""

import pytest

from maxq.reference.config import BrokerConfig, ConfigError, ControllerConfig, NamesrvConfig
from maxq.reference.node_file import NO_SET, NO_SHARE, NO_WAITING, parse_node

EMBEDDED = b"""\
listenPort=9876
scanNotActiveBrokerInterval=1000
enableControllerInNamesrv=true
controllerDLegerGroup=g1
controllerDLegerPeers=n0-10.1.0.10:9878;n1-10.1.0.11:9878
controllerDLegerSelfId=n0
controllerStorePath=/data/n0/controller
mappedFileSize=33554432
clusterTest=false
"""


def refusal(role: str, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_node(role, text.encode(), "node.conf")
    return str(caught.value)


def test_controller_mode_without_a_controller_is_refused() -> None:
    """Such a broker would be fenced for ever."""
    found = refusal("broker", "enableControllerMode=true\ncontrollerAddr=;\n")
    assert found == "node.conf: enableControllerMode=true needs controllerAddr"


PAIR = "totalReplicas=2\nbrokerRole=SYNC_MASTER\n"
SLAVE = "totalReplicas=2\nbrokerRole=SLAVE\n"


@pytest.mark.parametrize(
    ("before", "line", "fault"),
    [
        (PAIR, "brokerId=1", "is a slave's, and brokerRole=SYNC_MASTER needs 0"),
        (SLAVE, "brokerId=0", "is a master's, and brokerRole=SLAVE needs another: 1 or more"),
        (SLAVE, "brokerId=-1", "is a master's, and brokerRole=SLAVE needs another: 1 or more"),
        ("enableControllerMode=true\ncontrollerAddr=c:1\n", "haMasterAddress=m:10912",
         "names a master, and controllers do (enableControllerMode=true)"),
    ],
)  # fmt: skip
def test_who_a_node_cannot_be_is_refused_by_key_and_line(
    before: str, line: str, fault: str
) -> None:
    lines = before.count("\n") + 1
    assert refusal("broker", f"{before}{line}\n") == f"node.conf:{lines}: {line} {fault}"


@pytest.mark.parametrize(
    ("before", "line", "fault"),
    [
        ("", "inSyncReplicas=2", NO_WAITING),
        ("", "minInSyncReplicas=3", NO_WAITING),
        (PAIR, "allAckInSyncStateSet=true", NO_SET),
        ("", "logicalDiskSpaceCleanForciblyThreshold=0.7", NO_SHARE),
    ],
)
def test_what_is_without_effect_is_said_by_key_and_line(before: str, line: str, fault: str) -> None:
    """RocketMQ starts with it, and so do we."""
    _, warnings = parse_node("broker", f"{before}{line}\n".encode(), "node.conf")
    assert warnings == [f"node.conf:{before.count(chr(10)) + 1}: {line}: {fault}"]


@pytest.mark.parametrize(
    ("count", "quota"), [("2", "0.4"), ("1", "0.5"), ("2", "1"), ("3", "0.34"), ("7", "0.14")]
)
def test_two_different_shares_of_the_partition_are_refused(count: str, quota: str) -> None:
    """Also where one of them is the default: it is said all the same."""
    text = f"replicasPerDiskPartition={count}\nquotaPercentForDiskPartition={quota}\n"
    assert refusal("broker", text) == (
        f"node.conf:2: quotaPercentForDiskPartition={quota} is another share of the partition than "
        f"replicasPerDiskPartition={count}; one is enough"
    )


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 1),
        ("replicasPerDiskPartition=4", 0.25),
        ("quotaPercentForDiskPartition=0.3", 0.3),
        ("replicasPerDiskPartition=2\nquotaPercentForDiskPartition=0.5", 0.5),
        ("quotaPercentForDiskPartition=0.33\nreplicasPerDiskPartition=3", 1 / 3),
        ("replicasPerDiskPartition=1\nquotaPercentForDiskPartition=1", 1),
    ],
)
def test_a_share_of_the_partition_is_said_in_either_way(text: str, share: float) -> None:
    (config,), warnings = parse_node("broker", text.encode(), "node.conf")
    assert isinstance(config, BrokerConfig)
    assert (config.disk_share, warnings) == (share, [])


def test_a_slave_needs_an_id() -> None:
    found = refusal("broker", "brokerRole=SLAVE\n")
    assert found.startswith("node.conf: brokerId is a master's")


def test_of_equal_keys_the_last_line_is_named() -> None:
    found = refusal("broker", "brokerId=1\nbrokerId=2\n")
    assert found.startswith("node.conf:2: brokerId=2 ")


@pytest.mark.parametrize(
    "text", ["brokerRole=ASYNC_MASTER\ninSyncReplicas=1\n", f"{SLAVE}brokerId=1\n", "",
             f"{PAIR}inSyncReplicas=3\nminInSyncReplicas=2\nenableAutoInSyncReplicas=true\n",
             f"{SLAVE}brokerId=1\ninSyncReplicas=2\nhaMasterAddress=m:10912\n",
             "enableControllerMode=true\ncontrollerAddr=c:1\nallAckInSyncStateSet=true\n"],
)  # fmt: skip
def test_what_can_be_kept_is_taken(text: str) -> None:
    (config,), warnings = parse_node("broker", text.encode(), "node.conf")
    assert isinstance(config, BrokerConfig)
    assert warnings == []


def test_a_name_server_reads_the_settings_of_the_controller_in_it() -> None:
    """A key that both know counts for both; one of Java's alone is warned of once."""
    (namesrv, controller), warnings = parse_node("namesrv", EMBEDDED, "n.conf")
    assert isinstance(namesrv, NamesrvConfig)
    assert isinstance(controller, ControllerConfig)
    assert namesrv.scan_not_active_broker_interval == 1000
    assert controller.scan_not_active_broker_interval == 1000
    assert controller.peers() == {"n0": "10.1.0.10:9878", "n1": "10.1.0.11:9878"}
    assert warnings == [
        "n.conf:9: clusterTest is used by the Java system only; ignored",
        "n.conf:8: mappedFileSize is used by the Java system only; ignored",
    ]


def test_a_controller_in_a_name_server_needs_its_peers() -> None:
    found = refusal("namesrv", "enableControllerInNamesrv=true\n")
    assert found == "node.conf: enableControllerInNamesrv=true needs controllerDLegerPeers"


def test_a_wrong_key_of_the_controller_is_named_by_line() -> None:
    found = refusal("namesrv", "enableControllerInNamesrv=true\ncontrollerDLegerPeers=n0\n")
    assert found.startswith("node.conf:2: controllerDLegerPeers=n0: not id-host:port")


def test_settings_of_a_controller_beside_none_are_refused() -> None:
    """They would be taken for settings in force."""
    found = refusal("namesrv", "controllerDLegerPeers=n0-h:1\n")
    assert found.startswith("node.conf:1: unknown key controllerDLegerPeers")


def test_a_level_of_the_disk_that_has_no_effect_is_warned_of() -> None:
    """RocketMQ starts with it: at the lower level young files go, and sends are refused."""
    text = "diskSpaceCleanForciblyRatio=80\ndiskSpaceWarningLevelRatio=79"
    _, warnings = parse_node("broker", text.encode(), "node.conf")
    assert warnings[-1] == (
        "node.conf:1: diskSpaceCleanForciblyRatio=80: is above diskSpaceWarningLevelRatio, from "
        "which on young files go as well; ignored"
    )
    _, warnings = parse_node("broker", text.replace("79", "80").encode(), "f")
    assert not any("Ratio" in warning for warning in warnings)
