"""A client's session with a cluster: where queues live now, and single calls to their brokers.

Messages are sent to masters. They are read from where RocketMQ's consumers read them: from the
broker that the last answer of the queue suggested, at first its master; from any other one of its
set where routes do not list that one. So a slave is read from whose master is gone.

A session retries nothing: one operation is one attempt, or the history would hide the others.
Routes are re-read once a second and after every answer that is not good, by a task of their own,
outside of operations: sooner than RocketMQ's clients do (30 s), so that a run shows what a cluster
does, and not what its clients have not heard yet. `--poll-routes` has them read as rarely.
Units: seconds; offsets are message indices.
Source: RocketMQ 5.5.0 ``PullAPIWrapper``, ``MQClientInstance.findBrokerAddressInSubscribe``.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from maxq.harness.contracts.error_classes import classify_send, error_of, error_words, plain
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome, attempt
from maxq.histories.observed import (
    BROKER,
    CODE,
    PINNED,
    ROUTE_NS,
    SLAVE,
)
from maxq.reference.names import DEFAULT_TOPIC
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, Handler, Pool, refuse
from maxq.reference.wire import headers
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import from_ext, to_ext, to_short_ext
from maxq.reference.wire.message import decode_all, parse_offset_msg_id
from maxq.reference.wire.node_headers import TopicRequest
from maxq.reference.wire.route import MASTER_ID, PERM_READ, PERM_WRITE, TopicRouteData

SEND_TIMEOUT_S = 6.0  # above slaveTimeout 3 s and syncFlushTimeout 5 s, so their answers arrive
PULL_TIMEOUT_S = 3.0
ROUTE_TIMEOUT_S = 2.0
REFRESH_S = ROUTE_NS / 1e9
ROUTES_MAX = 64  # topics whose routes are read at once
PULL_BATCH = 32
POLLERS = "maxq"  # the consumer group of all who poll
NOT_WRITABLE, NOT_READABLE = "not-writable", "not-readable"  # by the routes
SUSPEND_FLAG = 2  # the broker may hold the request
SUBSCRIPTION_FLAG = 4  # the request brings its own subscription, so no heartbeat is needed


class QueueName(msgspec.Struct, frozen=True):
    """One queue of one topic on one broker set."""

    topic: str
    broker_set: str
    queue_id: int


class Polled(msgspec.Struct, frozen=True):
    """What a pull found: (offset, body) pairs, where to go on, the queue's bounds then, and who
    answered (``ip:port``).

    With `retry` the broker asks to come again at once, or is a slave: nothing is said of where the
    queue ends.
    """

    messages: tuple[tuple[int, bytes], ...]
    next_offset: int
    min_offset: int
    max_offset: int
    broker: str
    retry: bool = False
    slave: bool = False

    @property
    def ext(self) -> dict[str, Any]:
        """Who answered, as an operation records it."""
        return Source(self.broker, self.slave).ext


class Source(NamedTuple):
    """A broker to read from (``ip:port``), and whether routes list it as a slave."""

    broker: str
    slave: bool

    @property
    def ext(self) -> dict[str, Any]:
        """As an operation records it."""
        return {BROKER: self.broker, SLAVE: True} if self.slave else {BROKER: self.broker}


def pull_of(
    queue: QueueName, offset: int, *, consumer_group: str, count: int, hold_ms: int = 0
) -> Frame:
    """The request (11) for so many messages from an offset on; where there are none it may be held
    for so long, until some come."""
    header = headers.PullRequest(
        topic=queue.topic,
        consumer_group=consumer_group,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=SUBSCRIPTION_FLAG | (SUSPEND_FLAG if hold_ms else 0),
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
        bname=queue.broker_set,
    )
    return Frame(code=RequestCode.PULL_MESSAGE, ext=to_ext(header))


class RouteBook:
    """Where the brokers are, as the name servers say. Shared by all clients of a run.

    Args:
        namesrvs: gives the addresses of the name servers now.
        dial: how to reach them.
        group: the run's tasks.
        every_s: how often all routes are read; if more than `REFRESH_S`, between that only those of
            topics without a master, as RocketMQ's clients do (``pollNameServerInterval``).
    """

    def __init__(
        self,
        namesrvs: Callable[[], Sequence[str]],
        dial: Dial,
        group: asyncio.TaskGroup,
        every_s: float = REFRESH_S,
    ) -> None:
        self._every_s = every_s
        self._topics: tuple[str, ...] = ()
        self._template = ""  # whose route stands in for those of topics that are not there yet
        self._namesrvs = namesrvs
        self._pool = Pool(group, dial=dial)
        # By topic, then broker set: broker id -> ip:port, lowest first.
        self._brokers: dict[str, dict[str, dict[int, str]]] = {}
        self._perms: dict[str, dict[str, int]] = {}  # likewise
        self._nudge: asyncio.Future[None] | None = None  # None: a refresh is going on
        self._nudged = False
        self._failed: dict[str, None] = {}  # topics whose routes are read next, in order
        self._turn = 0  # of topics beyond `ROUTES_MAX`: which are next

    def master(self, topic: str, broker_set: str) -> str | None:
        """Address of the master that serves a topic on a broker set."""
        return self._brokers.get(topic, {}).get(broker_set, {}).get(MASTER_ID)

    def asked_for(self, topic: str, broker_set: str) -> str:
        """The topic by whose route is sent: the default one, as RocketMQ's producers do, where no
        route lists this one on a broker set and the first message may make it there."""
        return self._template if self._template and not self.listed(topic, broker_set) else topic

    def listed(self, topic: str, broker_set: str) -> bool:
        """Whether routes list a topic on a broker set."""
        return broker_set in self._brokers.get(topic, {})

    def source(self, topic: str, broker_set: str, suggested: int = MASTER_ID) -> Source | None:
        """Where consumers of a topic on a broker set read, when that broker id was suggested: for
        a slave's the next id will do, and if that is not listed either, any broker does."""
        known = self._brokers.get(topic, {}).get(broker_set, {})
        wanted = (suggested,) if suggested == MASTER_ID else (suggested, suggested + 1)
        found = next((n for n in (*wanted, *known) if n in known), None)
        return None if found is None else Source(known[found], found != MASTER_ID)

    def closed(self, topic: str, broker_set: str) -> bool:
        """Whether nobody may write to a topic of a broker set. Of sets that know acting masters it
        is not told: whether a slave takes a message is asked of the slave."""
        return not self._perms.get(topic, {}).get(broker_set, PERM_WRITE) & PERM_WRITE

    def unreadable(self, topic: str, broker_set: str) -> bool:
        """Whether nobody may read a topic of a broker set."""
        return not self._perms.get(topic, {}).get(broker_set, PERM_READ) & PERM_READ

    def watch(self, topics: Iterable[str], *, by_sending: bool = False) -> None:
        """Know these topics, from the next refresh on; `by_sending` says that those that are not
        there come into being when they are first sent to."""
        self._template = DEFAULT_TOPIC if by_sending else ""
        self._topics = (*topics, DEFAULT_TOPIC) if by_sending else tuple(topics)

    def nudge(self, topic: str) -> None:
        """Read the routes of a topic, and of others, again soon: somebody did not answer well."""
        if self._every_s > REFRESH_S and self._has_master(topic):
            return
        self._failed[topic] = None
        self._nudged = True  # during a refresh too: what that one reads may be old already
        self._wake()

    def hasten(self) -> None:
        """Read routes as soon and as often as can be from now on: a run ends, and looks at all."""
        self._every_s = REFRESH_S
        self._wake()

    def _has_master(self, topic: str) -> bool:
        return any(MASTER_ID in listed for listed in self._brokers.get(topic, {}).values())

    def _wake(self) -> None:
        if self._nudge is not None and not self._nudge.done():
            self._nudge.set_result(None)

    async def run(self) -> None:
        """Keep the book fresh until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._nudged = False
            await self._read_all(self._due())
            if not self._nudged:
                self._nudge = loop.create_future()
                timer = loop.call_later(self._every_s, self._wake)
                await self._nudge
                timer.cancel()
                self._nudge = None
            await asyncio.sleep(REFRESH_S / 10)  # a burst of nudges reads the routes once

    async def refresh(self) -> None:
        """Read all routes once; what cannot be read stays as it was."""
        await self._read_all(self._topics)

    def _due(self) -> Sequence[str]:
        """The topics to read now: all; of many, those that failed first, and the others in turn."""
        if len(self._topics) <= ROUTES_MAX:
            self._failed.clear()
            return self._topics
        failed = [*self._failed][:ROUTES_MAX]
        for topic in failed:
            del self._failed[topic]
        rest = max(1, ROUTES_MAX - len(failed))
        in_turn = [self._topics[(self._turn + n) % len(self._topics)] for n in range(rest)]
        self._turn += rest
        return [*failed, *in_turn]

    async def _read_all(self, topics: Sequence[str]) -> None:
        for topic in topics:
            route = await self._read(topic)
            if route is not None:
                self._brokers[topic] = {
                    data.broker_name: dict(sorted(data.broker_addrs.items()))
                    for data in route.broker_datas
                }
                self._perms[topic] = dict(_perms(route))

    async def _read(self, topic: str) -> TopicRouteData | None:
        request = Frame(
            code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=to_ext(TopicRequest(topic=topic))
        )
        gone = False
        for namesrv in self._namesrvs():
            try:
                answer = await self._pool.call(namesrv, request, timeout_s=ROUTE_TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS:
                    return TopicRouteData.from_json(answer.body)
                gone |= answer.code == ResponseCode.TOPIC_NOT_EXIST
            except (OSError, RemoteProtocolError):
                continue
        if gone and self._template:
            # Forgotten by a later master, which makes it anew when it is sent to. RocketMQ's
            # producers keep the route, and find that master by the broker set's name.
            self._brokers.pop(topic, None)
        return None

    def close(self) -> None:
        self._pool.close()


def _perms(route: TopicRouteData) -> Iterator[tuple[str, int]]:
    """What clients may do with the queues of each broker set of a route."""
    acting = {data.broker_name for data in route.broker_datas if data.enable_acting_master}
    for q in route.queue_datas:
        yield q.broker_name, q.perm | (PERM_WRITE if q.broker_name in acting else 0)


class Session:
    """One client's connections and its single-attempt operations.

    Args:
        routes: where brokers are.
        dial: how to reach brokers.
        group: the run's tasks.
        pinned: broker set -> the one broker of it that this client ever speaks with, whatever
            routes say; None: it follows the routes.
        handler: answers what brokers ask.
        greet: what is said first on a connection to a broker.
    """

    def __init__(
        self,
        routes: RouteBook,
        dial: Dial,
        group: asyncio.TaskGroup,
        *,
        pinned: Callable[[str], str] | None = None,
        handler: Handler = refuse,
        greet: Callable[[str], Frame] | None = None,
    ) -> None:
        self.pinned = pinned
        self.send_timeout_s = SEND_TIMEOUT_S
        self.hold_ms = 0  # of polls
        self._routes = routes
        self._pool = Pool(group, dial=dial, handler=handler, greet=greet)
        self._suggested: dict[QueueName, int] = {}  # broker ids, by the last answers to polls

    def close(self) -> None:
        self._pool.close()

    def hasten(self) -> None:
        """Have the routes of all read often from now on."""
        self._routes.hasten()

    def listed(self, queue: QueueName) -> bool:
        """Whether a consumer has this queue to read, as far as it knows."""
        return self.pinned is not None or self._routes.listed(queue.topic, queue.broker_set)

    def _broker(self, queue: QueueName) -> str | None:
        if self.pinned is not None:
            return self.pinned(queue.broker_set)
        broker = self._routes.master(queue.topic, queue.broker_set)
        if broker is None:
            self._routes.nudge(queue.topic)
        return broker

    def _source(self, queue: QueueName, *, of_master: bool) -> Source | None:
        if of_master or self.pinned is not None:
            broker = self._broker(queue)
            return None if broker is None else Source(broker, slave=False)
        suggested = self._suggested.get(queue, MASTER_ID)
        source = self._routes.source(queue.topic, queue.broker_set, suggested)
        if source is None:
            self._routes.nudge(queue.topic)
        return source

    async def send(
        self,
        queue: QueueName,
        body: bytes,
        *,
        born_ms: int,
        more: Mapping[str, str] | None = None,
        sys_flag: int = 0,
        producer_group: str = "maxq",
    ) -> Outcome:
        """Send one message, with `more` properties; an `ok` carries its queue offset as value, and
        in `ext` who answered and, as ``byte``, where in the commit log the message is."""
        by = self._routes.asked_for(queue.topic, queue.broker_set)
        there = queue if by == queue.topic else msgspec.structs.replace(queue, topic=by)
        broker = self._broker(there)
        if broker is None:
            return Fail("no-route")
        if self.pinned is None and self._routes.closed(by, queue.broker_set):
            self._routes.nudge(queue.topic)
            return Fail(NOT_WRITABLE)
        properties = {props.WAIT: "true", **(more or {})}
        header = headers.SendRequest(
            topic=queue.topic,
            producer_group=producer_group,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=4,
            queue_id=queue.queue_id,
            sys_flag=sys_flag,
            born_timestamp=born_ms,
            flag=0,
            properties=props.encode(properties).decode(),
            bname=queue.broker_set,
            unit_mode=False,  # 5.2.0 takes no request without these two
            batch=False,
        )
        request = Frame(code=RequestCode.SEND_MESSAGE_V2, ext=to_short_ext(header), body=body)
        outcome = await self._send(broker, request)
        pinned = {} if self.pinned is None else {PINNED: True}
        if isinstance(outcome, Ok):
            stored = {"node": queue.broker_set, "broker": broker, **(outcome.ext or {}), **pinned}
            if by != queue.topic:
                self._routes.nudge(queue.topic)  # it is there now
            return Ok(outcome.value, ext=stored)
        self._routes.nudge(queue.topic)
        return msgspec.structs.replace(outcome, ext=pinned) if pinned else outcome

    async def _send(self, broker: str, request: Frame) -> Outcome:
        answer = await attempt(self._pool, broker, request, timeout_s=self.send_timeout_s)
        if not isinstance(answer, Frame):
            return answer
        kind = classify_send(answer.code, answer.remark)
        if kind == "fail":
            return Fail(error_of(answer.code, answer.remark))
        if kind == "info":
            return Info(error_of(answer.code, answer.remark))
        try:
            sent = from_ext(headers.SendResponse, answer.ext)
        except RemoteProtocolError as error:
            return Info(["bad-answer", plain(str(error))])
        return Ok(sent.queue_offset, ext=_place(sent.msg_id))

    async def poll(
        self, queue: QueueName, offset: int, *, of_master: bool = False
    ) -> Polled | Fail:
        """Read from `offset` on; a broker may hold that for `hold_ms`. A read that fails took
        nothing, so any error is `fail`; its `ext` says who was asked, and the code of an answer.

        Args:
            queue: which one.
            offset: the first wanted.
            of_master: ask the master or nobody: what is kept is decided by what it has.
        """
        source = self._source(queue, of_master=of_master)
        asked: dict[str, Any] = {} if self.pinned is None else {PINNED: True}
        if source is None:
            return Fail("no-route", ext=asked or None)
        if self.pinned is None and self._routes.unreadable(queue.topic, queue.broker_set):
            self._routes.nudge(queue.topic)
            return Fail(NOT_READABLE)
        asked |= source.ext
        request = pull_of(
            queue, offset, consumer_group=POLLERS, count=PULL_BATCH, hold_ms=self.hold_ms
        )
        timeout_s = PULL_TIMEOUT_S + self.hold_ms / 1000
        try:
            answer = await self._pool.call(source.broker, request, timeout_s=timeout_s)
            if answer.code not in PULLED:
                self._routes.nudge(queue.topic)
                code = {CODE: answer.code}
                return Fail(error_of(answer.code, answer.remark), ext=asked | code)
            found = from_ext(headers.PullResponse, answer.ext)
            messages = decode_all(answer.body or b"")
        except RemoteProtocolError as error:
            self._routes.nudge(queue.topic)
            return Fail(["bad-answer", plain(str(error))], ext=asked)
        except OSError as error:  # not sent, lost, or no answer in time
            self._routes.nudge(queue.topic)
            return Fail(error_words(error), ext=asked)
        self._suggested[queue] = found.suggest_which_broker_id
        return Polled(
            messages=tuple((m.queue_offset, m.body) for m in messages),
            next_offset=found.next_begin_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
            broker=source.broker,
            retry=source.slave or answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY,
            slave=source.slave,
        )


def _place(msg_id: str) -> dict[str, Any]:
    """Where in its commit log a broker put a message, in bytes, if its id says so."""
    try:
        return {"byte": parse_offset_msg_id(msg_id)[1]}
    except RemoteProtocolError:
        return {}


PULLED = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)
