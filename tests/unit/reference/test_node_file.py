"""The settings file of a process: what only the whole of it shows."""

import pytest

from maxq.reference.config import BrokerConfig, ConfigError, ControllerConfig, NamesrvConfig
from maxq.reference.node_file import NO_COPIES, parse_node

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


@pytest.mark.parametrize(
    "line",
    ["brokerRole=SYNC_MASTER", "inSyncReplicas=2", "minInSyncReplicas=3",
     "allAckInSyncStateSet=true"],
)  # fmt: skip
def test_copies_without_controllers_are_refused_by_key_and_line(line: str) -> None:
    """S6: SEND_OK would promise copies where there is one."""
    assert refusal("broker", f"listenPort=10911\n\n{line}\n") == f"node.conf:3: {line} {NO_COPIES}"


def test_of_equal_keys_the_last_line_is_named() -> None:
    found = refusal("broker", "inSyncReplicas=1\ninSyncReplicas=2\n")
    assert found.startswith("node.conf:2: inSyncReplicas=2 ")


@pytest.mark.parametrize(
    "text", ["brokerRole=ASYNC_MASTER\ninSyncReplicas=1\n", "brokerRole=SLAVE\n", "",
             "enableControllerMode=true\ncontrollerAddr=c:1\nallAckInSyncStateSet=true\n"],
)  # fmt: skip
def test_what_promises_no_copies_or_has_controllers_is_taken(text: str) -> None:
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


def test_levels_of_the_disk_out_of_order_are_refused() -> None:
    """Beyond the one young files go, beyond the other sends are refused as well."""
    text = "diskSpaceCleanForciblyRatio=80\ndiskSpaceWarningLevelRatio=79"
    assert refusal("broker", text) == (
        "node.conf: diskSpaceCleanForciblyRatio=80 is above diskSpaceWarningLevelRatio=79"
    )
    (config,), _ = parse_node("broker", text.replace("79", "80").encode(), "f")
    assert isinstance(config, BrokerConfig)
