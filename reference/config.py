"""A node's configuration: RocketMQ's own keys in properties format, checked line by line.

One file serves both systems. A key is used (a field below names it), or accepted with one warning
because only the Java system knows it, or refused with file and line. Field names are RocketMQ's
own keys in snake case; units are in each field's comment, ranges in its type.
"""

import difflib
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, field

from reference import java_keys
from reference.records import RemoteProtocolError
from reference.wire.files import decode_properties

Port = Annotated[int, Meta(ge=1, le=65535)]
Millis = Annotated[int, Meta(ge=1, le=86_400_000)]
ConfigRole = Literal["namesrv", "controller", "broker"]


class ConfigError(Exception):
    """A configuration that cannot be used; says file, line and what is wrong."""


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What every role knows."""

    bind_address: str = "0.0.0.0"


class NamesrvConfig(NodeConfig, frozen=True, kw_only=True, rename="camel"):
    """Settings of a name server."""

    listen_port: Port = 9876
    scan_not_active_broker_interval: Millis = 5000  # ms
    return_order_topic_config_to_broker: bool = True


class ControllerConfig(NodeConfig, frozen=True, kw_only=True, rename="camel"):
    """Settings of a controller."""

    controller_dleger_group: str = field(name="controllerDLegerGroup", default="")
    controller_dleger_peers: str = field(name="controllerDLegerPeers", default="")
    controller_dleger_self_id: str = field(name="controllerDLegerSelfId", default="")
    controller_store_path: str = "/var/lib/rocketmq/controller"
    enable_elect_unclean_master: bool = False
    notify_broker_role_changed: bool = True
    scan_not_active_broker_interval: Millis = 5000  # ms
    scan_inactive_master_interval: Millis = 5000  # ms

    def peers(self) -> dict[str, str]:
        """Read ``id-host:port;…`` into id -> ``host:port``.

        Raises:
            ConfigError: an entry has another form.
        """
        peers: dict[str, str] = {}
        for entry in filter(None, self.controller_dleger_peers.split(";")):
            peer, dash, address = entry.partition("-")
            if not dash or ":" not in address:
                raise ConfigError(f"controllerDLegerPeers: not id-host:port: {entry!r}")
            peers[peer] = address
        return peers


class BrokerConfig(NodeConfig, frozen=True, kw_only=True, rename="camel"):
    """Settings of a broker and its store."""

    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = -1  # assigned by the controller where there is one
    broker_role: Literal["SLAVE", "ASYNC_MASTER", "SYNC_MASTER"] = "ASYNC_MASTER"
    broker_ip1: str = field(name="brokerIP1", default="")  # empty: the host's first address
    broker_ip2: str = field(name="brokerIP2", default="")  # empty: as brokerIP1
    listen_port: Annotated[int, Meta(ge=3, le=65534)] = 10911  # P-2 and P+1 are ports as well
    ha_listen_port: Annotated[int, Meta(ge=0, le=65535)] = 0  # 0: listenPort + 1
    namesrv_addr: str = ""  # ip:port;ip:port
    enable_controller_mode: bool = False
    controller_addr: str = ""  # ip:port;ip:port
    controller_heart_beat_timeout_mills: Millis = 10_000  # ms
    broker_heartbeat_interval: Millis = 1000  # ms
    broker_election_priority: int = 2_147_483_647  # lower wins
    sync_broker_metadata_period: Millis = 5000  # ms
    sync_controller_metadata_period: Millis = 10_000  # ms
    register_name_server_period: Annotated[int, Meta(ge=1000, le=86_400_000)] = 30_000  # ms
    all_ack_in_sync_state_set: bool = False
    min_in_sync_replicas: Annotated[int, Meta(ge=1, le=1000)] = 1
    in_sync_replicas: Annotated[int, Meta(ge=1, le=1000)] = 1
    total_replicas: Annotated[int, Meta(ge=1, le=1000)] = 1
    slave_read_enable: bool = False
    store_path_root_dir: str = "/var/lib/rocketmq/store"
    store_path_commit_log: str = ""  # empty: <root>/commitlog
    store_path_broker_identity: str = ""  # empty: <root>/brokerIdentity
    store_path_epoch_file: str = ""  # empty: <root>/epochFileCheckpoint
    mapped_file_size_commit_log: Annotated[int, Meta(ge=4096, le=2**31)] = 1 << 30  # bytes
    mapped_file_size_consume_queue: Annotated[int, Meta(ge=20, le=2**31)] = 6_000_000  # bytes
    max_message_size: Annotated[int, Meta(ge=1, le=8 << 20)] = 4 << 20  # bytes of body
    flush_disk_type: Literal["ASYNC_FLUSH", "SYNC_FLUSH"] = "ASYNC_FLUSH"
    sync_flush_timeout: Millis = 5000  # ms
    flush_interval_commit_log: Millis = 500  # ms
    flush_consumer_offset_interval: Millis = 5000  # ms
    long_polling_enable: bool = True
    short_polling_time_mills: Millis = 1000  # ms
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    default_topic_queue_nums: Annotated[int, Meta(ge=1, le=10_000)] = 8
    broker_permission: Annotated[int, Meta(ge=0, le=7)] = 6
    region_id: str = "DefaultRegion"
    trace_on: bool = True

    @property
    def commit_log_path(self) -> str:
        return self.store_path_commit_log or f"{self.store_path_root_dir}/commitlog"

    @property
    def identity_path(self) -> str:
        return self.store_path_broker_identity or f"{self.store_path_root_dir}/brokerIdentity"

    @property
    def epoch_path(self) -> str:
        return self.store_path_epoch_file or f"{self.store_path_root_dir}/epochFileCheckpoint"


C = TypeVar("C", bound=NodeConfig)
_JAVA_ONLY: dict[type[NodeConfig], frozenset[str]] = {
    NamesrvConfig: java_keys.NAMESRV,
    ControllerConfig: java_keys.CONTROLLER,
    BrokerConfig: java_keys.BROKER,
}
ROLES: dict[str, type[NodeConfig]] = {
    "namesrv": NamesrvConfig,
    "controller": ControllerConfig,
    "broker": BrokerConfig,
}


def parse_config(kind: type[C], content: bytes, file: str) -> tuple[C, list[str]]:
    """Read a properties file.

    Args:
        kind: the role's record.
        content: the file's bytes.
        file: its name, for messages.

    Returns:
        The settings, and one warning for each key that only the Java system uses.

    Raises:
        ConfigError: file, line, and the key that is unknown or wrong.
    """
    try:
        entries = decode_properties(content)
    except RemoteProtocolError as error:
        raise ConfigError(f"{file}: {error}") from None
    ours = {f.encode_name: f for f in msgspec.structs.fields(kind)}
    values: dict[str, str] = {}
    warnings: list[str] = []
    for entry in entries:
        key, where = entry.key, f"{file}:{entry.line}"
        if key in ours:
            values[key] = entry.value
            _check(kind, key, entry.value, where)
        elif key in _JAVA_ONLY[kind]:
            warnings.append(f"{where}: {key} is used by the Java system only; ignored")
        else:
            near = difflib.get_close_matches(key, [*ours, *_JAVA_ONLY[kind]], n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise ConfigError(f"{where}: unknown key {key}{hint}")
    return msgspec.convert(values, kind, strict=False), warnings


def _check(kind: type[NodeConfig], key: str, value: str, where: str) -> None:
    try:
        msgspec.convert({key: value}, kind, strict=False)
    except msgspec.ValidationError as error:
        reason = str(error).rpartition(" - at ")[0]
        raise ConfigError(f"{where}: {key}={value}: {reason.lower()}") from None


def render_config(config: NodeConfig) -> str:
    """Write settings as properties text, as the GET_…_CONFIG requests answer them."""
    plain = msgspec.to_builtins(config)
    return "".join(f"{key}={_text(value)}\n" for key, value in sorted(plain.items()))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
