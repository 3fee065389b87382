"""Offsets set back by time (222), over the simulated wire: what members of the group are told."""

import asyncio
import json

from reference_world import BROKER, Cluster, broker_up, create_topic

from maxq.reference.rpc import Connection, Pool
from maxq.reference.wire.bodies import (
    ConsumerData,
    HeartbeatBody,
    MessageQueue,
    SubscriptionGroupConfig,
)
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import UpdateConsumerOffsetRequest, to_ext
from maxq.reference.wire.lenient_json import loads
from maxq.reference.wire.node_headers import ResetOffsetRequest


def reset(timestamp: int, *, is_force: bool = True, topic: str = "T") -> ResetOffsetRequest:
    return ResetOffsetRequest(topic=topic, group="g", timestamp=timestamp, is_force=is_force)


def table(body: bytes | None) -> dict[int, int]:
    """Queue to offset."""
    told = json.loads(json.dumps(loads(body or b"")))["offsetTable"]
    return {MessageQueue.from_key(key).queue_id: offset for key, offset in told.items()}


def prepared(cluster: Cluster) -> None:
    """Three messages in queue 0, one in queue 1; the group has two and one of them."""
    broker_up(cluster)
    create_topic(cluster)
    cluster.ask(
        BROKER, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {},
        SubscriptionGroupConfig(group_name="g").to_json(),
    )  # fmt: skip
    for queue_id in (0, 0, 0, 1):
        cluster.send(BROKER, b"x", queue_id=queue_id)
    for queue_id, offset in ((0, 2), (1, 1)):
        header = UpdateConsumerOffsetRequest(
            topic="T", consumer_group="g", queue_id=queue_id, commit_offset=offset
        )
        assert cluster.ask(BROKER, RequestCode.UPDATE_CONSUMER_OFFSET, header).code == 0


def test_members_are_told_and_the_operator_as_well(cluster: Cluster) -> None:
    prepared(cluster)
    heard: list[Frame] = []

    async def main(pool: Pool) -> list[Frame]:
        beat = HeartbeatBody(client_id="me", consumer_data_set=(ConsumerData(group_name="g"),))
        frame = Frame(code=RequestCode.HEART_BEAT, body=beat.to_json())
        assert (await pool.call(BROKER, frame, timeout_s=3)).code == 0
        answers = []
        for header in (reset(0), reset(-1), reset(-1, is_force=False)):
            frame = Frame(code=RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext=to_ext(header))
            answers.append(await pool.call(BROKER, frame, timeout_s=3))
        await asyncio.sleep(1)
        return answers

    def handle(request: Frame, connection: Connection) -> None:
        if request.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
            heard.append(request)

    answers = cluster.client(main, handler=handle)
    wanted = [{0: 0, 1: 0}, {0: 3, 1: 1}, {0: 2, 1: 1}]
    assert [a.code for a in answers] == [0, 0, 0]
    assert [table(a.body) for a in answers] == wanted
    assert [table(f.body) for f in heard] == wanted
    assert [(f.ext or {})["timestamp"] for f in heard] == ["0", "-1", "-1"]


def test_what_cannot_be_reset(cluster: Cluster) -> None:
    """Nobody is online (206), so that the tool does it by itself; no such topic, no such group."""
    prepared(cluster)
    code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    assert cluster.ask(BROKER, code, reset(0)).code == 206
    assert cluster.ask(BROKER, code, reset(0, topic="?")).code == 1
    create_topic(cluster, "U")
    answer = cluster.ask(BROKER, code, reset(0, topic="U"))
    assert (answer.code, answer.remark) == (1, "THe consumer group <g> not exist")
