"""A slave in a container that asks another machine before the master beside it.

What is due takes the network and another machine's disk, though its own process could store it.
Breaks B12.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.escape.escape import Attempts, Target
from maxq.reference.broker.escape.escape_bridge import EscapeBridge
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import QueueOffset
from maxq.reference.wire.message import Message

FAMILY = "container"
CLAIM = "B12"
SOURCE = "docs/spec/acting-master.md 2.6: a local master first"


@contextmanager
def mutant() -> Iterator[None]:
    """Take the masters elsewhere, if there are any."""
    honest = EscapeBridge._found

    async def found(
        self: EscapeBridge, attempts: Attempts, offset: QueueOffset, copy: Message
    ) -> tuple[Target, ...]:
        local = self._local(copy.topic, copy.queue_id)
        others = await self.targets(copy.topic) if local is not None else ()
        remote = tuple(t for t in others if local is None or t.broker_name != local.broker_name)
        if remote:
            diverged(__name__)
            return remote
        return await honest(self, attempts, offset, copy)

    with replaced(EscapeBridge, "_found", found):
        yield
