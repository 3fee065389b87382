"""Well-formed requests in a row, each led by the answers before it, that mean harm.

Single frames with drawn fields do not come by these: a position must be right to the byte, a group
must be there before a message is sent back to it, and memory takes many connections at once.
"""

import contextlib
import socket
from collections.abc import Callable
from random import Random

from fuzz_cluster import Port, ask
from fuzz_input import SEND, TEXTS
from reference_nodes import HOST

from maxq.reference.records import PhyOffset, QueueOffset
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import SubscriptionGroupConfig
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.message import Message, encode_at
from maxq.reference.wire.route import KVTable

HEAD_BYTES = 88  # of a record with addresses of IPv4; its body begins behind it
COMMIT, ROLLBACK = "8", "12"
HALVES, HALF_BYTES = 30, 12 << 20


def _send(port: Port, body: bytes, **more: str) -> str | None:
    """Send a message; the place of its record in the log, if it was stored."""
    frame = Frame(code=RequestCode.SEND_MESSAGE, ext={**SEND, **more}, body=body)
    answer = ask(port.number, frame)
    known = (answer.ext or {}).get("msgId", "")
    return str(int(known[-16:], 16)) if answer.code == 0 and len(known) == 32 else None


def group_and_dead_letters(port: Port, rng: Random) -> None:
    """A group of some length, and a message that it gives up."""
    start = rng.choice(["", "", "%RETRY%", "%DLQ%", "../"])
    name = start + "x" * rng.choice([1, 100, rng.randrange(118, 130), rng.randrange(236, 260)])
    body = SubscriptionGroupConfig(group_name=name).to_json()
    ask(port.number, Frame(code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
    place = _send(port, b"x")
    if place is not None:
        ext = {"group": name, "offset": place, "delayLevel": rng.choice(["-1", "0", "3"])}
        ask(port.number, Frame(code=RequestCode.CONSUMER_SEND_MSG_BACK, ext=ext))


def half_message_in_a_body(port: Port, rng: Random) -> None:
    """Bytes of a half message, with a topic of our choice, as the body of another one; ended."""
    info = ask(port.number, Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO))
    end = int(KVTable.from_json(info.body).table["commitLogMaxOffset"])
    topic = rng.choice([t for t in TEXTS if t and "\x02" not in t])
    number = QueueOffset(rng.randrange(1 << 40))  # of no half message that has ended
    said = {props.REAL_TOPIC: topic, props.REAL_QID: "0", props.PGROUP: "p", props.WAIT: "false"}
    forged = encode_at(
        Message(topic="RMQ_SYS_TRANS_HALF_TOPIC", body=b"x", properties=props.encode(said)),
        queue_offset=number,
        physical_offset=PhyOffset(end + HEAD_BYTES),
        store_timestamp=1,
    )
    if _send(port, forged) is not None:
        ext = {
            "producerGroup": "p", "tranStateTableOffset": str(number), "msgId": "x",
            "commitLogOffset": str(end + HEAD_BYTES),
            "commitOrRollback": rng.choice([COMMIT, COMMIT, ROLLBACK]),
        }  # fmt: skip
        ask(port.number, Frame(code=RequestCode.END_TRANSACTION, ext=ext))


def many_half_frames(port: Port, rng: Random) -> None:
    """Most of a long frame, over many connections at once."""
    begun = (16_000_000).to_bytes(4, "big") + bytes(HALF_BYTES)
    with contextlib.ExitStack() as stack:
        for _ in range(HALVES):
            stream = stack.enter_context(socket.create_connection((HOST, port.number), 20))
            with contextlib.suppress(ConnectionError):  # it may be cut off, as may the others
                stream.sendall(begun)
        ask(port.number, Frame(code=RequestCode.GET_BROKER_RUNTIME_INFO))


Story = Callable[[Port, Random], None]
STORIES: dict[Story, int] = {  # and how often
    group_and_dead_letters: 10, half_message_in_a_body: 10, many_half_frames: 1,
}  # fmt: skip


def story(rng: Random) -> Story:
    """One of them."""
    return rng.choices(list(STORIES), list(STORIES.values()))[0]
