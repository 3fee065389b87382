"""A slave that counts what no target takes as stored there.

It passes what waits at its master, so that nobody delivers it, or asks about it, any more. Breaks
E1 of delayed messages, and E4.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.escape.escape import Attempts, Sent
from maxq.reference.broker.escape.escape_bridge import EscapeBridge
from maxq.reference.mutants import diverged, replaced
from maxq.reference.node import now_ns
from maxq.reference.records import QueueOffset
from maxq.reference.wire.message import Message

FAMILY = "escape"
CLAIM = "E4"
SOURCE = "the hazard of an answer that is not looked at; docs/spec/acting-master.md 4"


@contextmanager
def mutant() -> Iterator[None]:
    """Take no for yes."""
    honest = EscapeBridge.carry

    async def carry(
        self: EscapeBridge, attempts: Attempts, offset: QueueOffset, made: tuple[str, Message]
    ) -> Sent:
        result = await honest(self, attempts, offset, made)
        if result != "refused":
            return result
        diverged(__name__)
        attempts.on_result(offset, "stored", now_ns())
        return "stored"

    with replaced(EscapeBridge, "carry", carry):
        yield
