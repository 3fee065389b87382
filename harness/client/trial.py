"""Before the first fault: does every client of a run get what it needs from the cluster?

Each consumer group reads from every queue of every topic. Where that changes nothing that the run
is there for, each kind of message that the run's clients send is sent to every queue and read back
as well, on a topic of its own, so that nobody who judges the run meets it; and so are offsets
committed. What is refused is tried again for a while. An answer that
stays is the cluster's own, and the run has nothing to find out. Units: seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from maxq.harness.client.consumer_offsets import OffsetSession
from maxq.harness.client.probes import until
from maxq.harness.client.producers import ProducerSession
from maxq.harness.client.session import (
    PULL_TIMEOUT_S,
    PULLED,
    REFRESH_S,
    QueueName,
    RouteBook,
    Session,
    pull_of,
)
from maxq.harness.contracts.cluster import Need
from maxq.harness.contracts.error_classes import error_of, error_words
from maxq.harness.contracts.outcome import Fail, Ok
from maxq.histories.observed import UNASKED
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, Pool
from maxq.reference.wire import property as props

TOPIC = GROUP = "maxq-trial"
BODY = "trial"  # and the kind of message
PLAIN, DELAYED, HALF = "plain", "delayed", "half"
KINDS = {PLAIN: "a message", HALF: "a transaction's message", DELAYED: "a delayed message"}
FIRST_LEVEL = "1"  # of delays: a second
TRY_S = 15.0  # for how long what is refused is tried again


class Homes(NamedTuple):
    """Where a topic is: its number of queues on each of its broker sets."""

    queues: int
    sets: Collection[str]


NOWHERE = Homes(0, ())
Answer = list[str]  # what was answered instead; empty: all is well
Try = Callable[[QueueName], Awaitable[Answer]]


class Trial:
    """Clients that send and read before the run.

    Args:
        routes: where masters are, of the topics too.
        dial: how brokers are reached.
        group: the run's tasks.
        born_ms: the wall clock of messages.
    """

    def __init__(
        self, routes: RouteBook, dial: Dial, group: asyncio.TaskGroup, *, born_ms: int
    ) -> None:
        self._routes = routes
        self._session = Session(routes, dial, group)
        self._producer = ProducerSession(
            routes, dial, group, client_id=GROUP, producer_group=GROUP, decided=lambda _: "commit"
        )
        self._offsets = OffsetSession(routes, dial, group)
        self._pool = Pool(group, dial=dial)
        self._born_ms = born_ms
        self._sent = 0
        # Of each queue how far it was read, and the kinds of messages that were seen.
        self._shown: dict[QueueName, tuple[int, frozenset[str]]] = {}

    async def refused(
        self, places: Mapping[str, Homes], groups: Collection[str], needs: Collection[Need] = ()
    ) -> str:
        """What no client could do, and what was answered; empty: everybody can do everything.

        Args:
            places: of each topic the number of queues and the broker sets. With `TOPIC` among them
                what clients do is done there: a message of each kind is sent to each queue, and
                read back.
            groups: the consumer groups. Without any nobody reads, and nothing is sent.
            needs: what clients do beside sending and reading plain messages.
        """
        queues = [*_queues(TOPIC, places.get(TOPIC, NOWHERE))]
        makes = any(not self._routes.listed(TOPIC, queue.broker_set) for queue in queues)
        where = "to a topic that its first message makes" if makes else "to a queue"
        kinds = [kind for kind in KINDS if groups and (kind == PLAIN or kind in needs)]
        steps: list[tuple[str, QueueName, Try]] = [
            *((f"producer can send {KINDS[kind]} {where}", queue, partial(self._send, kind))
              for kind in kinds for queue in queues),
            *((f"consumer can read {KINDS[kind]}", queue, partial(self._read_back, kind))
              for kind in kinds for queue in queues),
            *(("consumer group can commit and fetch its offset", queue, self._commit)
              for queue in queues if "offsets" in needs),
            *((f"consumer of group {group} can read {topic}", queue, partial(self._read, group))
              for topic, homes in places.items() for queue in _queues(topic, homes)
              for group in groups),
        ]  # fmt: skip
        try:
            for what, queue, attempt in steps:
                if why := await self._settled(partial(attempt, queue)):
                    return f"no {what} of broker set {queue.broker_set}: {' '.join(why)}"
        finally:
            for session in (self._session, self._producer, self._offsets, self._pool):
                session.close()
        return ""

    async def _settled(self, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """The last answer: none once it is well. Nobody else reads the routes yet."""
        why: Answer = []
        loop = asyncio.get_running_loop()
        read_at = loop.time()

        async def well() -> bool:
            nonlocal why, read_at
            if why and loop.time() - read_at >= REFRESH_S:
                read_at = loop.time()
                await self._routes.refresh()
            why = await attempt()
            return not why

        await until(well, TRY_S)
        return why

    async def _send(self, kind: str, queue: QueueName) -> Answer:
        self._sent += 1
        body = f"{BODY} {kind}".encode()
        if kind == HALF:
            key = f"{BODY}-{self._sent}"
            sent, place = await self._producer.send_half(
                queue, body, born_ms=self._born_ms, key=key
            )
            if place is not None:
                sent = await self._producer.end(place, "commit")
        else:
            more = {props.DELAY: FIRST_LEVEL} if kind == DELAYED else None
            sent = await self._session.send(queue, body, born_ms=self._born_ms, more=more)
        return [] if isinstance(sent, Ok) else _words(sent.error)

    async def _read_back(self, kind: str, queue: QueueName) -> Answer:
        at, shown = self._shown.setdefault(queue, (0, frozenset()))
        if kind in shown:
            return []
        found = await self._session.poll(queue, at, of_master=True)
        if isinstance(found, Fail):
            return _words(found.error)
        kinds = {body.decode(errors="replace").rpartition(" ")[2] for _, body in found.messages}
        self._shown[queue] = found.next_offset, shown | kinds
        return [] if kind in shown | kinds else ["it is not shown"]

    async def _commit(self, queue: QueueName) -> Answer:
        for done in (
            await self._offsets.commit(queue, GROUP, 0),
            await self._offsets.fetch(queue, GROUP),
        ):
            if not isinstance(done, Ok):
                return _words(done.error)
        return []

    async def _read(self, consumer_group: str, queue: QueueName) -> Answer:
        master = self._routes.master(queue.topic, queue.broker_set)
        if master is None:
            self._routes.nudge(queue.topic)
            return [UNASKED["no-route"]]
        request = pull_of(queue, 0, consumer_group=consumer_group, count=1)
        try:
            answer = await self._pool.call(master, request, timeout_s=PULL_TIMEOUT_S)
        except (OSError, RemoteProtocolError) as error:
            return error_words(error)
        return [] if answer.code in PULLED else error_of(answer.code, answer.remark)


def _queues(topic: str, homes: Homes) -> Iterator[QueueName]:
    return (QueueName(topic, name, n) for name in homes.sets for n in range(homes.queues))


def _words(error: object) -> Answer:
    if isinstance(error, list):
        return [str(part) for part in error if part]
    return [UNASKED.get(str(error), str(error))]
