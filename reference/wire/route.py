"""What brokers register with the name server and what it answers: topics, addresses, routes.

Key 0 of `broker_addrs` is the master, in controller mode too; other keys are controller-assigned
broker ids. Times are milliseconds of the writer's clock. Source: docs/spec/remoting.md 3.1 and 4.1;
RocketMQ ``TopicRouteData``, ``RegisterBrokerBody``; captures of 103, 105, 106 and 21.
"""

import zlib

from maxq.reference.wire.body import Body

MASTER_ID = 0
PERM_INHERIT, PERM_WRITE, PERM_READ, PERM_PRIORITY = 1, 2, 4, 8


class DataVersion(Body):
    """Version of a table. Equal in all three means unchanged."""

    counter: int = 0
    state_version: int = 0  # controller epoch
    timestamp: int = 0

    def order(self) -> tuple[int, int, int]:
        """Give what RocketMQ compares, most significant first."""
        return (self.state_version, self.counter, self.timestamp)


class TopicConfig(Body, kw_only=True):
    """One topic of a broker."""

    attributes: dict[str, str] = {}
    order: bool = False
    perm: int = 6
    read_queue_nums: int = 16
    topic_filter_type: str = "SINGLE_TAG"
    topic_name: str
    topic_sys_flag: int = 0
    write_queue_nums: int = 16


class TopicConfigSerializeWrapper(Body):
    """The topic table: part of a registration, and the whole answer to 21."""

    data_version: DataVersion = DataVersion()
    mapping_data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}
    topic_queue_mapping_detail_map: dict[str, object] = {}
    topic_queue_mapping_info_map: dict[str, object] = {}


class RegisterBrokerBody(Body):
    """Body of 103."""

    filter_server_list: tuple[str, ...] = ()
    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = TopicConfigSerializeWrapper()

    @property
    def topics(self) -> dict[str, TopicConfig]:
        return self.topic_config_serialize_wrapper.topic_config_table

    @property
    def data_version(self) -> DataVersion:
        return self.topic_config_serialize_wrapper.data_version


def body_crc32(body: bytes) -> int:
    """Compute the ``bodyCrc32`` of a registration."""
    return zlib.crc32(body) & 0x7FFFFFFF


class BrokerData(Body, kw_only=True):
    """The addresses of one broker name."""

    broker_addrs: dict[int, str] = {}
    broker_name: str
    cluster: str | None = None
    enable_acting_master: bool = False
    zone_name: str | None = None


class QueueData(Body):
    """The queues of a topic on one broker name."""

    broker_name: str
    perm: int = 0
    read_queue_nums: int = 0
    topic_sys_flag: int = 0
    write_queue_nums: int = 0


class TopicRouteData(Body):
    """Answer to 105."""

    broker_datas: tuple[BrokerData, ...] = ()
    filter_server_table: dict[str, tuple[str, ...]] = {}
    order_topic_conf: str | None = None
    queue_datas: tuple[QueueData, ...] = ()
    topic_queue_mapping_by_broker: dict[str, object] | None = None


class ClusterInfo(Body):
    """Answer to 106."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, tuple[str, ...]] = {}


class BrokerMemberGroup(Body):
    """All brokers of one name; a controller lists every registered one, alive or not."""

    broker_addrs: dict[int, str] = {}
    broker_name: str | None = None
    cluster: str | None = None


class MemberGroupBody(Body):
    """Answer to 901."""

    broker_member_group: BrokerMemberGroup | None = None


class KVTable(Body):
    """A table of texts: answers to 28, 103 and 219."""

    table: dict[str, str] = {}


class TopicList(Body):
    """Answer to 206, 224, 304 and 305."""

    broker_addr: str | None = None
    topic_list: tuple[str, ...] = ()
