"""What an acting slave does with what it has to store elsewhere, driven by rules.

Brokers take messages, refuse them, or stay silent about one that they may have stored; routes come
and go. The model is what every broker has stored, and what it has said. Claims E1, E4, E5: progress
passes a message only once a broker has said that it has it, one that no broker takes holds up none,
and a broker that was silent is asked first.
"""

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from machines import SETTINGS, finds

from maxq.reference.broker.escape import escape
from maxq.reference.broker.escape.escape import Attempts, Place, Sent, Target
from maxq.reference.records import QueueOffset

NAMES = st.sampled_from(["a", "b", "c"])
MANY = 64
PAST_EVERY_PAUSE_NS = 4_000_000_000


class EscapeMachine(RuleBasedStateMachine):
    """One queue of an acting slave and three brokers."""

    @initialize()
    def begin(self) -> None:
        self.now = 0
        self.attempts = Attempts()
        self.next = 0
        self.route = {"a"}  # who takes messages
        self.flying: dict[int, Place | None] = {}
        self.stored: dict[int, set[str]] = {}  # message -> who has it
        self.said: set[int] = set()  # messages of which a broker has said so
        self.silent: dict[int, tuple[str, int]] = {}  # message -> whose silence, how often

    def known(self) -> tuple[Target, ...]:
        return tuple(Target(broker_name=n, address=f"{n}:1", queues=2) for n in sorted(self.route))

    @rule()
    def read(self) -> None:
        if self.attempts.room and self.next < MANY:
            self.attempts.begin(QueueOffset(self.next))
            self.next += 1

    @rule(name=NAMES)
    def route_changes(self, name: str) -> None:
        self.route ^= {name}

    @rule(waits=st.sampled_from([0, 50_000_000, PAST_EVERY_PAUSE_NS]))
    def tick(self, waits: int) -> None:
        self.now += waits
        for offset in self.attempts.take_due(self.now):
            assert offset not in self.flying, "sent while it is on its way"
            assert offset not in self.said, "sent again though a broker has it"
            place = self.attempts.place(offset, self.known())
            assert (place is None) == (not self.route)
            if place is not None:
                assert place.broker_name in self.route
                before, times = self.silent.get(offset, ("", 0))
                if before in self.route and times <= escape.TIED_MAX:
                    assert place.broker_name == before, "not where it may be stored"
            self.flying[offset] = place

    @rule(data=st.data(), result=st.sampled_from(["stored", "refused", "lost", "unheard"]))
    def answer(self, data: st.DataObject, result: str) -> None:
        if not self.flying:
            return
        offset = data.draw(st.sampled_from(sorted(self.flying)))
        place = self.flying.pop(offset)
        if place is None:
            self.silent.pop(offset, None)
            self.attempts.on_result(QueueOffset(offset), "refused", self.now)
            return
        name = place.broker_name
        if result in ("stored", "unheard"):
            self.stored.setdefault(offset, set()).add(name)
        if result == "stored":
            self.said.add(offset)
            self.attempts.on_result(QueueOffset(offset), "stored", self.now)
        elif result == "refused":
            self.silent.pop(offset, None)
            self.attempts.on_result(QueueOffset(offset), "refused", self.now)
        else:
            before, times = self.silent.get(offset, (name, 0))
            self.silent[offset] = name, times + 1 if before == name else 1
            self.attempts.on_result(QueueOffset(offset), "unsure", self.now)

    @invariant()
    def progress_is_never_too_high(self) -> None:
        reached = escape.reached(QueueOffset(self.next), self.attempts.first)
        settled = next((n for n in range(self.next) if n not in self.said), self.next)
        assert reached == settled
        assert all(self.stored[n] for n in range(reached))

    @invariant()
    def never_too_many_at_once(self) -> None:
        assert self.attempts.flying == len(self.flying) <= escape.FLYING_MAX

    def teardown(self) -> None:
        """With a broker that takes all, all that was read is stored in the end."""
        if not hasattr(self, "flying"):
            return
        for offset in list(self.flying):
            self.flying.pop(offset)
            self.attempts.on_result(QueueOffset(offset), "refused", self.now)
        for _ in range(3 * MANY):
            self.now += PAST_EVERY_PAUSE_NS
            for offset in self.attempts.take_due(self.now):
                self.attempts.place(offset, self.known())
                self.attempts.on_result(offset, "stored", self.now)
        assert self.attempts.first is None


TestEscape = EscapeMachine.TestCase
TestEscape.settings = SETTINGS


def test_progress_before_the_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escape, "reached", lambda next_offset, first: next_offset)
    finds(EscapeMachine)


def test_an_unsure_answer_taken_for_a_stored_message_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = Attempts.on_result

    def on_result(self: Attempts, offset: QueueOffset, result: Sent, now_ns: int) -> None:
        honest(self, offset, "stored" if result == "unsure" else result, now_ns)

    monkeypatch.setattr(Attempts, "on_result", on_result)
    finds(EscapeMachine)
