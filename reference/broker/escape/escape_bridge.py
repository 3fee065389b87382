"""Sends copies to masters of other broker names, for a slave that acts. A shell.

Who takes messages of a topic, a name server says; what it says is kept for
``loadBalancePollNameServerInterval``, and asked again, no sooner than a second later, where a
target did not take a message or none is known. A copy goes out as RocketMQ sends it: 310, with
``WAIT=false``, and 3 s for an answer. Source: RocketMQ ``EscapeBridge``, ``TopicRouteInfoManager``.
"""

import asyncio
from collections.abc import Callable

from maxq.reference.broker.escape.escape import (
    Attempts,
    Place,
    Sent,
    Target,
    inner_group,
    meaning,
    send_header,
    targets,
)
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.member_group import preferred
from maxq.reference.node import now_ns
from maxq.reference.records import LocalProtocolError, QueueOffset, RemoteProtocolError
from maxq.reference.rpc import NotSent, Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext, to_short_ext
from maxq.reference.wire.message import Message
from maxq.reference.wire.node_headers import TopicRequest
from maxq.reference.wire.route import TopicRouteData

SEND_TIMEOUT_S = 3.0
ROUTE_TIMEOUT_S = 3.0
ASK_AGAIN_NS = 1_000_000_000  # for a route that did not do


Local = Callable[[str, int], Target | None]  # of a topic and a queue


class EscapeBridge:
    """The way out of one acting slave.

    Args:
        config: the broker's.
        host: its log.
        pool: connections to name servers and targets.
        membership: the broker's id.
        local: the queue of a topic at a master in the same process; None: none there has it.
    """

    def __init__(
        self,
        config: BrokerConfig,
        host: Host,
        pool: Pool,
        membership: Membership,
        local: Local,
    ) -> None:
        self._local = local
        self._config = config
        self._host = host
        self._pool = pool
        self._membership = membership
        self._answered = ""  # the name server that has, last
        self._routes: dict[str, tuple[int, tuple[Target, ...]]] = {}  # topic -> since when, who
        self._asking: dict[str, asyncio.Lock] = {}
        self._doubted: set[str] = set()  # topics whose route did not do

    async def targets(self, topic: str) -> tuple[Target, ...]:
        """Who takes messages of a topic, as far as it is known."""
        async with self._asking.setdefault(topic, asyncio.Lock()):
            since, known = self._routes.get(topic, (None, ()))
            keep_ns = self._config.load_balance_poll_name_server_interval * 1_000_000
            if topic in self._doubted or not known:
                keep_ns = ASK_AGAIN_NS
            if since is not None and now_ns() - since < keep_ns:
                return known
            found = await self._ask(topic)
            self._doubted.discard(topic)
            known = known if found is None else targets(found, self._config.broker_name)
            self._routes[topic] = now_ns(), known
            return known

    async def _ask(self, topic: str) -> TopicRouteData | None:
        """The route that the first name server knows that answers; None if none answers."""
        request = Frame(
            code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=to_ext(TopicRequest(topic=topic))
        )
        for namesrv in preferred(self._membership.namesrvs, self._answered):
            try:
                answer = await self._pool.call(namesrv, request, timeout_s=ROUTE_TIMEOUT_S)
                self._answered = namesrv
                if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    return TopicRouteData()
                if answer.code == ResponseCode.SUCCESS:
                    return TopicRouteData.from_json(answer.body)
            except (OSError, TimeoutError, RemoteProtocolError) as error:
                why = f"{type(error).__name__}: {error}"
                self._host.log("broker.escape.route", of=namesrv, topic=topic, why=why)
        return None

    async def carry(
        self, attempts: Attempts, offset: QueueOffset, made: tuple[str, Message]
    ) -> Sent:
        """Try to store a copy elsewhere, once.

        Args:
            attempts: has the message as one on its way, and learns what became of it.
            offset: the message.
            made: the topic that it is meant for, and the copy.
        """
        topic, copy = made
        place = attempts.place(offset, await self._found(attempts, offset, copy))
        if place is None:
            self._doubted.add(topic)
        result: Sent = "refused" if place is None else await self.send(copy, place)
        attempts.on_result(offset, result, now_ns())
        return result

    async def _found(
        self, attempts: Attempts, offset: QueueOffset, copy: Message
    ) -> tuple[Target, ...]:
        """A master in the same process; others if there is none, or it has refused the message."""
        local = self._local(copy.topic, copy.queue_id)
        if local is not None and not attempts.was_refused(offset):
            return (local,)
        found = await self.targets(copy.topic) if self._config.enable_remote_escape else ()
        return found or (() if local is None else (local,))

    async def send(self, copy: Message, place: Place) -> Sent:
        """Store a copy at a place, and say what became of it."""
        config = self._config
        group = inner_group(config.broker_name, self._membership.broker_id)
        result: Sent
        try:
            header = send_header(copy, place, group)
            ext = to_short_ext(header)
            request = Frame(code=RequestCode.SEND_MESSAGE_V2, ext=ext, body=copy.body)
            answer = await self._pool.call(place.address, request, timeout_s=SEND_TIMEOUT_S)
        except (NotSent, LocalProtocolError) as error:
            result, why = "refused", str(error)
        except (OSError, TimeoutError) as error:
            result, why = "unsure", f"{type(error).__name__}: {error}"
        else:
            result, why = meaning(answer.code), f"code {answer.code}: {answer.remark}"
        if result != "stored":
            self._doubted.add(copy.topic)
            to = f"{place.broker_name} {place.address}"
            self._host.log("broker.escape.failed", topic=copy.topic, to=to, what=result, why=why)
        return result
