"""Typed headers of brokers, controllers, name servers and administrators.

Same mechanism and rules as `maxq.reference.wire.headers`, which holds those of producers and
consumers. A request or answer that is not here has no header, or none that the reference needs:
1005's, 1006's and 1007's requests, for instance. Optional master fields are absent when there is no
master; ``invoke_time`` appeared in 5.2.0.

Times are milliseconds of the sender's clock. Source: RocketMQ 5.1.1 to 5.5.0, one record for each
header class; captures of all three lines.
"""

import msgspec

from maxq.reference.wire.headers import Header, Int32, Int64

# --- topics and groups on a broker ---------------------------------------------------------------


class TopicRequest(Header):
    """105, 202, 215, 216, 351 and others that name just a topic."""

    topic: str
    accept_standard_json_only: bool | None = None  # 105
    cluster_name: str | None = None  # 216
    lo: bool | None = None  # 351
    bname: str | None = None


class CreateTopicRequest(Header):
    """17. `attributes` is ``+key=value,-key`` text; `perm` 2 write, 4 read, 6 both."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None


class AllTopicConfigRequest(Header):
    """21 from 5.4.0 on; all absent means everything."""

    topic_seq: Int32 | None = None
    data_version: str | None = None
    max_topic_num: Int32 | None = None


class AllTopicConfigResponse(Header):
    """Answer to 21."""

    total_topic_num: Int32 | None = None


class AllGroupConfigRequest(Header):
    """201 from 5.4.0 on; all absent means everything."""

    group_seq: Int32 | None = None
    data_version: str | None = None
    max_group_num: Int32 | None = None


class AllGroupConfigResponse(Header):
    """Answer to 201."""

    total_group_num: Int32 | None = None


class ConsumerClientRequest(Header):
    """307, to a broker and from it to the client."""

    consumer_group: str
    client_id: str = msgspec.field(name="clientId")  # clientID in 35
    jstack_enable: bool | None = None


class GroupRequest(Header):
    """352."""

    group: str


class DeleteGroupRequest(Header):
    """207."""

    group_name: str
    clean_offset: bool | None = None


class ResetOffsetRequest(Header):
    """222, and 220 to consumers. `timestamp` -1: the end; without `is_force` only backwards."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = True
    queue_id: Int32 | None = None
    offset: Int64 | None = None


class ProducerGroupRequest(Header):
    """204."""

    producer_group: str


class BrokerConfigResponse(Header):
    """Answer to 26. `version` is a DataVersion as JSON text."""

    version: str


# --- broker container ----------------------------------------------------------------------------


class AddBrokerRequest(Header):
    """902. A path on the container's machine."""

    config_path: str | None = None


class RemoveBrokerRequest(Header):
    """903."""

    broker_cluster_name: str
    broker_name: str
    broker_id: Int64


# --- name server ---------------------------------------------------------------------------------


class RegisterBrokerRequest(Header):
    """103. `broker_id` 0 is the master; `body_crc32` 0 means unchecked."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = 0
    zone_name: str | None = None


class RegisterBrokerResponse(Header):
    """Answer to 103; empty where there is no master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class HaInfo(Header):
    """906 and its answer. A request without an address asks; only a master's answer has any."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None  # end of the log when the master began
    master_address: str | None = None


class BrokerRequest(Header):
    """104 and 322."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class DataVersionResponse(Header):
    """Answer to 322."""

    changed: bool


class MemberGroupRequest(Header):
    """901."""

    cluster_name: str
    broker_name: str


class ClusterRequest(Header):
    """224."""

    cluster: str


class PermRequest(Header):
    """205 and 327."""

    broker_name: str


class WipePermResponse(Header):
    """Answer to 205."""

    wipe_topic_count: Int32


class AddPermResponse(Header):
    """Answer to 327."""

    add_topic_count: Int32


class KvRequest(Header):
    """100, 101, 102 and 219. `value` belongs to 100, `key` to all but 219."""

    namespace: str
    key: str | None = None
    value: str | None = None


class KvResponse(Header):
    """Answer to 101."""

    value: str | None = None


class MinBrokerIdChange(Header):
    """905, name server to brokers."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


# --- controller ----------------------------------------------------------------------------------


class BrokerHeartbeat(Header):
    """904. `epoch` is the last one in the broker's epoch file, -1 if none. `incarnation`, which
    RocketMQ has not, names one run of a broker process."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None  # RocketMQ's own spelling
    election_priority: Int32 | None = None
    incarnation: str | None = None


class AlterSyncStateSetRequest(Header):
    """1001; the wanted set and the caller's SyncStateSet epoch are in the body."""

    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32
    invoke_time: Int64 | None = None


class AlterSyncStateSetResponse(Header):
    """Answer to 1001; 0 on an error."""

    new_sync_state_set_epoch: Int32 = 0


class ElectMasterRequest(Header):
    """1002. `broker_id` -1 asks for any broker."""

    cluster_name: str = ""
    broker_name: str = ""
    broker_id: Int64 | None = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


class MasterResponse(Header):
    """Answer to 1002: the master, also with code 2011."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class RegisterToControllerRequest(Header):
    """1003. `incarnation`: as in 904."""

    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64 | None = None
    incarnation: str | None = None


class RegisterToControllerResponse(Header):
    """Answer to 1003; the four of the master only where it lives. `epoch_before` is Max-Q's own:
    the set's master epoch when this broker registered."""

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    epoch_before: Int32 | None = None


class ReplicaInfoRequest(Header):
    """1004."""

    broker_name: str


class ReplicaInfoResponse(Header):
    """Answer to 1004."""

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class MetadataResponse(Header):
    """Answer to 1005. `peers` is ``id:host:port;`` for each controller."""

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool = False
    peers: str | None = None


class RoleChanged(Header):
    """1008, controller to broker; the SyncStateSet is in the body."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class CleanBrokerDataRequest(Header):
    """1011. Ids joined by ``;``; blank means the whole set."""

    broker_name: str
    cluster_name: str | None = None
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None


class NextBrokerIdRequest(Header):
    """1012."""

    cluster_name: str
    broker_name: str


class NextBrokerIdResponse(Header):
    """Answer to 1012."""

    next_broker_id: Int64
    cluster_name: str | None = None
    broker_name: str | None = None


class ApplyBrokerIdRequest(Header):
    """1013. `register_check_code` is ``address;millis``."""

    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str


class ApplyBrokerIdResponse(Header):
    """Answer to 1013."""

    cluster_name: str | None = None
    broker_name: str | None = None
