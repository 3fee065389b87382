"""JSON bodies of controllers, brokers and clients; those about topics and routes are in `route`.

SyncStateSets are tuples of broker ids: a set on the wire, written ascending by Java and by us.
Offsets are message indices in consumer bodies, bytes of the commit log in epoch and HA bodies.
Source: docs/spec/remoting.md 2.8 to 2.17 and 8; captures of all three lines.
"""

import msgspec

from maxq.reference.records import RemoteProtocolError
from maxq.reference.wire import lenient_json
from maxq.reference.wire.body import Body, without_nulls
from maxq.reference.wire.route import BrokerMemberGroup, DataVersion, TopicConfig

OFFSET_MAX = 2**63 - 1  # the end of an epoch that is still open

# --- controller ----------------------------------------------------------------------------------


class SyncStateSet(Body):
    """Body of 1001 both ways, 1003, 1004 and 1008."""

    sync_state_set: tuple[int, ...] = ()
    sync_state_set_epoch: int = 0


class ElectMasterBody(Body):
    """Answer to 1002. With code 2011 there is no member group."""

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: tuple[int, ...] = ()


class ReplicaIdentity(Body):
    """One replica as the controller knows it."""

    alive: bool = False
    broker_address: str | None = None
    broker_id: int = 0
    broker_name: str | None = None


class ReplicasInfo(Body):
    """One broker set as the controller knows it."""

    in_sync_replicas: tuple[ReplicaIdentity, ...] = ()
    master_address: str | None = None
    master_broker_id: int | None = None
    master_epoch: int = 0
    not_in_sync_replicas: tuple[ReplicaIdentity, ...] = ()
    sync_state_set_epoch: int = 0


class BrokerReplicasInfo(Body):
    """Answer to 1006."""

    replicas_info_table: dict[str, ReplicasInfo] = {}


class InSyncMember(Body):
    """A member of a SyncStateSet, as 5.0.0 names it."""

    address: str = ""


class InSyncStateSet(Body):
    """One broker set as a controller of 5.0.0 knows it."""

    in_sync_members: tuple[InSyncMember, ...] = ()
    master_address: str | None = None
    master_epoch: int = 0
    sync_state_set_epoch: int = 0


class InSyncStateData(Body):
    """Answer of 5.0.0 to 1006, under other names than later ones."""

    in_sync_state_table: dict[str, InSyncStateSet] = {}

    def later(self) -> dict[str, ReplicasInfo]:
        """The same as later releases would say it."""
        return {
            name: ReplicasInfo(
                in_sync_replicas=tuple(
                    ReplicaIdentity(broker_name=name, broker_address=m.address)
                    for m in known.in_sync_members
                ),
                master_address=known.master_address,
                master_epoch=known.master_epoch,
                sync_state_set_epoch=known.sync_state_set_epoch,
            )
            for name, known in self.in_sync_state_table.items()
        }


def broker_names(data: bytes | None) -> list[str]:
    """Read the request body of 1006: an array of broker names.

    Raises:
        RemoteProtocolError: it is no array of strings.
    """
    try:
        return msgspec.convert(lenient_json.loads(data or b"[]"), list[str])
    except msgspec.ValidationError as error:
        raise RemoteProtocolError(f"not a list of broker names: {error}") from None


class EpochEntry(Body):
    """One master epoch of a log; `end_offset` is exclusive."""

    end_offset: int = OFFSET_MAX
    epoch: int = 0
    start_offset: int = 0


class EpochEntryCache(Body):
    """Answer to 1007. `broker_id` is the role id, 0 on a master."""

    broker_id: int = 0
    broker_name: str | None = None
    cluster_name: str | None = None
    epoch_list: tuple[EpochEntry, ...] = ()
    max_offset: int = 0


# --- state of the HA connections -----------------------------------------------------------------


class HaClientInfo(Body):
    """A slave's connection to its master; zeros on a master."""

    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_addr: str | None = None
    master_flush_offset: int = 0
    max_offset: int = 0
    transferred_byte_in_second: int = 0


class HaConnectionInfo(Body):
    """One slave's connection as its master sees it."""

    addr: str | None = None
    diff: int = 0
    in_sync: bool = False
    slave_ack_offset: int = 0
    transfer_from_where: int = 0
    transferred_byte_in_second: int = 0


class HaRuntimeInfo(Body):
    """Answer to 907. `in_sync_slave_nums` does not count the master."""

    ha_client_runtime_info: HaClientInfo | None = None
    ha_connection_info: tuple[HaConnectionInfo, ...] = ()
    in_sync_slave_nums: int = 0
    master: bool = False
    master_commit_log_max_offset: int = 0


# --- clients -------------------------------------------------------------------------------------


class ProducerData(Body):
    """A producer group of a client."""

    group_name: str


class SubscriptionData(Body):
    """What a consumer wants of a topic; `code_set` holds Java hash codes of the tags."""

    class_filter_mode: bool = False
    code_set: tuple[int, ...] = ()
    expression_type: str = "TAG"
    sub_string: str | None = None
    sub_version: int = 0
    tags_set: tuple[str, ...] = ()
    topic: str | None = None


class ConsumerData(Body):
    """A consumer group of a client."""

    consume_from_where: str | None = None
    consume_type: str | None = None
    group_name: str | None = None
    message_model: str | None = None
    subscription_data_set: tuple[SubscriptionData, ...] = ()
    unit_mode: bool = False


class HeartbeatBody(Body):
    """Body of 34. 5.1.1 knows neither `heartbeat_fingerprint` nor `without_sub`."""

    client_id: str = msgspec.field(default="", name="clientID")
    consumer_data_set: tuple[ConsumerData, ...] = ()
    heartbeat_fingerprint: int | None = None
    producer_data_set: tuple[ProducerData, ...] = ()
    without_sub: bool | None = None


class ConsumerList(Body):
    """Answer to 38."""

    consumer_id_list: tuple[str, ...] = ()


class ClientConnection(Body):
    """One connected client in the answers to 203 and 204."""

    client_addr: str | None = None
    client_id: str | None = None
    language: str | None = None
    version: int = 0


class ConsumerConnections(Body):
    """Answer to 203; a group's settings are those of its newest heartbeat."""

    connection_set: tuple[ClientConnection, ...] = ()
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_table: dict[str, SubscriptionData] = {}


class ProducerConnections(Body):
    """Answer to 204."""

    connection_set: tuple[ClientConnection, ...] = ()


class MessageQueue(Body):
    """One queue of a topic on one broker name."""

    broker_name: str
    queue_id: int
    topic: str

    @classmethod
    def from_key(cls, key: str) -> "MessageQueue":
        """Read a queue that was a map key.

        Raises:
            RemoteProtocolError: it is none.
        """
        return cls.from_json(key.encode(errors="replace"))

    def key(self) -> str:
        """Write the queue as a map key."""
        return self.to_json().decode()


class LockRequest(Body):
    """Body of 41 and 42."""

    client_id: str | None = None
    consumer_group: str | None = None
    mq_set: tuple[MessageQueue, ...] = ()
    only_this_broker: bool = False


class LockResponse(Body):
    """Answer to 41."""

    lock_ok_mq_set: tuple[MessageQueue, ...] = msgspec.field(default=(), name="lockOKMQSet")


class TopicOffset(Body):
    """Bounds of one queue."""

    last_update_timestamp: int = 0
    max_offset: int = 0
    min_offset: int = 0


class TopicStats(Body):
    """Answer to 202. Keys are queues as `MessageQueue.key` writes them."""

    offset_table: dict[str, TopicOffset] = {}
    topic_put_tps: float | None = None  # 5.2.0 and later

    def to_json(self) -> bytes:
        """Write JSON with queues as keys, which is none."""
        return _with_queue_keys(self)


class OffsetWrapper(Body):
    """How far a group is in one queue."""

    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0
    pull_offset: int = 0


class ConsumeStats(Body):
    """Answer to 208. Keys are queues as `MessageQueue.key` writes them."""

    consume_tps: float = 0.0
    offset_table: dict[str, OffsetWrapper] = {}

    def to_json(self) -> bytes:
        """Write JSON with queues as keys, which is none."""
        return _with_queue_keys(self)


class ResetOffsets(Body):
    """Answer to 222, and body of 220. Keys are queues as `MessageQueue.key` writes them."""

    offset_table: dict[str, int] = {}

    def to_json(self) -> bytes:
        """Write JSON with queues as keys, which is none."""
        return _with_queue_keys(self)


def _with_queue_keys(body: Body) -> bytes:
    plain = msgspec.to_builtins(body, str_keys=True)
    return lenient_json.dumps_object_keys(without_nulls(plain))


# --- what a slave copies from its master ---------------------------------------------------------


class ConsumerOffsets(Body):
    """Answer to 43, and the file consumerOffset.json. Keys are ``topic@group``, then queue ids.

    Slaves of 5.5.0 drop the whole body for a `pull_offset_table` with bare keys; we quote them.
    """

    data_version: DataVersion = DataVersion()
    group_topic_map: dict[str, tuple[str, ...]] | None = None
    offset_table: dict[str, dict[int, int]] = {}
    pull_offset_table: dict[str, dict[int, int]] | None = None


class DelayOffsets(Body):
    """Answer to 45, and the file delayOffset.json. Keys are delay levels."""

    data_version: DataVersion = DataVersion()
    offset_table: dict[int, int] = {}


class SubscriptionGroupConfig(Body):
    """Body of 200, answer to 352."""

    attributes: dict[str, str] | None = None  # not in 5.1.1
    broker_id: int = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_message_orderly: bool = False
    consume_timeout_minute: int = 15
    group_name: str | None = None
    group_retry_policy: dict[str, object] = msgspec.field(
        default_factory=lambda: {"type": "CUSTOMIZED"}
    )
    group_sys_flag: int = 0
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: int = 16
    retry_queue_nums: int = 1
    subscription_data_set: tuple[dict[str, object], ...] | None = None
    which_broker_when_consume_slowly: int = 1


class SubscriptionGroupList(Body):
    """Body of 225."""

    group_config_list: tuple[SubscriptionGroupConfig, ...] = ()


class GroupList(Body):
    """Answer to 300."""

    group_list: tuple[str, ...] = ()


class SubscriptionGroups(Body):
    """Answer to 201, and the file subscriptionGroup.json."""

    data_version: DataVersion = DataVersion()
    forbidden_table: dict[str, dict[str, int]] = {}
    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}


class MessageRequestModes(Body):
    """Answer to 402: topic, then group, then its mode."""

    message_request_mode_map: dict[str, dict[str, dict[str, object]]] = {}


class TimerMetrics(Body):
    """Answer to 61."""

    data_version: DataVersion = DataVersion()
    timing_count: dict[str, dict[str, object]] = {}


class TopicConfigList(Body):
    """Body of 18."""

    topic_config_list: tuple[TopicConfig, ...] = ()
