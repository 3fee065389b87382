"""A slave that lets consumers read only while it copies a log.

Its master is gone, routes show it in its place, and it refuses every pull until the master is back:
that is when it is needed. Breaks A5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.client_calls.pulls import Pulls
from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.mutants import diverged, replaced
from maxq.reference.wire.codes import ResponseCode

FAMILY = "acting"
CLAIM = "A5"
SOURCE = "hazard: a slave refuses pulls with code 2 by default (docs/spec/acting-master.md 3)"


@contextmanager
def mutant() -> Iterator[None]:
    """Refuse as a slave does by default, once the connection is cut."""
    honest = Pulls._role_fault_of_pull

    def fault(self: Pulls) -> Refusal | None:
        found, links = honest(self), self._membership.links()
        slave = None if links is None else links.copying
        if found is not None or not isinstance(slave, PlainSlave) or slave.connected:
            return found
        diverged(__name__)
        why = "[REJECTREQUEST]system busy, start flow control for a while"
        return Refusal(code=ResponseCode.SYSTEM_BUSY, remark=why)

    with replaced(Pulls, "_role_fault_of_pull", fault):
        yield
