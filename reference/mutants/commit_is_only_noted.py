"""A master that writes down that a transaction was committed, and stores no message.

Its producer learns that the commit stands, and nobody asks about the half message any more. Breaks
E6.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.client_calls.transactions import Transactions
from maxq.reference.broker.messages import transaction
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.records import QueueOffset
from maxq.reference.wire.message import Message

FAMILY = "escape"
CLAIM = "E6"
SOURCE = "the hazard of two records for one commit; docs/spec/acting-master.md 4"


@contextmanager
def mutant() -> Iterator[None]:
    """End without a message what nobody was asked about."""
    honest = Transactions._commit

    async def _commit(self: Transactions, waiting: Message, end: QueueOffset) -> str | None:
        ran(__name__)
        if transaction.facts(waiting).times:
            return await honest(self, waiting, end)
        diverged(__name__)
        self._write_op(end)
        return None

    with replaced(Transactions, "_commit", _commit):
        yield
