"""An acting slave that takes messages into its own log.

It is shown to clients in the master's place, and takes their word for it. Its log is a copy of the
master's no more, and when that one is back, neither can be continued by the other. Breaks A4.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from maxq.reference.broker.client_calls import slave_refusals
from maxq.reference.broker.messages import send
from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.mutants import diverged, replaced
from maxq.reference.rpc import Connection, Handler, Reply
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame

FAMILY = "acting"
CLAIM = "A4"
SOURCE = "RocketMQ's isSlave check of the store, left out for whoever acts"


@contextmanager
def mutant() -> Iterator[None]:
    """Refuse nothing as a slave."""

    def guarded(
        handler: Handler,
        is_slave: Callable[[], bool],
        code: ResponseCode,
        remark: str,
        request: Frame,
        connection: Connection,
    ) -> Reply | Awaitable[Reply]:
        return handler(request, connection)

    honest = send.role_fault

    def role_fault(s: send.Situation) -> Refusal | None:
        if s.role == "slave":
            diverged(__name__)
            return None
        return honest(s)

    with (
        replaced(slave_refusals, "_guarded", guarded),
        replaced(send, "role_fault", role_fault),
    ):
        yield
