"""The settings file of one process: of a node, or of a name server that holds a controller.

`maxq.reference.config` checks a file line by line; what only the whole file shows is checked here,
before anything runs: settings that need one another, and what is without effect beside others, as
in RocketMQ, which starts with it all the same. RocketMQ's key ``enableControllerInNamesrv`` makes
one process of a name server and a controller: both read the one file, and a key that both know
counts for both.
"""

from collections.abc import Container

from maxq.reference.config import (
    ROLES,
    BrokerConfig,
    ConfigError,
    ControllerConfig,
    NamesrvConfig,
    NodeConfig,
    parse_config,
)
from maxq.reference.java_keys import RIP_QUOTA
from maxq.reference.wire.files import decode_properties

COUNT, THRESHOLD = "replicasPerDiskPartition", "logicalDiskSpaceCleanForciblyThreshold"
NO_WAITING = "without controllers only brokerRole=SYNC_MASTER waits for copies; ignored"
ABOVE_FULL = "is above diskSpaceWarningLevelRatio, from which on young files go as well; ignored"
NO_SHARE = "has no effect without replicasPerDiskPartition; ignored"
NO_SET = "without enableControllerMode=true there is no SyncStateSet; ignored"


def parse_node(role: str, content: bytes, file: str) -> tuple[tuple[NodeConfig, ...], list[str]]:
    """Read the file of a process.

    Args:
        role: of `ROLES`.
        content: the file's bytes.
        file: its name, for messages.

    Returns:
        The settings of each node in it, the one of `role` first, and one warning for each key that
        only the Java system uses, or that has no effect beside the others.

    Raises:
        ConfigError: file, line, and the key that is unknown, wrong, or at odds with others.
    """
    kind = ROLES[role]
    if kind is NamesrvConfig and (embedding := _with_controller(content, file)) is not None:
        return embedding
    config, warnings = parse_config(kind, content, file)
    if isinstance(config, BrokerConfig):
        warnings = [*warnings, *check_broker(config, content, file)]
    return (config,), warnings


def _with_controller(content: bytes, file: str) -> tuple[tuple[NodeConfig, ...], list[str]] | None:
    """The settings of a name server with a controller; None if it holds none."""
    namesrv, warnings = parse_config(NamesrvConfig, content, file, beside=ControllerConfig)
    if not namesrv.enable_controller_in_namesrv:
        return None
    controller, more = parse_config(ControllerConfig, content, file, beside=NamesrvConfig)
    if not controller.controller_dleger_peers:
        raise ConfigError(f"{file}: enableControllerInNamesrv=true needs controllerDLegerPeers")
    return (namesrv, controller), list(dict.fromkeys([*warnings, *more]))


def check_broker(config: BrokerConfig, content: bytes, file: str) -> list[str]:
    """Refuse settings of a broker that exclude each other; returns what is without effect."""
    lines = {entry.key: (entry.line, entry.value) for entry in decode_properties(content)}
    if config.enable_controller_mode:
        if not config.controller_addr.strip(";"):
            raise ConfigError(f"{file}: enableControllerMode=true needs controllerAddr")
        faults = _faults_with_controllers(config)
    else:
        faults = _faults_alone(config)
    faults |= _of_no_effect(config) | _of_share(config, lines)
    warnings = []
    for key, fault in faults.items():
        line, value = lines.get(key, (0, ""))
        said = f"{file}:{line}: {key}={value} {fault}" if line else f"{file}: {key} {fault}"
        if fault not in (NO_SET, NO_WAITING, ABOVE_FULL, NO_SHARE):
            raise ConfigError(said)
        warnings.append(said.replace(f" {fault}", f": {fault}"))
    return warnings


def _of_no_effect(config: BrokerConfig) -> dict[str, str]:
    """What has no effect with controllers or without, by the key to blame."""
    above = config.disk_space_clean_forcibly_ratio > config.disk_space_warning_level_ratio
    return {"diskSpaceCleanForciblyRatio": ABOVE_FULL} if above else {}


def _of_share(config: BrokerConfig, named: Container[str]) -> dict[str, str]:
    """What is wrong with a broker's share of its partition, or without effect."""
    count, quota = config.replicas_per_disk_partition, config.quota_percent_for_disk_partition
    both = all(value != 1 or key in named for key, value in ((COUNT, count), (RIP_QUOTA, quota)))
    if both and round(1 / quota, 1) != count:
        blamed, other = (RIP_QUOTA, COUNT) if RIP_QUOTA in named else (COUNT, RIP_QUOTA)
        value = count if other == COUNT else quota
        return {blamed: f"is another share of the partition than {other}={value}; one is enough"}
    if config.disk_share == 1 and THRESHOLD in named:
        return {THRESHOLD: NO_SHARE}
    return {}


def _faults_with_controllers(config: BrokerConfig) -> dict[str, str]:
    """What is wrong, by the key to blame."""
    by_hand = {"haMasterAddress": "names a master, and controllers do (enableControllerMode=true)"}
    return by_hand if config.ha_master_address else {}


def _faults_alone(config: BrokerConfig) -> dict[str, str]:
    """What is wrong, or without effect, without controllers, by the key to blame."""
    c, slave = config, config.broker_role == "SLAVE"
    waits_for_none = c.broker_role == "ASYNC_MASTER"
    faults = (
        ("allAckInSyncStateSet", NO_SET, c.all_ack_in_sync_state_set),
        ("inSyncReplicas", NO_WAITING, waits_for_none and c.in_sync_replicas > 1),
        ("minInSyncReplicas", NO_WAITING, waits_for_none and c.min_in_sync_replicas > 1),
        ("brokerId", "is a master's, and brokerRole=SLAVE needs another: 1 or more",
         slave and c.broker_id < 1),
        ("brokerId", f"is a slave's, and brokerRole={c.broker_role} needs 0",
         not slave and c.broker_id > 0),
    )  # fmt: skip
    return {key: fault for key, fault, holds in reversed(faults) if holds}
