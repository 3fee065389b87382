"""What an operator asks of brokers about topics: make one (17), and do you know it (351)?

Single calls, no retry. RocketMQ's tools make a topic on masters alone, from where slaves copy it
every ten seconds. Units: seconds.
"""

import asyncio
from collections.abc import Mapping

from maxq.harness.client.probes import PROBE_TIMEOUT_S
from maxq.harness.contracts.error_classes import error_of
from maxq.harness.contracts.outcome import Info, Ok, Outcome, attempt
from maxq.histories.observed import BROKER
from maxq.reference.names import DEFAULT_TOPIC
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import CreateTopicRequest, TopicRequest
from maxq.reference.wire.route import PERM_READ, PERM_WRITE

CREATE_TIMEOUT_S = 5.0  # a broker answers once its name servers have it, or do not answer


def creation(topic: str, queues: int, attributes: str = "") -> Frame:
    """The request (17) for a topic; attributes as ``+message.type=NORMAL``."""
    header = CreateTopicRequest(
        topic=topic,
        default_topic=DEFAULT_TOPIC,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=PERM_READ | PERM_WRITE,
        topic_filter_type="SINGLE_TAG",
        attributes=attributes or None,
    )
    return Frame(code=RequestCode.UPDATE_AND_CREATE_TOPIC, ext=to_ext(header))


def question(topic: str) -> Frame:
    """The request (351) for what a broker knows of a topic."""
    return Frame(code=RequestCode.GET_TOPIC_CONFIG, ext=to_ext(TopicRequest(topic=topic)))


class TopicSession:
    """An operator's connections.

    Args:
        dial: how brokers are reached.
        group: the run's tasks.
        attributes: of the topics that are made.
    """

    def __init__(self, dial: Dial, group: asyncio.TaskGroup, attributes: str = "") -> None:
        self._pool = Pool(group, dial=dial)
        self._attributes = attributes

    def close(self) -> None:
        self._pool.close()

    async def create(self, broker: str, topic: str, queues: int) -> Outcome:
        """Make a topic on a broker (``ip:port``). A refusal is `info`: what a broker has done
        before it refuses is nowhere said."""
        request = creation(topic, queues, self._attributes)
        answer = await attempt(self._pool, broker, request, timeout_s=CREATE_TIMEOUT_S)
        if not isinstance(answer, Frame):
            return answer
        if answer.code == ResponseCode.SUCCESS:
            return Ok(ext={BROKER: broker})
        return Info(error_of(answer.code, answer.remark), ext={BROKER: broker})

    async def known(self, brokers: Mapping[str, str], topic: str) -> dict[str, bool]:
        """Which brokers, by name, know a topic; those that do not say are left out."""
        found = {}
        for name, address in brokers.items():
            try:
                answer = await self._pool.call(address, question(topic), timeout_s=PROBE_TIMEOUT_S)
            except (OSError, RemoteProtocolError):
                continue
            found[name] = answer.code == ResponseCode.SUCCESS
        return found
