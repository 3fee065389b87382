"""The settings file of one process: of a node, or of a name server that holds a controller.

`maxq.reference.config` checks a file line by line; what only the whole file shows is checked here,
before anything runs: settings that need one another, and a broker that would promise copies which
nobody makes. RocketMQ's key ``enableControllerInNamesrv`` makes one process of a name server and a
controller: both read the one file, and a key that both know counts for both.
"""

from maxq.reference.config import (
    ROLES,
    BrokerConfig,
    ConfigError,
    ControllerConfig,
    NamesrvConfig,
    NodeConfig,
    parse_config,
)
from maxq.reference.wire.files import decode_properties

NO_COPIES = (
    "promises copies, and without enableControllerMode=true this broker's log is copied to nobody"
)


def parse_node(role: str, content: bytes, file: str) -> tuple[tuple[NodeConfig, ...], list[str]]:
    """Read the file of a process.

    Args:
        role: of `ROLES`.
        content: the file's bytes.
        file: its name, for messages.

    Returns:
        The settings of each node in it, the one of `role` first, and one warning for each key that
        only the Java system uses.

    Raises:
        ConfigError: file, line, and the key that is unknown, wrong, or at odds with others.
    """
    kind = ROLES[role]
    if kind is NamesrvConfig and (embedding := _with_controller(content, file)) is not None:
        return embedding
    config, warnings = parse_config(kind, content, file)
    if isinstance(config, BrokerConfig):
        _check_broker(config, content, file)
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


def _check_broker(config: BrokerConfig, content: bytes, file: str) -> None:
    forcibly, warning = (
        config.disk_space_clean_forcibly_ratio,
        config.disk_space_warning_level_ratio,
    )
    if forcibly > warning:
        raise ConfigError(
            f"{file}: diskSpaceCleanForciblyRatio={forcibly} is above "
            f"diskSpaceWarningLevelRatio={warning}"
        )
    if config.enable_controller_mode:
        if not config.controller_addr.strip(";"):
            raise ConfigError(f"{file}: enableControllerMode=true needs controllerAddr")
        return
    lines = {entry.key: (entry.line, entry.value) for entry in decode_properties(content)}
    promises = {
        "brokerRole": config.broker_role == "SYNC_MASTER",
        "inSyncReplicas": config.in_sync_replicas > 1,
        "minInSyncReplicas": config.min_in_sync_replicas > 1,
        "allAckInSyncStateSet": config.all_ack_in_sync_state_set,
    }
    for key in filter(promises.get, promises):
        line, value = lines[key]
        raise ConfigError(f"{file}:{line}: {key}={value} {NO_COPIES}")
