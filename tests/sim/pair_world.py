"""A simulated group without controllers, for the tests of who acts and who returns."""

from reference_world import (
    BROKER_CONF,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    Process,
    create_topic,
    ext,
)

from maxq.reference.wire.bodies import ConsumerData, HeartbeatBody
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.headers import QueryConsumerOffsetRequest, UpdateConsumerOffsetRequest
from maxq.reference.wire.route import MemberGroupBody, TopicRouteData

SLAVE, THIRD = "198.18.0.64:10911", "198.18.0.80:10911"
GROUP = {
    **BROKER_CONF, "totalReplicas": "3", "inSyncReplicas": "2", "slaveTimeout": "1500",
    "slaveReadEnable": "true", "enableSlaveActingMaster": "true",
    "brokerNotActiveTimeoutMillis": "3000", "registerNameServerPeriod": "10000",
}  # fmt: skip
MASTER_CONF = {**GROUP, "brokerRole": "SYNC_MASTER", "brokerId": "0"}
NAMESRV_ACTING = {**NAMESRV_CONF, "supportActingMaster": "true"}


class Group(Cluster):
    """A master and two slaves, whose logs are equal."""

    def __init__(self, *, old: bool, push: bool) -> None:
        super().__init__()
        self.more = {"compatibleWithOldNameSrv": str(old).lower()}
        pushes = {"notifyMinBrokerIdChanged": str(push).lower()}
        self.namesrv = self.up("namesrv", "namesrv", {**NAMESRV_ACTING, **pushes})
        self.brokers: dict[str, Process] = {}
        self.start_broker("b1", 0)
        create_topic(self)
        for name, number in (("b2", 1), ("b3", 2)):
            self.start_broker(name, number)
        self.until(lambda: self.brokers["b1"].node.membership.in_sync_count == 3)
        self.until(lambda: not any(p.node.membership.isolated for p in self.brokers.values()))

    def start_broker(self, name: str, number: int) -> None:
        role = {} if number == 0 else {"brokerRole": "SLAVE", "brokerId": str(number)}
        self.brokers[name] = self.up(name, "broker", {**MASTER_CONF, **self.more, **role})

    def acting(self) -> list[str]:
        live = {n: p for n, p in self.brokers.items() if p.healthy}
        return [n for n, p in live.items() if p.node.membership.acts]

    def shown(self) -> dict[str, str]:
        """Who a name server shows to clients."""
        answer = self.ask(NAMESRV, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
        [data] = TopicRouteData.from_json(answer.body).broker_datas
        return {str(i): a for i, a in data.broker_addrs.items()}

    def listed(self) -> dict[int, str]:
        """Who is in the group, as the name server says."""
        asked = {"clusterName": "c", "brokerName": "b"}
        answer = self.ask(NAMESRV, RequestCode.GET_BROKER_MEMBER_GROUP, asked)
        found = MemberGroupBody.from_json(answer.body).broker_member_group
        return dict(found.broker_addrs) if found else {}

    def commit(self, address: str, offset: int, *, group: str = "g") -> int:
        """Commit an offset of queue 0; the answer's code."""
        header = UpdateConsumerOffsetRequest(
            consumer_group=group, topic="T", queue_id=0, commit_offset=offset
        )
        return self.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header).code

    def committed(self, address: str, *, group: str = "g") -> int | None:
        """The offset of queue 0; None where the answer is another than that."""
        header = QueryConsumerOffsetRequest(
            consumer_group=group, topic="T", queue_id=0, set_zero_if_not_found=False
        )
        answer = self.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header)
        return int(ext(answer)["offset"]) if answer.code == 0 else None

    def know_group(self, address: str, *, group: str = "g") -> None:
        """Have a broker know a consumer group."""
        consumer = ConsumerData(group_name=group)
        body = HeartbeatBody(client_id="c", consumer_data_set=(consumer,)).to_json()
        assert self.ask(address, RequestCode.HEART_BEAT, body=body).code == 0
