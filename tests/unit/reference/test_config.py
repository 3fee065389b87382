"""A node's configuration: RocketMQ's keys, used, warned of, or refused with file and line."""

import re
from typing import Any

import msgspec
import pytest

from maxq.reference import java_keys
from maxq.reference.config import (
    ROLES,
    BrokerConfig,
    ConfigError,
    ControllerConfig,
    NamesrvConfig,
    keys_used,
    parse_config,
    render_config,
)

# What Java takes from elsewhere where no file says it: each program's own port, the port after it.
OTHER = frozenset({"listenPort", "haListenPort", "brokerId"})

# docs/spec/remoting.md 9: the broker file of a minimal cluster, as the Java broker takes it.
BROKER_FILE = b"""\
brokerClusterName=c1
brokerName=b1
brokerId=-1
brokerRole=SLAVE
listenPort=10911
bindAddress=10.1.0.30
brokerIP1=10.1.0.30
brokerIP2=10.1.0.30
namesrvAddr=10.1.0.10:9876
enableControllerMode=true
controllerAddr=10.1.0.20:9878;10.1.0.21:9878;10.1.0.22:9878
allAckInSyncStateSet=true
minInSyncReplicas=2
totalReplicas=3
registerNameServerPeriod=10000
storePathRootDir=/data/b0
storePathCommitLog=/data/b0/commitlog
mappedFileSizeCommitLog=67108864
mappedFileSizeConsumeQueue=600000
maxHashSlotNum=10000
maxIndexNum=40000
maxMessageSize=1048576
autoCreateTopicEnable=false
slaveReadEnable=true
"""


def refusal(kind: Any, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(kind, text.encode(), "node.conf")
    return str(caught.value)


def test_one_file_serves_both_systems() -> None:
    """The broker file of docs/spec/remoting.md 9 is taken whole; two keys are Java's alone."""
    config, warnings = parse_config(BrokerConfig, BROKER_FILE, "broker-0.conf")
    assert (config.broker_cluster_name, config.broker_name, config.broker_id) == ("c1", "b1", -1)
    assert config.broker_ip1 == config.broker_ip2 == "10.1.0.30"
    assert config.enable_controller_mode is True
    assert config.auto_create_topic_enable is False
    assert (config.min_in_sync_replicas, config.total_replicas) == (2, 3)
    assert config.mapped_file_size_commit_log == 67_108_864
    assert config.identity_path == "/data/b0/brokerIdentity"
    assert warnings == [
        f"broker-0.conf:{line}: {key} is used by the Java system only; ignored"
        for line, key in ((20, "maxHashSlotNum"), (21, "maxIndexNum"))
    ]


def test_the_controller_and_namesrv_files_of_the_minimal_cluster_are_taken() -> None:
    """The other two files of docs/spec/remoting.md 9."""
    text = (
        b"controllerDLegerGroup=g1\n"
        b"controllerDLegerPeers=n0-10.1.0.20:9878;n1-10.1.0.21:9878;n2-10.1.0.22:9878\n"
        b"controllerDLegerSelfId=n0\nbindAddress=10.1.0.20\ncontrollerStorePath=/data/c0\n"
        b"mappedFileSize=33554432\n"
    )
    controller, warnings = parse_config(ControllerConfig, text, "c.conf")
    assert controller.peers() == {f"n{i}": f"10.1.0.2{i}:9878" for i in range(3)}
    assert controller.raft_addresses() == {f"n{i}": f"10.1.0.2{i}:9879" for i in range(3)}
    assert warnings == ["c.conf:6: mappedFileSize is used by the Java system only; ignored"]
    namesrv, warnings = parse_config(NamesrvConfig, b"listenPort=9876\n", "n.conf")
    assert (namesrv.listen_port, warnings) == (9876, [])


def test_a_controller_at_the_last_port_has_none_for_raft() -> None:
    found = refusal(ControllerConfig, "controllerDLegerPeers=n0-h0:9878;n1-h1:65535")
    assert "Raft's port would be 65536" in found


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (BrokerConfig, java_keys.keys_of("broker").keys()),
        (ControllerConfig, java_keys.keys_of("controller").keys()),
        (NamesrvConfig, java_keys.keys_of("namesrv").keys()),
    ],
)
def test_a_key_of_java_alone_gives_exactly_one_warning(kind: Any, keys: frozenset[str]) -> None:
    """Accepted with one warning, also when it is repeated."""
    ours = {f.encode_name for f in msgspec.structs.fields(kind)}
    for key in sorted(keys - ours):
        _, warnings = parse_config(kind, f"{key}=x\n{key}=y\n".encode(), "f")
        assert len(warnings) == 1
        assert key in warnings[0]


@pytest.mark.parametrize("role", ROLES)
def test_every_own_key_has_a_java_name(role: str) -> None:
    """Both targets take the same keys, so ours are among Java's."""
    beside = {java_keys.LOCK_LEASE, java_keys.RIP_QUOTA}
    assert keys_used(role) - java_keys.keys_of(role).keys() - beside == set()


@pytest.mark.parametrize("role", ROLES)
def test_every_own_default_is_the_newest_release_s(role: str) -> None:
    """But for what depends on the machine, and where files lie."""
    for field in msgspec.structs.fields(ROLES[role]):
        found = java_keys.keys_of(role).get(field.encode_name)
        if found is None or found[-1].default == java_keys.MACHINE or field.encode_name in OTHER:
            continue
        own = render_config(ROLES[role]())
        assert f"{field.encode_name}={found[-1].default}\n" in own


def test_an_unknown_key_is_refused_with_the_nearest_names() -> None:
    """Unknown keys are errors."""
    why = refusal(BrokerConfig, "# comment\n\nbrokerNme=b1\n")
    assert why.startswith("node.conf:3: unknown key brokerNme; did you mean brokerName")
    assert refusal(NamesrvConfig, "zzzzqqqq=1") == "node.conf:1: unknown key zzzzqqqq"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("listenPort=many", "not a whole number"),
        ("listenPort=0", "not at least 3"),
        ("listenPort=65536", "not at most 65534"),
        ("brokerRole=MASTER", "not one of SLAVE, ASYNC_MASTER, SYNC_MASTER"),
        ("flushDiskType=SOMETIMES", "not one of ASYNC_FLUSH, SYNC_FLUSH"),
        ("autoCreateTopicEnable=maybe", "not one of true, false"),
        ("brokerId=99999999999999999999", "not at most 2147483647"),
        ("brokerElectionPriority=2147483648", "not at most 2147483647"),
        ("mappedFileSizeCommitLog=100", "not at least 4096"),
        ("minInSyncReplicas=0", "not at least 1"),
        ("brokerName=a#b", "not a name"),
        ("brokerName=", "not a name"),
        ("brokerClusterName=c/1", "not a name"),
        ("brokerIP1=::1", "not an IPv4 address"),
        ("brokerIP2=host", "not an IPv4 address"),
        ("namesrvAddr=10.0.0.1", "not host:port;host:port: 10.0.0.1"),
        ("controllerAddr=a:1;b:99999", "not host:port;host:port: b:99999"),
        ("fileReservedTime=0", "not at least 1"),
        ("fileReservedTime=-72", "not at least 1"),
        ("deleteWhen=24", "not hours of the day, 04;16: 24"),
        ("deleteWhen=4;noon", "not hours of the day, 04;16: noon"),
        ("deleteWhen=;", "not hours of the day"),
        ("diskMaxUsedSpaceRatio=0", "not at least 10"),
        ("diskSpaceWarningLevelRatio=101", "not at most 100"),
        ("deleteFileBatchMax=0", "not at least 1"),
        ("replicasPerDiskPartition=0", "not at least 1"),
        ("replicasPerDiskPartition=-2", "not at least 1"),
        ("replicasPerDiskPartition=1.5", "not a whole number"),
        ("quotaPercentForDiskPartition=0", "not above 0"),
        ("quotaPercentForDiskPartition=-0.5", "not above 0"),
        ("quotaPercentForDiskPartition=1.01", "not at most 1"),
        ("quotaPercentForDiskPartition=50%", "not a number"),
        ("quotaPercentForDiskPartition=nan", "not above 0"),
        ("logicalDiskSpaceCleanForciblyThreshold=80", "not at most 1"),
        ("cleanResourceInterval=0", "not at least 1"),
        ("cleanFileForciblyEnable=perhaps", "not one of true, false"),
        ("controllerAddr=:9878", "not host:port;host:port: :9878"),
    ],
)
def test_a_wrong_value_is_refused_by_file_and_line(line: str, why: str) -> None:
    """Type, range, enum, name and address; the first line is 1."""
    found = refusal(BrokerConfig, "\n" + line)
    assert found.startswith(f"node.conf:2: {line}: ")
    assert why in found


@pytest.mark.parametrize("peers", ["n0", "n0-host", "-h:1", "n0-h:x", "n0-h:0"])
def test_wrong_controller_peers_are_refused_by_file_and_line(peers: str) -> None:
    """Id-host:port for each controller."""
    found = refusal(ControllerConfig, f"controllerDLegerPeers={peers}")
    assert found.startswith(f"node.conf:1: controllerDLegerPeers={peers}: not id-host:port")


def test_what_is_no_properties_file_is_refused() -> None:
    """Bytes that are not text name their file."""
    with pytest.raises(ConfigError, match=r"node\.conf: properties is not UTF-8"):
        parse_config(NamesrvConfig, b"\xff\xfe", "node.conf")
    with pytest.raises(ConfigError, match=r"node\.conf: properties line 1"):
        parse_config(NamesrvConfig, b"listenPort=\\u12", "node.conf")


def test_of_equal_keys_the_last_one_counts_and_each_is_checked() -> None:
    """Java's Properties keep the last; a wrong line is refused wherever it is."""
    config, _ = parse_config(NamesrvConfig, b"listenPort=1\nlistenPort=2\n", "f")
    assert config.listen_port == 2
    assert "node.conf:1" in refusal(NamesrvConfig, "listenPort=x\nlistenPort=2\n")


def test_what_is_answered_reads_back_as_the_same_settings() -> None:
    """26, 319, 1010 answer properties text with RocketMQ's keys."""
    config, _ = parse_config(BrokerConfig, BROKER_FILE, "f")
    text = render_config(config)
    assert "enableControllerMode=true\n" in text
    assert re.search(r"^brokerIP1=10\.1\.0\.30$", text, re.MULTILINE)
    assert parse_config(BrokerConfig, text.encode(), "f") == (config, [])


def test_the_hours_of_deletion() -> None:
    parsed, _ = parse_config(BrokerConfig, b"", "f")
    assert parsed.delete_hours() == {4}
    assert msgspec.structs.replace(parsed, delete_when="04;16").delete_hours() == {4, 16}
