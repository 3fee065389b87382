"""Before the first fault: does every client of a run get what it needs from the cluster?

Each consumer group reads from every queue of every topic. Where that changes nothing that the run
is there for, a message is sent to each broker set and read back as well, on a topic of its own, so
that nobody who judges the run meets it. What is refused is tried again for a while. An answer that
stays is the cluster's own, and the run has nothing to find out. Units: seconds.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

from maxq.harness.client.probes import until
from maxq.harness.client.session import (
    PULL_TIMEOUT_S,
    PULLED,
    REFRESH_S,
    QueueName,
    RouteBook,
    Session,
    pull_of,
)
from maxq.harness.contracts.error_classes import error_of, error_words
from maxq.harness.contracts.outcome import Fail, Ok
from maxq.histories.observed import UNASKED
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, Pool

TOPIC, BODY = "maxq-trial", b"trial"
TRY_S = 15.0  # for how long what is refused is tried again


class Homes(NamedTuple):
    """Where a topic is: its number of queues on each of its broker sets."""

    queues: int
    sets: Collection[str]


NOWHERE = Homes(0, ())
Answer = list[str]  # what was answered instead; empty: all is well


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
        self._pool = Pool(group, dial=dial)
        self._born_ms = born_ms

    async def refused(self, places: Mapping[str, Homes], groups: Collection[str]) -> str:
        """What no client could do, and what was answered; empty: everybody can do everything.

        Args:
            places: of each topic the number of queues and the broker sets. With `TOPIC` among them
                a message is sent to each of its sets, and read back.
            groups: the consumer groups.
        """
        try:
            for name in places.get(TOPIC, NOWHERE).sets:
                home, more = QueueName(TOPIC, name, 0), f" of broker set {name}"
                makes = not self._routes.listed(TOPIC, name)
                what = "a topic that its first message makes" if makes else "a queue"
                if why := await self._settled(partial(self._send, home)):
                    return f"no producer can send to {what}{more}: {' '.join(why)}"
                if why := await self._settled(partial(self._read_back, home)):
                    return f"no consumer can read a message{more}: {' '.join(why)}"
            for topic, homes in places.items():
                for queue in (
                    QueueName(topic, b, n) for b in homes.sets for n in range(homes.queues)
                ):
                    for group in groups:
                        if why := await self._settled(partial(self._read, queue, group)):
                            return f"no consumer of group {group} can read {topic} of broker set " \
                                   f"{queue.broker_set}: {' '.join(why)}"  # fmt: skip
        finally:
            self._session.close()
            self._pool.close()
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

    async def _send(self, queue: QueueName) -> Answer:
        sent = await self._session.send(queue, BODY, born_ms=self._born_ms)
        return [] if isinstance(sent, Ok) else _words(sent.error)

    async def _read_back(self, queue: QueueName) -> Answer:
        found = await self._session.poll(queue, 0, of_master=True)
        if isinstance(found, Fail):
            return _words(found.error)
        return [] if found.messages else ["it is not shown"]

    async def _read(self, queue: QueueName, consumer_group: str) -> Answer:
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


def _words(error: object) -> Answer:
    if isinstance(error, list):
        return [str(part) for part in error if part]
    return [UNASKED.get(str(error), str(error))]
