"""Pairs become crossed containers with empty stores, set after set, as docs/containers.md has it.

Two producers, each of which knows one name server, and a consumer follow routes all the time.
"""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import ClassVar

import pytest

from maxq.harness.client.consumer_offsets import OffsetSession
from maxq.harness.client.session import REFRESH_S, Polled, QueueName, RouteBook, Session
from maxq.harness.client.topic_calls import creation
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.outcome import Ok
from maxq.harness.contracts.target import NAMESRV_PORT
from maxq.harness.experiments.crash_points.arena import SEND_S, TOPIC
from maxq.harness.experiments.crash_points.container_arena import ContainerArena
from maxq.reference.rpc import NotSent, Pool, loop_dial
from maxq.reference.wire.bodies import ConsumeStats
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import ConsumerGroupRequest, to_ext
from maxq.reference.wire.node_headers import PermRequest, TopicRequest
from maxq.reference.wire.route import PERM_WRITE, TopicRouteData

GROUP = "drained"
READ_ONLY, READ_AND_WRITE = 4, 6
PERIOD_S = 2 * REFRESH_S  # in which every client has read its routes
PAUSE_MAX_S = 0.5  # of a producer: no send fails, so it is little more than one takes
WIPE, ADD = RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER


ROUTE = Frame(
    code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=to_ext(TopicRequest(topic=TOPIC))
)  # what `mqadmin topicRoute` asks


def perms_in(answer: Frame) -> dict[str, int]:
    """What clients may do, by broker set, as an answer to `ROUTE` says."""
    if answer.code != ResponseCode.SUCCESS:
        return {}
    return {q.broker_name: q.perm for q in TopicRouteData.from_json(answer.body).queue_datas}


class Moving(ContainerArena):
    """Pairs alone on the machines of containers, with clients at work."""

    namesrvs: ClassVar[int] = 2

    def __init__(self) -> None:
        super().__init__(None, controllers=0, brokers=2)
        self.failed: list[str] = []  # sends
        self.acks: dict[str, list[float]] = {}  # when, by the name server of the producer (s)
        self.consumed: list[bytes] = []
        self.known: dict[str, int] = {}  # to the consumer, by broker set: its next offset
        self.start(*self.of(Role.NAMESRV))
        self.start_alone(*self.of(Role.BROKER))
        self.until(lambda: self.in_sync(2), "pairs are in sync")
        for broker_set in self.sets:
            self.make_topic(broker_set)
        for namesrv in self.of(Role.NAMESRV):
            self.ask(self._produce(namesrv))
        self.ask(self._consume())
        self.until(lambda: self.all_take(3), "both take messages of all")

    # Clients.

    async def _send_forever(self) -> None:
        """Nothing: producers follow routes here."""

    async def _produce(self, namesrv: str) -> None:
        """Send to each set in turn that takes messages, as one name server says."""
        times, read_at, perms = self.acks.setdefault(namesrv, []), 0.0, dict[str, int]()
        now = asyncio.get_running_loop().time
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            while True:
                await asyncio.sleep(SEND_S)
                if now() >= read_at:
                    read_at = now() + REFRESH_S
                    with suppress(OSError):  # it goes on with what it knows
                        address = self.listens(namesrv)
                        perms = perms_in(await pool.call(address, ROUTE, timeout_s=1.0))
                for s in self.sets:
                    if not perms.get(s, 0) & PERM_WRITE:
                        continue
                    if await self._send(pool, f"{s}-0", s):
                        self.taken[f"{s} by {namesrv}"] += 1
                        times.append(now())
                    else:
                        self.failed.append(f"{s} by {namesrv} at {now()}")

    async def _consume(self) -> None:
        """Read every queue, and commit; one that leaves the routes is begun anew when it is back,
        where its group's offset says."""
        async with asyncio.TaskGroup() as group:
            book = RouteBook(lambda: [self.listens("n0")], loop_dial, group)
            book.watch([TOPIC])
            await book.refresh()
            group.create_task(book.run())
            session = Session(book, loop_dial, group)
            offsets = OffsetSession(book, loop_dial, group)
            while True:
                await asyncio.sleep(SEND_S)
                for s in self.sets:
                    queue = QueueName(TOPIC, s, 0)
                    if not book.listed(TOPIC, s):
                        self.known.pop(s, None)
                        continue
                    if s not in self.known:
                        fetched = await offsets.fetch(queue, GROUP)
                        if not isinstance(fetched, Ok):
                            continue
                        self.known[s] = fetched.value
                    polled = await session.poll(queue, self.known[s])
                    if isinstance(polled, Polled):
                        self.consumed += [body for _, body in polled.messages]
                        self.known[s] = polled.next_offset
                        await offsets.commit(queue, GROUP, polled.next_offset)

    def all_take(self, count: int) -> bool:
        """Whether each set has taken so many messages of each producer."""
        return all(self.taken[f"{s} by {n}"] >= count
                   for s in self.sets for n in self.of(Role.NAMESRV))  # fmt: skip

    def pause_s(self) -> float:
        """The longest time in which a producer had nothing acknowledged."""
        return max(b - a for times in self.acks.values() for a, b in pairwise(times))

    # The operator.

    def listens(self, name: str) -> str:
        """Where a node listens."""
        port = NAMESRV_PORT if name in self.of(Role.NAMESRV) else self.nodes[name].port
        return f"{self.address(name)}:{port}"

    def call(self, address: str, frame: Frame) -> Frame:
        """One call, once somebody listens, and its answer."""
        answers: list[Frame] = []

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                pool = Pool(group)
                while not answers:
                    try:
                        answers.append(await pool.call(address, frame, timeout_s=5.0))
                    except NotSent:
                        await asyncio.sleep(SEND_S)
                pool.close()

        self.ask(main())
        self.until(lambda: bool(answers), "an answer")
        return answers[0]

    def make_topic(self, broker_set: str) -> None:
        """As ``mqadmin updateTopic`` does."""
        address = self.listens(self.master(broker_set) or "")
        assert self.call(address, creation(TOPIC, 1)).code == ResponseCode.SUCCESS

    def order(self, code: RequestCode, broker_set: str, *namesrvs: str) -> None:
        """As ``mqadmin wipeWritePerm`` and ``addWritePerm`` do, which ask each name server."""
        frame = Frame(code=code, ext=to_ext(PermRequest(broker_name=broker_set)))
        for namesrv in namesrvs or self.of(Role.NAMESRV):
            assert self.call(self.listens(namesrv), frame).code == ResponseCode.SUCCESS

    def perms(self, broker_set: str) -> list[int | None]:
        """What each name server lets clients do with a set; None: it lists none."""
        routes = [self.call(self.listens(n), ROUTE) for n in self.of(Role.NAMESRV)]
        return [perms_in(route).get(broker_set) for route in routes]

    def lag(self, broker_set: str) -> int:
        """As ``mqadmin consumerProgress`` says: how many messages the group has not confirmed."""
        header = ConsumerGroupRequest(consumer_group=GROUP, topic=TOPIC)
        request = Frame(code=RequestCode.GET_CONSUME_STATS, ext=to_ext(header))
        answer = self.call(self.listens(self.master(broker_set) or ""), request)
        table = ConsumeStats.from_json(answer.body).offset_table
        assert table
        return sum(q.broker_offset - q.consumer_offset for q in table.values())

    def drain(self, broker_set: str) -> None:
        """Steps 2 to 5: nobody writes any more, and all is read."""
        self.order(WIPE, broker_set)
        assert self.perms(broker_set) == [READ_ONLY] * 2
        self.sleep(PERIOD_S)
        ended = self.taken[broker_set]
        self.until(lambda: self.lag(broker_set) == 0, "all is read")
        self.sleep(PERIOD_S)
        assert (self.taken[broker_set], self.lag(broker_set)) == (ended, 0)

    def remove(self, broker_set: str) -> None:
        """Steps 6 and 7: the pair and its stores go, and clients have forgotten it."""
        old = [n.name for n in self.nodes.values() if n.broker_set == broker_set]
        self.kill(*old)
        self.until(lambda: self.perms(broker_set) == [None] * 2, "nobody lists it")
        self.until(lambda: broker_set not in self.known, "the consumer has let go of it")
        for name in old:
            machine, store = self.nodes[name].process, f"/{name}/store"
            self.world.machines[machine].disk.remove(store)
            self.oracle.wiped(machine, store)

    def place(self, broker_set: str) -> None:
        """Steps 8 to 10: containers have the set, on empty stores, and clients use it."""
        new = [n.name for n in self.nodes.values() if n.broker_set == broker_set]
        running = [name for name in self.containers if name in self.processes]
        self.unlisted = {n.name for n in self.nodes.values() if n.container} - {*new}
        if running:
            self.add_all()
        else:
            self.start(*self.containers)
        self.until(lambda: {*new} <= self.brokers().keys() and self.in_sync(2), "all are in sync")
        self.make_topic(broker_set)
        self.order(ADD, broker_set)
        assert self.perms(broker_set) == [READ_AND_WRITE] * 2


@pytest.fixture
def moving() -> Iterator[Moving]:
    made = Moving()
    try:
        yield made
    finally:
        made.world.close()


@pytest.mark.parametrize("order", [("b0", "b1"), ("b1", "b0")])
def test_sets_move_into_containers_with_empty_stores(
    moving: Moving, order: tuple[str, str]
) -> None:
    """No send fails, no producer waits, and all that was acknowledged is read."""
    for broker_set in order:
        moving.drain(broker_set)
        moving.remove(broker_set)
        moving.place(broker_set)
        moving.taken.clear()
        moving.until(lambda: moving.all_take(3), "both take messages of all")
    moving.become_whole()
    moving.until(lambda: {*moving.acked} <= {*moving.consumed}, "all is read")
    assert {*moving.processes} == {"n0", "n1", "k0", "k1"}
    assert (moving.failed, moving.oracle.anomalies) == ([], [])
    assert moving.pause_s() < PAUSE_MAX_S


def test_a_name_server_that_was_not_asked_sends_producers_on(moving: Moving) -> None:
    moving.order(WIPE, "b0", "n0")
    assert moving.perms("b0") == [READ_ONLY, READ_AND_WRITE]
    moving.sleep(PERIOD_S)
    before = moving.taken.copy()
    moving.until(lambda: moving.taken["b0 by n1"] > before["b0 by n1"] + 3, "it is sent to")
    assert moving.taken["b0 by n0"] == before["b0 by n0"]


@pytest.mark.parametrize("what", ["a topic is made", "a name server starts again"])
def test_write_permission_comes_back_by_itself(moving: Moving, what: str) -> None:
    """Its brokers register with another data version, or anew."""
    moving.order(WIPE, "b0")
    moving.sleep(PERIOD_S)
    assert moving.perms("b0") == [READ_ONLY] * 2
    if what == "a topic is made":
        address = moving.listens("b0-0")
        assert moving.call(address, creation("U", 1)).code == ResponseCode.SUCCESS
        moving.until(lambda: moving.perms("b0") == [READ_AND_WRITE] * 2, what)
    else:
        moving.kill("n1")
        moving.start("n1")
        moving.until(lambda: moving.perms("b0") == [READ_ONLY, READ_AND_WRITE], what)
