"""What the client of a capture asks: of one topic, one group of consumers, one of producers."""

import time
from collections.abc import Iterable, Sequence

from benchmarks.captures.scene import Scene
from maxq.harness.client.session import QueueName, pull_of
from maxq.harness.contracts.environment import Role
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import (
    HeartbeatBody,
    LockRequest,
    MessageQueue,
    ProducerData,
    SubscriptionGroupConfig,
)
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import (
    EndTransactionRequest,
    MaxOffsetRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    QueueRequest,
    SearchOffsetRequest,
    SendBackRequest,
    SendRequest,
    SendResponse,
    UpdateConsumerOffsetRequest,
    from_ext,
    to_short_ext,
)
from maxq.reference.wire.message import parse_offset_msg_id
from maxq.reference.wire.node_headers import (
    CreateTopicRequest,
    MemberGroupRequest,
    ResetOffsetRequest,
    TopicRequest,
)

TOPIC, QUEUES = "T1", 4
GROUP, PRODUCER = "g1", "tpg"
HALF_QUEUE = 1
PREPARED, COMMIT = 4, 8


async def make_topic(scene: Scene, master: str) -> None:
    """Make the topic and the group of consumers at a master."""
    topic = CreateTopicRequest(
        topic=TOPIC,
        default_topic="TBW102",
        read_queue_nums=QUEUES,
        write_queue_nums=QUEUES,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    await scene.ask(master, RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
    group = SubscriptionGroupConfig(group_name=GROUP).to_json()
    await scene.ask(master, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group)


async def send(
    scene: Scene,
    node: str,
    body: bytes,
    *,
    queue: int = 0,
    more: dict[str, str] | None = None,
    sys_flag: int = 0,
    producer: str = "pg",
) -> Frame | None:
    """Send a message to a broker, which says what it makes of it."""
    header = SendRequest(
        topic=TOPIC,
        producer_group=producer,
        default_topic="TBW102",
        default_topic_queue_nums=QUEUES,
        queue_id=queue,
        sys_flag=sys_flag,
        born_timestamp=int(time.time() * 1000),
        flag=0,
        properties=props.encode({props.WAIT: "true", **(more or {})}).decode(),
    )
    return await scene.ask(node, RequestCode.SEND_MESSAGE_V2, ext=to_short_ext(header), body=body)


async def send_delayed(scene: Scene, node: str, body: bytes, *, level: int) -> None:
    """Send a message that is due after a level's delay."""
    await send(scene, node, body, more={props.DELAY: str(level)})


async def produces(scene: Scene, node: str) -> None:
    """Tell a broker that the client is a producer of transactions, who can be asked."""
    body = HeartbeatBody(
        client_id="captures", producer_data_set=(ProducerData(group_name=PRODUCER),)
    )
    await scene.ask(node, RequestCode.HEART_BEAT, body=body.to_json())


async def send_half(scene: Scene, node: str, body: bytes) -> SendResponse | None:
    """Send a half message; where it is."""
    key = f"{time.time_ns():032X}"
    more = {props.TRAN_MSG: "true", props.PGROUP: PRODUCER, props.UNIQ_KEY: key}
    answer = await send(
        scene, node, body, queue=HALF_QUEUE, more=more, sys_flag=PREPARED, producer=PRODUCER
    )
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return None
    return from_ext(SendResponse, answer.ext)


async def end_half(scene: Scene, node: str, half: SendResponse | None) -> None:
    """Commit a half message."""
    if half is None:
        return
    _, byte = parse_offset_msg_id(half.msg_id)
    header = EndTransactionRequest(
        producer_group=PRODUCER,
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=byte,
        commit_or_rollback=COMMIT,
        msg_id=half.transaction_id or half.msg_id,
        transaction_id=half.transaction_id,
        topic=TOPIC,
    )
    await scene.ask(node, RequestCode.END_TRANSACTION, header)


async def answer_question(scene: Scene, node: str) -> None:
    """Commit what a broker has asked about last, if it has."""
    for question in scene.asked_by(node.partition("-")[0])[-1:]:
        header = EndTransactionRequest(
            producer_group=PRODUCER,
            tran_state_table_offset=question.tran_state_table_offset,
            commit_log_offset=question.commit_log_offset,
            commit_or_rollback=COMMIT,
            msg_id=question.msg_id or "",
            from_transaction_check=True,
            transaction_id=question.transaction_id,
            topic=TOPIC,
        )
        await scene.ask(node, RequestCode.END_TRANSACTION, header)


async def pull(scene: Scene, node: str, offset: int) -> None:
    """Pull from a queue. A master of 5.5.0 whose slave was pulled from never comes back."""
    queue = QueueName(TOPIC, node.partition("-")[0], 0)
    request = pull_of(queue, offset, consumer_group=GROUP, count=32)
    await scene.ask(node, RequestCode.PULL_MESSAGE, ext=request.ext)


async def commit(scene: Scene, node: str, offset: int) -> None:
    """Commit an offset of the group."""
    header = UpdateConsumerOffsetRequest(
        topic=TOPIC, consumer_group=GROUP, queue_id=0, commit_offset=offset
    )
    await scene.ask(node, RequestCode.UPDATE_CONSUMER_OFFSET, header)


async def committed(scene: Scene, nodes: Iterable[str]) -> None:
    """Ask brokers for the group's offset."""
    header = QueryConsumerOffsetRequest(topic=TOPIC, consumer_group=GROUP, queue_id=0)
    for node in nodes:
        await scene.ask(node, RequestCode.QUERY_CONSUMER_OFFSET, header)


async def reads(scene: Scene, node: str, queues: Sequence[int] = (0,)) -> None:
    """Ask a broker for the bounds of queues."""
    for queue in queues:
        whole = QueueRequest(topic=TOPIC, queue_id=queue)
        end = MaxOffsetRequest(topic=TOPIC, queue_id=queue)
        search = SearchOffsetRequest(topic=TOPIC, queue_id=queue, timestamp=0)
        await scene.ask(node, RequestCode.GET_MAX_OFFSET, end)
        await scene.ask(node, RequestCode.GET_MIN_OFFSET, whole)
        await scene.ask(node, RequestCode.GET_EARLIEST_MSG_STORETIME, whole)
        await scene.ask(node, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, search)


async def locks(scene: Scene, node: str) -> None:
    """Lock a queue, and unlock it."""
    queue = MessageQueue(broker_name=node.partition("-")[0], queue_id=0, topic=TOPIC)
    body = LockRequest(client_id="captures", consumer_group=GROUP, mq_set=(queue,)).to_json()
    await scene.ask(node, RequestCode.LOCK_BATCH_MQ, body=body)
    await scene.ask(node, RequestCode.UNLOCK_BATCH_MQ, body=body)


async def refusals(scene: Scene, slave: str) -> None:
    """Ask a slave for what only masters do."""
    await send(scene, slave, b"refused")
    end = EndTransactionRequest(
        producer_group=PRODUCER,
        tran_state_table_offset=0,
        commit_log_offset=0,
        commit_or_rollback=COMMIT,
        msg_id="0",
        topic=TOPIC,
    )
    back = SendBackRequest(offset=0, group=GROUP, delay_level=1, origin_topic=TOPIC)
    reset = ResetOffsetRequest(topic=TOPIC, group=GROUP, timestamp=0)
    await scene.ask(slave, RequestCode.END_TRANSACTION, end)
    await scene.ask(slave, RequestCode.CONSUMER_SEND_MSG_BACK, back)
    await scene.ask(slave, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)


async def routes(scene: Scene) -> None:
    """Ask all name servers for members and route of the first set."""
    members = MemberGroupRequest(cluster_name=scene.cluster.settings.cluster, broker_name="b0")
    for namesrv in scene.cluster.by_role(Role.NAMESRV):
        await scene.ask(namesrv.name, RequestCode.GET_BROKER_MEMBER_GROUP, members)
        await scene.ask(namesrv.name, RequestCode.GET_ROUTEINFO_BY_TOPIC, TopicRequest(topic=TOPIC))


async def end_of(scene: Scene, node: str, queue: int) -> int:
    """Where a queue ends, asked by the observer; 0 if nobody says."""
    header = MaxOffsetRequest(topic=TOPIC, queue_id=queue)
    answer = await scene.observe(node, RequestCode.GET_MAX_OFFSET, header)
    if answer is None or answer.code != ResponseCode.SUCCESS:
        return 0
    return from_ext(OffsetResponse, answer.ext).offset
