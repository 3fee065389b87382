"""Two broker sets without controllers: what waits at the first moves to the second.

A producer has sent one delayed message, or two half messages, one of which it commits when it is
asked and one of which it rolls back. Then the first set's master goes away, its slave acts, and
sends them to the second set's master. Any broker may crash meanwhile: what waited is settled while
the slave still acts; then the master returns, and both sets must be whole as
`maxq.harness.experiments.crash_points.pair_arena` says. What was delayed, and what was committed,
can be read then, at one of the sets at least and maybe more often than once; what was rolled back
never can, and no half message stays open. Of a set of which a broker is held back nothing is
promised but that what waited is in some log, settled or still before the broker that goes on.

At every look the acting slave must not remember as settled, in memory or on its disk, what the
other set has not acknowledged.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from maxq.harness.client.producers import Decision, ProducerSession
from maxq.harness.client.session import QueueName, RouteBook
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.outcome import Ok
from maxq.harness.experiments.crash_points.arena import TOPIC, WHOLE_S, NotWhole, bodies
from maxq.harness.experiments.crash_points.pair_arena import PairArena
from maxq.harness.simulation.crash_points import Crash
from maxq.reference.broker.client_calls.half_reader import HalfReader
from maxq.reference.broker.messages.transaction import GROUP, QUEUE
from maxq.reference.broker.server import Broker
from maxq.reference.names import HALF_TOPIC, SCHEDULE_TOPIC
from maxq.reference.records import QueueOffset
from maxq.reference.rpc import loop_dial
from maxq.reference.wire import property as props
from maxq.reference.wire.bodies import ConsumerOffsets, DelayOffsets
from maxq.reference.wire.message import decode

MASTER, ACTING, TARGET, COPY = "b0-0", "b0-1", "b1-0", "b1-1"
LEVEL, DELAY_S = 1, 2.0  # the only delay level
CHECK_S = 1.0  # between two rounds of half messages
DELAYED, COMMITTED, ROLLED_BACK = b"delayed", b"committed", b"rolled back"
DECIDED: dict[str, Decision] = {
    COMMITTED.decode(): "commit", ROLLED_BACK.decode(): "roll-back",
}  # fmt: skip
PRODUCERS = "producers"
STAYS_S = 0.5  # between two heartbeats of the producer


class EscapeArena(PairArena):
    """A cluster of two broker sets without controllers; arguments as `Arena`."""

    sets: ClassVar[tuple[str, ...]] = ("b0", "b1")
    quick: ClassVar[Mapping[Role, Mapping[str, str]]] = {
        **PairArena.quick,
        Role.BROKER: {
            **PairArena.quick[Role.BROKER],
            "messageDelayLevel": f"{DELAY_S:.0f}s",
            "flushDelayOffsetInterval": "300",
            "flushConsumerOffsetInterval": "300",
            "transactionCheckInterval": f"{CHECK_S * 1000:.0f}",
            "transactionTimeOut": "500",
        },
    }

    def __init__(self, crash: Crash | None, **given: Any) -> None:
        super().__init__(crash, **given)
        self.sent: dict[bytes, int] = {}  # what waits or waited -> when it was acknowledged, ns
        self._session: ProducerSession | None = None
        self.ask(self._produce())

    # The producer.

    async def _produce(self) -> None:
        """Be known to the master of each set, whoever that is by the routes."""
        namesrvs = [f"{self.address(name)}:9876" for name in self.of(Role.NAMESRV)]
        async with asyncio.TaskGroup() as group:
            book = RouteBook(lambda: namesrvs, loop_dial, group)
            book.watch((TOPIC,))
            session = self._session = ProducerSession(
                book, loop_dial, group, client_id="producer", producer_group=PRODUCERS,
                decided=lambda key: DECIDED[key],
            )  # fmt: skip
            while True:
                await book.refresh()
                session._heard.clear()  # a broker that restarts knows nobody
                for broker_set in self.sets:
                    session.stay(QueueName(TOPIC, broker_set, 0))
                await asyncio.sleep(STAYS_S)

    def send_waiting(self, *messages: bytes) -> None:
        """Let the producer send to the first set what waits there, until it is acknowledged."""
        for message in messages:
            self.ask(self._send_waiting(message))
        self.until(lambda: self.sent.keys() >= {*messages}, "what waits is acknowledged")

    async def _send_waiting(self, body: bytes) -> None:
        queue, key = QueueName(TOPIC, self.sets[0], 0), body.decode()
        while body not in self.sent:
            session = self._session
            if session is not None:
                if key in DECIDED:
                    sent, _ = await session.send_half(queue, body, born_ms=1, key=key)
                else:
                    delay = {props.DELAY: str(LEVEL)}
                    sent = await session.send(queue, body, born_ms=1, more=delay)
                if isinstance(sent, Ok):
                    self.sent[body] = self.world.scheduler.now_ns
            await asyncio.sleep(STAYS_S)

    # What became of it.

    def readable(self, *brokers: str) -> set[bytes]:
        """What consumers can read at these brokers, of any queue."""
        found = set[bytes]()
        for store in (self.brokers()[name]._store for name in brokers):
            for queue in range(store.queue_counts().get(TOPIC, 0)):
                found |= bodies(store, queue)
        return found

    def still_open(self, name: str) -> list[bytes]:
        """The half messages that are open to a broker, if it goes on where it remembers to be."""
        broker = self.brokers()[name]
        reader = HalfReader(broker._store, broker._tables)
        while reader.read_some():
            pass
        waiting = [reader.waiting(offset) for offset in reader.core.open]
        return [half.body for half in waiting if half is not None]

    def settled(self) -> bool:
        """Whether masters have what was sent, and no half message is open at any."""
        masters = [m for s in self.sets if (m := self.master(s)) is not None]
        wanted = self.sent.keys() - {ROLLED_BACK}
        return wanted <= self.readable(*masters) and not any(map(self.still_open, masters))

    def become_whole(self) -> None:
        self.until(lambda: self._sound_so_far() and (self.settled() or bool(self.out())),
                   "what waits is settled while a slave acts")  # fmt: skip
        if self.process(MASTER) not in self.processes:
            self.start(self.process(MASTER))
        self.go_on()
        super().become_whole()
        self.until(self.settled, "what waited is settled")
        self._check_rolled_back()

    def _sound_so_far(self) -> bool:
        self._sound()
        return True

    def _check_rolled_back(self) -> None:
        if ROLLED_BACK in self.readable(*self.brokers()):
            raise NotWhole("what its producer rolls back can be read")

    def _held_back(self, out: Mapping[str, str]) -> None:
        self._check_rolled_back()
        kept = self.readable(*self.brokers()).union(*map(self._waits_at, self.brokers().values()))
        kept |= {half for name in self.brokers() for half in self.still_open(name)}
        if lost := sorted(self.sent.keys() - {ROLLED_BACK} - kept):
            raise NotWhole(f"{lost[0]!r} is in no log, or behind the broker that goes on")
        super()._held_back(out)

    def _waits_at(self, broker: Broker) -> set[bytes]:
        """The delayed messages that a broker has yet to deliver."""
        start = QueueOffset(broker._tables.delay.offset_table.get(LEVEL, 0))
        units = broker._store.units(SCHEDULE_TOPIC, LEVEL - 1, start)
        return {decode(broker._store.record(unit))[0].body for _, unit in units}

    # How far the acting slave is.

    def until(self, done: Callable[[], bool], what: str, *, seconds: float = WHOLE_S) -> None:
        def looked() -> bool:
            self._check_progress()
            return done()

        super().until(looked, what, seconds=seconds)

    def restart(self, victim: str) -> None:
        self._check_progress()
        super().restart(victim)

    def _check_progress(self) -> None:
        """Raises NotWhole if the acting slave remembers as settled what nobody else has taken."""
        if self.process(MASTER) in self.processes:
            return  # its slave has what it says
        log = self.world.machines[self.process(ACTING)].log
        moved = {(trace, fields["offset"]) for _, trace, fields in log if trace in MOVED}
        for trace, places in zip(MOVED, zip(*self._positions(), strict=True), strict=True):
            for position in places:
                if early := [n for n in range(position) if (trace, n) not in moved]:
                    raise NotWhole(f"{ACTING} is at {position}, and nobody has taken {early[0]}")

    def _positions(self) -> list[tuple[int, int]]:
        """How far the slave is with delayed messages and with half messages, on its disk and, if
        it lives, in memory."""
        found = [(self.delay_on_disk(), self.half_on_disk())]
        broker = self.brokers().get(ACTING)
        if broker is not None:
            tables = broker._tables
            half = tables.offset(HALF_TOPIC, GROUP, QUEUE) or 0
            found.append((tables.delay.offset_table.get(LEVEL, 0), half))
        return found

    def delay_on_disk(self) -> int:
        """How far the slave's file of delay progress says that it is."""
        content = self._config_file("delayOffset.json")
        return DelayOffsets.from_json(content).offset_table.get(LEVEL, 0) if content else 0

    def half_on_disk(self) -> int:
        """How far the slave's file of consumer offsets says that half messages are settled."""
        content = self._config_file("consumerOffset.json")
        table = ConsumerOffsets.from_json(content).offset_table if content else {}
        return table.get(f"{HALF_TOPIC}@{GROUP}", {}).get(QUEUE, 0)

    def _config_file(self, name: str) -> bytes:
        disk = self.world.machines[self.process(ACTING)].disk
        return bytes(disk.files.get(f"/{ACTING}/store/config/{name}", b""))


MOVED = ("broker.schedule.moved", "broker.transaction.moved")  # by the acting slave, to a target
