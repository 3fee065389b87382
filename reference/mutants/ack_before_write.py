"""A broker that acknowledges at once and writes a second later.

Stands for every store that answers from memory it has not handed to the kernel (RocketMQ's
transient store pool without a flush does). A kill within that second loses acknowledged messages
and gives their offsets out again. Breaks S6, S11.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from maxq.reference.broker.replication.ha import HaServer
from maxq.reference.broker.store.store import Store, Stored
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import MasterEpoch, PhyOffset, QueueOffset
from maxq.reference.wire.message import Message, encoded_size

FAMILY = "replication"
CLAIM = "S6"
SOURCE = "RocketMQ's transient store pool without a flush; every store that answers from memory"

DELAY_S = 1.0


@contextmanager
def mutant() -> Iterator[None]:
    """Delay every write, not its acknowledgement."""
    honest = Store.put
    promised: dict[tuple[Store, str, int], int] = {}  # store, topic, queue -> next offset

    def put(self: Store, messages: Sequence[Message]) -> list[Stored]:
        diverged(__name__)
        key = (self, messages[0].topic, messages[0].queue_id)
        _, visible = self.bounds(*key[1:])
        first = max(promised.get(key, 0), visible)
        promised[key] = first + len(messages)
        asyncio.get_running_loop().call_later(DELAY_S, honest, self, messages)
        return [
            Stored(
                queue_offset=QueueOffset(first + at),
                physical_offset=self.end,
                end=PhyOffset(self.end + encoded_size(message)),
            )
            for at, message in enumerate(messages)
        ]

    def when_acknowledged(
        self: HaServer, end: PhyOffset, master_epoch: MasterEpoch, then: Callable[[str], None]
    ) -> None:
        then("")  # nor does it wait for replicas, who could not have the message yet

    with replaced(Store, "put", put), replaced(HaServer, "when_acknowledged", when_acknowledged):
        yield
