"""Who is believed: what docs/security.md says of that."""

from reference_world import (
    BROKER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    broker_up,
    create_topic,
)

from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import HaInfo, RegisterBrokerRequest
from maxq.reference.wire.route import (
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicRouteData,
)

SLAVE, STRANGER = "198.18.0.64:10911", "198.18.0.2:6666"


def test_administration_needs_no_name() -> None:
    """A topic goes, and a setting changes, at the word of whoever reaches the port."""
    with Cluster() as cluster:
        process = broker_up(cluster)
        create_topic(cluster)
        changed = cluster.ask(BROKER, RequestCode.UPDATE_BROKER_CONFIG, {}, b"traceOn=false\n")
        deleted = cluster.ask(BROKER, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        assert (changed.code, deleted.code) == (0, 0)
        assert "T" not in process.node._tables.topics


def test_whoever_registers_a_brokers_address_is_believed() -> None:
    """The route of its topics leads there, while the connection lasts."""
    registration = RegisterBrokerRequest(
        broker_name="b", broker_addr=STRANGER, cluster_name="c", ha_server_addr=STRANGER,
        broker_id=0,
    )  # fmt: skip
    table = {name: TopicConfig(topic_name=name) for name in ("T", "U")}
    wrapper = TopicConfigSerializeWrapper(topic_config_table=table)
    body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).to_json()
    frame = Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(registration), body=body)
    asked = Frame(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext={"topic": "T"})

    async def main(pool: Pool) -> None:
        assert (await pool.call(NAMESRV, frame, timeout_s=3)).code == 0
        route = TopicRouteData.from_json((await pool.call(NAMESRV, asked, timeout_s=3)).body)
        assert [data.broker_addrs for data in route.broker_datas] == [{0: STRANGER}]

    with Cluster() as cluster:
        cluster.up("namesrv", "namesrv", NAMESRV_CONF)
        cluster.client(main)


def test_nobody_but_the_controller_names_a_master() -> None:
    """A slave that hears of another master asks the controller, or takes no notice."""
    notice = {
        "masterAddress": STRANGER, "masterBrokerId": "7", "masterEpoch": "99",
        "syncStateSetEpoch": "99",
    }  # fmt: skip
    announced = to_ext(HaInfo(master_ha_address=STRANGER, master_address=STRANGER))
    with Cluster() as cluster:
        cluster.up("namesrv", "namesrv", NAMESRV_CONF)
        cluster.up("controller", "controller", CONTROLLER_CONF)
        master = cluster.up("b1", "broker", JOINED)
        cluster.until(lambda: master.node.membership.role == "master")
        slave = cluster.up("b2", "broker", JOINED)
        cluster.until(lambda: master.node.membership.replication.master.in_sync_count == 2)
        for address in (BROKER, SLAVE):
            cluster.ask(
                address, RequestCode.NOTIFY_BROKER_ROLE_CHANGED, notice,
                b'{"syncStateSet":[7],"syncStateSetEpoch":99}',
            )  # fmt: skip
            cluster.ask(address, RequestCode.EXCHANGE_BROKER_HA_INFO, announced)
        cluster.sleep(3)
        assert (master.node.membership.role, slave.node.membership.role) == ("master", "slave")
        assert slave.node.membership.master_address == BROKER
        assert slave.node.membership.master_ha_address == "198.18.0.48:10912"
