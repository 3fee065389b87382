"""A slave whose first delayed message without a target holds up its level, as RocketMQ's does.

What is due behind it waits for the master to be back, though another broker set would take it.
Breaks E1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.escape import delayed_escape
from maxq.reference.broker.escape.delayed_escape import DelayedEscape
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.node import now_ns
from maxq.reference.records import QueueOffset

FAMILY = "escape"
CLAIM = "E1"
SOURCE = "RocketMQ, ScheduleMessageService, which tries one message of a level until it is put"
PAUSE_NS = 100_000_000  # between two tries, as RocketMQ's


@contextmanager
def mutant() -> Iterator[None]:
    """Send nothing of a level while an earlier message of it has found no target."""
    honest = DelayedEscape._send

    def send(self: DelayedEscape, level: delayed_escape._Level, offset: QueueOffset) -> None:
        ran(__name__)
        held, first = level.attempts._held, level.attempts.first
        if first is not None and first < offset and held[first].tries:
            diverged(__name__)
            held[offset].flying, held[offset].again_ns = False, now_ns() + PAUSE_NS
            return
        honest(self, level, offset)

    with replaced(DelayedEscape, "_send", send):
        yield
