"""A master that asks about an open half message, and stores nothing when it is committed.

It takes the copy that it wrote with its question for the message. Breaks E7.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.client_calls.transactions import Transactions
from maxq.reference.broker.messages import transaction
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import QueueOffset
from maxq.reference.wire.message import Message

FAMILY = "escape"
CLAIM = "E7"
SOURCE = "the hazard of the copy with each question; docs/spec/acting-master.md 4"


@contextmanager
def mutant() -> Iterator[None]:
    """End without a message what somebody was asked about."""
    honest = Transactions._commit

    async def _commit(self: Transactions, waiting: Message, end: QueueOffset) -> str | None:
        ran(__name__)
        if not transaction.facts(waiting).times:
            return await honest(self, waiting, end)
        diverged(__name__)
        self._write_op(end)
        return None

    with replaced(Transactions, "_commit", _commit):
        yield
