"""A master that everybody agrees on, and that takes one message in seventy-five.

Its flow control counts what it refused as if it were under way, so that the queue of requests never
seems to get shorter. Controllers and name servers see a healthy master. Breaks S13.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from maxq.reference.broker.messages import send
from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.broker.messages.send import Accepted
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.codes import ResponseCode

FAMILY = "replication"
CLAIM = "S13"
SOURCE = "RocketMQ's BrokerFastFailure, which refuses while the head of a queue is old"
TAKEN = 75  # of so many one


@contextmanager
def mutant() -> Iterator[None]:
    """Refuse all sends but one in so many."""
    honest, numbers = send.accept, count()

    def accept(*args: Any, **kwargs: Any) -> Accepted | Refusal:
        ran(__name__)
        if next(numbers) % TAKEN:
            diverged(__name__)
            why = "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while"
            return Refusal(code=ResponseCode.SYSTEM_BUSY, remark=why)
        return honest(*args, **kwargs)

    with replaced(send, "accept", accept):
        yield
