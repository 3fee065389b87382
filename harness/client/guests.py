"""What a broker of its own keeps: one message is sent to it, and its one queue is read.

The broker is reached by its address, and no name server is asked. Its topic is made each time,
which changes nothing where it is there. Units: seconds.
"""

import asyncio

from maxq.harness.client.probes import POLL_S, PROBE_TIMEOUT_S, probing
from maxq.harness.client.session import POLLERS, PULLED, QueueName, pull_of
from maxq.harness.client.topic_calls import CREATE_TIMEOUT_S, creation
from maxq.reference.names import DEFAULT_TOPIC
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, Pool
from maxq.reference.wire import headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_short_ext
from maxq.reference.wire.message import decode_all

TOPIC = "maxq-guest"
PULL_COUNT, READS_MAX = 32, 200  # messages a pull; pulls, of which the last ones wait for the send


async def kept(dial: Dial, broker: str, broker_set: str, message: str) -> list[str] | None:
    """Send a message to a broker (``ip:port``), and read its queue from the beginning.

    Returns:
        Every message up to the new one, in order. None: it was not stored, or could not be read.
    """
    queue = QueueName(TOPIC, broker_set, 0)
    async with probing(dial) as pool:
        try:
            made = await pool.call(broker, creation(TOPIC, 1), timeout_s=CREATE_TIMEOUT_S)
            sent = await pool.call(broker, _send_of(queue, message), timeout_s=PROBE_TIMEOUT_S)
            if made.code != ResponseCode.SUCCESS or sent.code != ResponseCode.SUCCESS:
                return None
            return await _read(pool, broker, queue, message)
        except (OSError, RemoteProtocolError):
            return None


async def _read(pool: Pool, broker: str, queue: QueueName, last: str) -> list[str] | None:
    found: list[str] = []
    offset = 0
    for _ in range(READS_MAX):
        request = pull_of(queue, offset, consumer_group=POLLERS, count=PULL_COUNT)
        answer = await pool.call(broker, request, timeout_s=PROBE_TIMEOUT_S)
        if answer.code not in PULLED:
            return None
        messages = decode_all(answer.body or b"")
        found += [m.body.decode(errors="replace") for m in messages]
        if last in found:
            return found
        offset = from_ext(headers.PullResponse, answer.ext).next_begin_offset
        if not messages:
            await asyncio.sleep(POLL_S)  # brokers show a message a little later than they store it
    return None


def _send_of(queue: QueueName, message: str) -> Frame:
    header = headers.SendRequest(
        topic=queue.topic, producer_group="maxq", default_topic=DEFAULT_TOPIC,
        default_topic_queue_nums=1, queue_id=queue.queue_id, sys_flag=0, born_timestamp=0, flag=0,
        bname=queue.broker_set, unit_mode=False, batch=False,
    )  # fmt: skip
    ext = to_short_ext(header)
    return Frame(code=RequestCode.SEND_MESSAGE_V2, ext=ext, body=message.encode())
