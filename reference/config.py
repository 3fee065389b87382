"""A node's configuration: RocketMQ's own keys in properties format, checked line by line.

One file serves both systems. A key is used (a field below names it), or accepted with one warning
because only the Java system knows it, or refused with file and line. Field names are RocketMQ's
own keys in snake case; units are in each field's comment, ranges in its type. What a type cannot
say (names, addresses) is in `_fault`, so that a node never meets it at run time.
"""

import difflib
import re
from collections.abc import Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Annotated, Literal, TypeVar, get_args

import msgspec
from msgspec import Meta, field

from maxq.reference import java_keys
from maxq.reference.names import broker_name_fault
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import split_address
from maxq.reference.wire.files import decode_properties

Port = Annotated[int, Meta(ge=1, le=65535)]
Millis = Annotated[int, Meta(ge=1, le=86_400_000)]
Percent = Annotated[int, Meta(ge=10, le=100)]
Share = Annotated[int, Meta(ge=0, le=100)]
Part = Annotated[float, Meta(gt=0, le=1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]

DELAY_LEVELS_MAX = 100
_DELAY = re.compile(r"(\d{1,6})([smhd])")
_HOUR = re.compile(r"[01]?[0-9]|2[0-3]")
_BOUND = re.compile(r"Expected `(?:int|float)` (>=|<=|>) (-?\d+)(?:\.0)?")
_BOUNDS = {">=": "at least", "<=": "at most", ">": "above"}
_WHOLE = (re.compile(r"[+-]?\d+"), "a whole number")
_FORMS = {"int": _WHOLE, "long": _WHOLE,
          "double": (re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"), "a number")}  # fmt: skip
_TYPES: dict[object, str] = {bool: "boolean", Part: "double"}
_DELAY_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class ConfigError(Exception):
    """A configuration that cannot be used; says file, line and what is wrong."""


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What every role knows."""

    bind_address: str = "0.0.0.0"


class NamesrvConfig(NodeConfig, frozen=True, kw_only=True, rename="camel"):
    """Settings of a name server."""

    listen_port: Port = 9876
    scan_not_active_broker_interval: Millis = 5000  # ms
    kv_config_path: str = "/var/lib/rocketmq/namesrv/kvConfig.json"
    order_message_enable: bool = False  # show ORDER_TOPIC_CONFIG in routes
    return_order_topic_config_to_broker: bool = True
    delete_topic_with_broker_registration: bool = False
    support_acting_master: bool = False
    notify_min_broker_id_changed: bool = False
    need_wait_for_service: bool = False
    wait_seconds_for_service: Annotated[int, Meta(ge=0, le=86_400)] = 45  # s
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True
    enable_controller_in_namesrv: bool = False


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
    j_raft_election_timeout_ms: Millis = field(name="jRaftElectionTimeoutMs", default=1000)  # ms
    j_raft_snapshot_interval_secs: Annotated[int, Meta(ge=1, le=86_400)] = field(
        name="jRaftSnapshotIntervalSecs", default=3600
    )  # s, from one snapshot to the next

    def peers(self) -> dict[str, str]:
        """Read ``id-host:port;…`` into id -> ``host:port``.

        Raises:
            ConfigError: an entry has another form.
        """
        peers: dict[str, str] = {}
        for entry in filter(None, self.controller_dleger_peers.split(";")):
            peer, dash, address = entry.partition("-")
            if not dash or not peer or not _is_address(address):
                raise ConfigError(f"controllerDLegerPeers: not id-host:port: {entry!r}")
            peers[peer] = address
        return peers

    def raft_addresses(self) -> dict[str, str]:
        """Where each controller serves Raft: at the port after its own, as id -> ``host:port``.

        Raises:
            ConfigError: an entry has another form, or a port has no next one.
        """
        return {peer: _next_port(address) for peer, address in self.peers().items()}


class BrokerConfig(NodeConfig, frozen=True, kw_only=True, rename="camel"):
    """Settings of a broker and its store."""

    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1  # the controller assigns it
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
    broker_election_priority: Int32 = 2**31 - 1  # lower wins
    sync_broker_metadata_period: Millis = 5000  # ms
    sync_controller_metadata_period: Millis = 10_000  # ms
    register_name_server_period: Annotated[int, Meta(ge=1000, le=86_400_000)] = 30_000  # ms
    all_ack_in_sync_state_set: bool = False
    min_in_sync_replicas: Annotated[int, Meta(ge=1, le=1000)] = 1
    in_sync_replicas: Annotated[int, Meta(ge=1, le=1000)] = 1
    enable_auto_in_sync_replicas: bool = False  # without controllers: fewer, if fewer are in sync
    total_replicas: Annotated[int, Meta(ge=1, le=1000)] = 1
    slave_read_enable: bool = False
    access_message_in_memory_max_ratio: Share = 40  # % of memory; what lies deeper slaves give
    slave_timeout: Millis = 3000  # ms that a send waits for replicas
    async_learner: bool = False
    sync_from_last_file: bool = False
    check_sync_state_set_period: Millis = 5000  # ms
    ha_max_time_slave_not_catchup: Millis = 15_000  # ms
    ha_send_heartbeat_interval: Millis = 5000  # ms
    ha_housekeeping_interval: Millis = 20_000  # ms
    enable_slave_acting_master: bool = False
    skip_pre_online: bool = False  # of enableSlaveActingMaster: be listed from the start on
    enable_remote_escape: bool = False  # an acting slave delivers and settles at other groups
    load_balance_poll_name_server_interval: Millis = 30_000  # ms that it keeps their routes
    recall_message_enable: bool = False  # whether an acting slave says 11, not 16, to 370
    broker_not_active_timeout_millis: Millis = 10_000  # ms until a silent broker is evicted
    send_heartbeat_timeout_millis: Millis = 1000  # ms
    compatible_with_old_name_srv: bool = True  # heartbeats as 322, the group by a route
    # Commits, and steps of delay levels, after which the version of the table goes on.
    consumer_offset_update_version_step: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 500
    delay_offset_update_version_step: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 200
    ha_master_address: str = ""  # ip:port of the HA port; empty: as the name servers say
    ha_max_gap_not_in_sync: Annotated[int, Meta(ge=1, le=2**62)] = 268_435_456  # bytes
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
    # With ASYNC_FLUSH: what is sent waits in the process until it is committed to the file.
    transient_store_pool_enable: bool = False
    commit_interval_commit_log: Millis = 200  # ms
    commit_commit_log_least_pages: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 4  # of 4096 bytes
    commit_commit_log_thorough_interval: Annotated[int, Meta(ge=0, le=86_400_000)] = 200  # ms
    wake_commit_when_put_message: bool = True
    flush_consumer_offset_interval: Millis = 5000  # ms
    flush_delay_offset_interval: Millis = 10_000  # ms
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    transaction_time_out: Millis = 6000  # ms until a half message is asked about
    transaction_check_max: Annotated[int, Meta(ge=1, le=1000)] = 15
    transaction_check_interval: Millis = 30_000  # ms
    long_polling_enable: bool = True
    short_polling_time_mills: Millis = 1000  # ms
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    default_topic_queue_nums: Annotated[int, Meta(ge=1, le=10_000)] = 8
    file_reserved_time: Annotated[int, Meta(ge=1, le=87_600)] = 72  # hours
    delete_when: str = "04"  # hours of the day: 04;16
    disk_max_used_space_ratio: Percent = 75  # beyond this, old files go at any hour
    disk_space_clean_forcibly_ratio: Percent = 85  # beyond this, young files as well
    disk_space_warning_level_ratio: Percent = 90  # beyond this, sends are refused; Java: at most 90
    clean_file_forcibly_enable: bool = True
    # A broker's share of its partition, said in one way or the other; RIP-31 has the second, and no
    # release of RocketMQ. Below 1 the broker keeps to it, and lets no other's use delete its files.
    replicas_per_disk_partition: Annotated[int, Meta(ge=1, le=1000)] = 1
    quota_percent_for_disk_partition: Part = 1.0
    logical_disk_space_clean_forcibly_threshold: Part = 0.8  # of the share; beyond it, young files
    delete_file_batch_max: Annotated[int, Meta(ge=1, le=1000)] = 10
    clean_resource_interval: Millis = 10_000  # ms
    broker_permission: Annotated[int, Meta(ge=0, le=7)] = 6
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    isolate_log_enable: bool = False  # the log is a file of its own
    lock_in_strict_mode: bool = False  # locks of ordered queues need totalReplicas/2+1 brokers
    sync_broker_member_group_period: Millis = 1000  # ms; of strict locks, and of acting masters
    # How long a lock holds. In Java this is a system property (-D on its command line) and no key
    # of the file, where Java ignores it; here it is a line of the file under the property's name.
    lock_max_live_time: Millis = field(
        name="rocketmq.broker.rebalance.lockMaxLiveTime", default=60_000
    )  # ms

    def delay_levels(self) -> tuple[int, ...]:
        """Read ``messageDelayLevel`` into the delay of level 1, 2, ... in ms.

        Raises:
            ConfigError: it has another form.
        """
        found = [_DELAY.fullmatch(part) for part in self.message_delay_level.split()]
        levels = tuple(int(m[1]) * _DELAY_UNIT_MS[m[2]] for m in found if m)
        if not 0 < len(levels) == len(found) <= DELAY_LEVELS_MAX:
            raise ConfigError(f"messageDelayLevel: not 1 to {DELAY_LEVELS_MAX} of 1s 5m 2h 1d")
        return levels

    def delete_hours(self) -> frozenset[int]:
        """Read ``deleteWhen`` into the hours of the day.

        Raises:
            ConfigError: one is none.
        """
        parts = [part.strip() for part in self.delete_when.split(";") if part.strip()]
        wrong = [part for part in parts if not _HOUR.fullmatch(part)]
        if wrong or not parts:
            raise ConfigError(f"deleteWhen: not hours of the day, 04;16: {', '.join(wrong)}")
        return frozenset(map(int, parts))

    @property
    def disk_share(self) -> float:
        """The part of its partition that this broker keeps to; 1: all of it."""
        count = self.replicas_per_disk_partition
        return self.quota_percent_for_disk_partition if count == 1 else 1 / count

    @property
    def pools(self) -> bool:
        """Whether there is a transient store pool. RocketMQ 5 has one with SYNC_FLUSH as well, and
        answers once it is committed and synced: what is acknowledged is as safe as without."""
        return self.transient_store_pool_enable and self.flush_disk_type == "ASYNC_FLUSH"

    @property
    def commit_log_path(self) -> str:
        return self.store_path_commit_log or f"{self.store_path_root_dir}/commitlog"

    @property
    def identity_path(self) -> str:
        return self.store_path_broker_identity or f"{self.store_path_root_dir}/brokerIdentity"

    @property
    def epoch_path(self) -> str:
        return self.store_path_epoch_file or f"{self.store_path_root_dir}/epochFileCheckpoint"


class ContainerConfig(NodeConfig, frozen=True, kw_only=True, rename="camel"):
    """Settings of a broker container (RIP-31); those of its brokers are in files of their own."""

    listen_port: Annotated[int, Meta(ge=3, le=65535)] = 10811  # P-2 is a port as well
    namesrv_addr: str = ""  # ip:port;ip:port, of all its brokers
    broker_config_paths: str = ""  # file:file
    config_black_list: str = "configBlackList;brokerConfigPaths"  # key;key that no request changes


C = TypeVar("C", bound=NodeConfig)
ROLES: dict[str, type[NodeConfig]] = {
    "namesrv": NamesrvConfig,
    "controller": ControllerConfig,
    "broker": BrokerConfig,
    "container": ContainerConfig,
}


def keys_used(role: str) -> frozenset[str]:
    """The keys that a node of a role uses."""
    return frozenset(f.encode_name for f in msgspec.structs.fields(ROLES[role]))


def keys_known(role: str) -> frozenset[str]:
    """The keys that a file of a role may have: ours, and those of every release of RocketMQ 5."""
    return keys_used(role) | java_keys.keys_of(role).keys()


def _of_java(kind: type[NodeConfig]) -> frozenset[str]:
    return keys_known(next(role for role, of in ROLES.items() if of is kind))


def parse_config(
    kind: type[C], content: bytes, file: str, *, beside: type[NodeConfig] | None = None
) -> tuple[C, list[str]]:
    """Read a properties file, line by line; `maxq.reference.node_file` judges the whole of it.

    Args:
        kind: the role's record.
        content: the file's bytes.
        file: its name, for messages.
        beside: the record of another node of the same process; keys that only it knows are passed
            over here.

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
    theirs = set() if beside is None else {f.encode_name for f in msgspec.structs.fields(beside)}
    elsewhere = _of_java(beside) if beside is not None else frozenset[str]()
    values: dict[str, str] = {}
    warnings: dict[str, str] = {}  # by key: one each, however often it is repeated
    for entry in entries:
        key, where = entry.key, f"{file}:{entry.line}"
        if key in ours:
            values[key] = entry.value
            _check(kind, ours[key], entry.value, where)
        elif key in theirs:
            continue
        elif key in _of_java(kind):
            warnings[key] = f"{where}: {key} is used by the Java system only; ignored"
        elif key not in elsewhere:
            near = difflib.get_close_matches(key, sorted(_of_java(kind)), n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise ConfigError(f"{where}: unknown key {key}{hint}")
    return msgspec.convert(values, kind, strict=False), list(warnings.values())


def _check(
    kind: type[NodeConfig], field: msgspec.structs.FieldInfo, value: str, where: str
) -> None:
    """Refuse a value by file and line."""
    key = field.encode_name
    try:
        msgspec.convert({key: value}, kind, strict=False)
        reason = _fault(key, value)
    except msgspec.ValidationError as error:
        reason = _in_words(field, value, str(error).rpartition(" - at ")[0])
    if reason is not None:
        raise ConfigError(f"{where}: {key}={value}: {reason}")


def _in_words(field: msgspec.structs.FieldInfo, value: str, reason: str) -> str:
    """What is wrong with a value's type or range."""
    if (bound := _BOUND.fullmatch(reason)) is not None:
        return f"not {_BOUNDS[bound[1]]} {bound[2]}"
    choices = {"boolean": ("true", "false")}.get(_TYPES.get(field.type, ""), get_args(field.type))
    words = [str(choice) for choice in choices if isinstance(choice, str)]
    return type_fault(_TYPES.get(field.type, "int"), words, value)


def type_fault(type_: str, choices: Sequence[str], value: str) -> str:
    """What a value that its key does not take is not, in words; empty where it is fit.

    Args:
        type_: of RocketMQ's key: int, long, double, boolean or string.
        choices: the values that there are, of an enum; empty: any.
        value: what a file has.
    """
    given = value.strip()
    if type_ == "boolean":
        choices, fit = ("true", "false"), given.lower() in ("true", "false")
    elif choices:
        fit = given in choices
    else:
        form = _FORMS.get(type_)
        fit = form is None or form[0].fullmatch(given) is not None
    if fit:
        return ""
    note = " (a line has no comment after its value)" if "#" in given else ""
    if not choices:
        return f"not {_FORMS[type_][1]}{note}"
    near = difflib.get_close_matches(given.partition("#")[0].strip(), choices, n=1)
    hint = f", did you mean {near[0]}?" if near else ""
    return f"not one of {', '.join(choices)}{hint}{note}"


def _fault(key: str, value: str) -> str | None:
    """What is wrong with a value of the right type; None if nothing."""
    match key:
        case "brokerClusterName" | "brokerName":
            return broker_name_fault(value)
        case "brokerIP1" | "brokerIP2":
            try:
                IPv4Address(value or "0.0.0.0")
            except AddressValueError:
                return "not an IPv4 address"
        case "haMasterAddress" if value and not _is_address(value):
            return "not host:port"
        case "namesrvAddr" | "controllerAddr":
            wrong = [a for a in value.split(";") if a and not _is_address(a)]
            if wrong:
                return f"not host:port;host:port: {', '.join(wrong)}"
        case "controllerDLegerPeers" | "messageDelayLevel" | "deleteWhen":
            try:
                if key == "deleteWhen":
                    BrokerConfig(delete_when=value).delete_hours()
                elif key == "messageDelayLevel":
                    BrokerConfig(message_delay_level=value).delay_levels()
                else:
                    ControllerConfig(controller_dleger_peers=value).raft_addresses()
            except ConfigError as error:
                return str(error).partition(": ")[2]
    return None


def _next_port(address: str) -> str:
    host, _, port = address.rpartition(":")
    if int(port) > 65534:
        raise ConfigError(f"controllerDLegerPeers: Raft's port would be {int(port) + 1}: {address}")
    return f"{host}:{int(port) + 1}"


def _is_address(text: str) -> bool:
    try:
        return split_address(text)[1] > 0
    except ValueError:
        return False


def render_config(config: NodeConfig) -> str:
    """Write settings as properties text, as the GET_…_CONFIG requests answer them."""
    plain = msgspec.to_builtins(config)
    return "".join(f"{key}={_text(value)}\n" for key, value in sorted(plain.items()))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
