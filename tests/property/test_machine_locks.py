"""Locks of ordered queues, driven by rules: one table beside a naive twin, three beside exclusion.

The second machine is the promise itself (L1): brokers restart and forget, messages are lost, late
and doubled, and yet no two clients are told at a time that a quorum has granted them one queue.
"""

from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machines import SETTINGS, finds

from maxq.reference.broker.locks import locks
from maxq.reference.broker.locks.locks import LockTable, Tally, quorum
from maxq.reference.wire.bodies import MessageQueue

LEASE = 50
GROUP = "g"
QUEUES = [MessageQueue(topic="T", broker_name="b", queue_id=i) for i in range(2)]
CLIENTS = st.sampled_from(["A", "B", "C"])
RIVALS = st.sampled_from(["A", "B"])
SOME = st.lists(st.sampled_from(QUEUES), min_size=1, max_size=2, unique=True)
MARKS = st.none() | st.sampled_from(["1", "2", "3"])
BROKERS = range(3)


def last(marks: tuple[str | None, str | None]) -> str:
    """Two marks as a broker names them."""
    return f"{marks[0] or ''}/{marks[1]}"


class TableMachine(RuleBasedStateMachine):
    """A table beside the list of all grants that were not ended."""

    @initialize(closed=st.sampled_from([0, LEASE]))
    def begin(self, closed: int) -> None:
        self.now, self.closed = 0, closed
        self.table = LockTable(LEASE, closed)
        # queue -> (client, last renewal, the attempt that made it, the last two attempts)
        self.twin: dict[
            MessageQueue, tuple[str, int, str | None, tuple[str | None, str | None]]
        ] = {}

    def owner(self, queue: MessageQueue) -> str | None:
        held = self.twin.get(queue)
        return None if held is None or self.now - held[1] > LEASE else held[0]

    @rule(by=st.integers(1, 60))
    def time_passes(self, by: int) -> None:
        self.now += by

    @rule(client=CLIENTS, queues=SOME, mark=MARKS)
    def asks(self, client: str, queues: list[MessageQueue], mark: str | None) -> None:
        free = [q for q in queues if self.owner(q) in (None, client)]
        wanted = () if self.now < self.closed else tuple(free)
        for queue in wanted:
            renews = self.owner(queue) == client
            before = self.twin[queue][3][1] if renews else None
            self.twin[queue] = (client, self.now, None if renews else mark, (before, mark))
        assert self.table.lock(self.now, GROUP, client, queues, attempt=mark) == wanted

    @rule(client=CLIENTS, queues=SOME)
    def unlocks(self, client: str, queues: list[MessageQueue]) -> None:
        self.table.unlock(GROUP, client, queues)
        self._end([q for q in queues if self.twin.get(q, ("",))[0] == client])

    @rule(client=CLIENTS, queues=SOME, mark=st.sampled_from(["1", "2", "3"]))
    def undoes(self, client: str, queues: list[MessageQueue], mark: str) -> None:
        self.table.undo(GROUP, client, queues, mark)
        self._end([q for q in queues if (h := self.twin.get(q)) and (h[0], h[2]) == (client, mark)])

    @rule(client=CLIENTS, queues=SOME, before=st.sampled_from([None, "1", "2"]),
          mark=st.sampled_from(["1", "2", "3"]))  # fmt: skip
    def releases(
        self, client: str, queues: list[MessageQueue], before: str | None, mark: str
    ) -> None:
        self.table.release(GROUP, client, queues, last((before, mark)))
        ended = (client, (before, mark))
        self._end([q for q in queues if (h := self.twin.get(q)) and (h[0], h[3]) == ended])

    def _end(self, queues: list[MessageQueue]) -> None:
        for queue in queues:
            del self.twin[queue]

    @rule()
    def forgets_what_has_run_out(self) -> None:
        self.table.expire(self.now)

    @rule(client=CLIENTS, queues=SOME)
    def marks_are_those_of_the_last_attempt(self, client: str, queues: list[MessageQueue]) -> None:
        found: dict[str, tuple[MessageQueue, ...]] = {}
        for queue in queues:
            held = self.twin.get(queue)
            if held is not None and held[0] == client and held[3][1] is not None:
                found[last(held[3])] = (*found.get(last(held[3]), ()), queue)
        got = self.table.marks(GROUP, client, queues)
        live = {q for q in queues if self.owner(q) == client}
        for mark, theirs in found.items():  # what has run out may be forgotten
            assert live & set(theirs) <= set(got.get(mark, ()))
        assert all(set(qs) <= set(found[mark]) for mark, qs in got.items())

    @invariant()
    def owners_are_the_same(self) -> None:
        if hasattr(self, "table"):
            for queue in QUEUES:
                assert self.table.owner(self.now, GROUP, queue) == self.owner(queue)
            held = any(self.owner(q) for q in QUEUES)
            assert self.table.is_held(self.now, GROUP) == held


@dataclass
class Attempt:
    """A client's request at one broker, and who of the others has not answered yet."""

    client: str
    home: int
    mark: str
    asked_ns: int
    tally: Tally
    waits: list[int]  # not asked yet: the message is on its way
    grants: dict[int, bool]  # asked; the answer is on its way
    told: bool = False


class RivalsMachine(RuleBasedStateMachine):
    """Three brokers in strict mode, one queue: clients ask, answers are lost, brokers restart. No
    time passes, and nobody unlocks."""

    @initialize()
    def begin(self) -> None:
        self.now = LEASE
        self.tables = [LockTable(LEASE, 0) for _ in BROKERS]
        self.attempts: list[Attempt] = []
        self.unlocks: list[tuple[int, str, str | None]] = []  # to a broker, of a client, the mark
        self.count = 0
        self.holds: dict[str, int] = {}  # client -> until when it may believe so

    @rule(client=RIVALS, home=st.sampled_from(BROKERS))
    def a_client_asks(self, client: str, home: int) -> None:
        self.count += 1
        mark = str(self.count)
        mine = self.tables[home].lock(self.now, GROUP, client, QUEUES[:1], attempt=mark)
        others = [b for b in BROKERS if b != home] if mine else []
        tally = Tally(locks.quorum(len(BROKERS)), mine, asked=len(others))
        attempt = Attempt(client, home, mark, self.now, tally, others, {})
        self.attempts.append(attempt)
        self._look(attempt)

    @precondition(lambda self: any(a.waits for a in self.attempts))
    @rule(data=st.data())
    def a_broker_is_asked(self, data: st.DataObject) -> None:
        attempt = data.draw(st.sampled_from([a for a in self.attempts if a.waits]))
        broker = data.draw(st.sampled_from(attempt.waits))
        attempt.waits.remove(broker)
        got = self.tables[broker].lock(
            self.now, GROUP, attempt.client, QUEUES[:1], attempt=attempt.mark
        )
        attempt.grants[broker] = bool(got)

    @precondition(lambda self: any(a.grants for a in self.attempts))
    @rule(data=st.data(), lost=st.booleans())
    def an_answer_arrives(self, data: st.DataObject, lost: bool) -> None:
        attempt = data.draw(st.sampled_from([a for a in self.attempts if a.grants]))
        broker = data.draw(st.sampled_from(sorted(attempt.grants)))
        granted = attempt.grants.pop(broker) and not lost
        attempt.tally.on_answer(QUEUES[:1] if granted else ())
        self._look(attempt)
        if attempt.tally.lost and granted:
            self.tables[broker].undo(GROUP, attempt.client, QUEUES[:1], attempt.mark)

    def _look(self, attempt: Attempt) -> None:
        """Tell the client once it is decided."""
        tally = attempt.tally
        if not tally.decided or attempt.told:
            return
        attempt.told = True
        self.tables[attempt.home].undo(GROUP, attempt.client, tally.lost, attempt.mark)
        if tally.won:
            for client, until in self.holds.items():
                assert client == attempt.client or self.now > until, "two clients hold one queue"
            until = attempt.asked_ns + LEASE
            self.holds[attempt.client] = max(until, self.holds.get(attempt.client, 0))

    @precondition(lambda self: self.count > 3)
    @rule(broker=st.sampled_from(BROKERS))
    def a_broker_restarts(self, broker: int) -> None:
        """It forgets all, and grants nothing for one lease; what it asked for is over."""
        self.tables[broker] = LockTable(LEASE, self.now + LEASE)
        self.attempts = [a for a in self.attempts if a.home != broker]

    @invariant()
    def a_count_is_a_count(self) -> None:
        for attempt in getattr(self, "attempts", ()):
            won, lost = attempt.tally.won, attempt.tally.lost
            assert not set(won) & set(lost)
            if not attempt.waits and not attempt.grants:
                assert attempt.tally.decided


class QuorumMachine(RivalsMachine):
    """The same, and leases run out, and unlocks are on their way for as long as they please."""

    @rule(by=st.integers(1, 12))
    def time_passes(self, by: int) -> None:
        self.now += by

    @rule(client=RIVALS, home=st.sampled_from(BROKERS))
    def a_client_unlocks(self, client: str, home: int) -> None:
        """It believes nothing any more, also of what is still on its way to it."""
        self.holds.pop(client, None)
        self.attempts = [a for a in self.attempts if a.client != client]
        ended = self.tables[home].marks(GROUP, client, QUEUES[:1])
        self.tables[home].unlock(GROUP, client, QUEUES[:1])
        self.unlocks += [(b, client, m) for m in ended for b in BROKERS if b != home]

    @precondition(lambda self: self.unlocks)
    @rule(data=st.data())
    def an_unlock_arrives_late(self, data: st.DataObject) -> None:
        broker, client, mark = self.unlocks.pop(data.draw(st.integers(0, len(self.unlocks) - 1)))
        self.tables[broker].release(GROUP, client, QUEUES[:1], mark or "")


MANY = settings(SETTINGS, max_examples=500, stateful_step_count=30)
TableMachine.TestCase.settings = SETTINGS
QuorumMachine.TestCase.settings = MANY
TestTableMachine = TableMachine.TestCase
TestQuorumMachine = QuorumMachine.TestCase


def undo_all(self: LockTable, group: str, client: str, queues: object, attempt: str) -> None:
    """A failed attempt also ends what an older one had won."""
    self.unlock(group, client, QUEUES)


def release_all(self: LockTable, group: str, client: str, queues: object, mark: str) -> None:
    """A late unlock also ends what was acquired since."""
    self.unlock(group, client, QUEUES)


@pytest.mark.parametrize(("name", "wrong"), [("undo", undo_all), ("release", release_all)])
def test_the_twin_can_fail(monkeypatch: pytest.MonkeyPatch, name: str, wrong: object) -> None:
    monkeypatch.setattr(LockTable, name, wrong)
    finds(TableMachine)


def test_a_restart_without_a_pause_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's: a broker grants at once what it has forgotten that it granted."""
    honest = LockTable.lock

    def lock(self: LockTable, now_ns: int, *given: Any, **more: Any) -> tuple[MessageQueue, ...]:
        self.closed_until_ns = 0
        return honest(self, now_ns, *given, **more)

    monkeypatch.setattr(LockTable, "lock", lock)
    finds(RivalsMachine, MANY)


def test_a_minority_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert quorum(3) == 2
    monkeypatch.setattr(locks, "quorum", lambda total: 1)
    finds(QuorumMachine, MANY)
