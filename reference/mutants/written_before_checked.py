"""A slave that writes what its master sends before it has checked it.

A bit that the master's disk misreads once is in the slave's log for good: it has acknowledged a
record that it has not, and counts for it in the SyncStateSet. Breaks S9.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from reference.broker.store import incoming
from reference.broker.store.commit_log import sound_record
from reference.mutants import diverged, ran, replaced
from reference.records import RemoteProtocolError
from reference.wire.message import Message, decode

FAMILY = "replication"
CLAIM = "S9"
SOURCE = "RocketMQ appends a master's bytes, and looks at them when it dispatches them"


@contextmanager
def mutant() -> Iterator[None]:
    """Take a record whose body does not fit its crc."""

    def taken(
        data: bytes | memoryview, at: int, offset: int, *, strict: bool = False
    ) -> Message | None:
        ran(__name__)
        sound = sound_record(data, at, offset, strict=strict)
        if sound is not None:
            return sound
        diverged(__name__)
        try:
            return decode(data, at, check_crc=False)[0]
        except RemoteProtocolError:
            return None

    with replaced(incoming, "sound_record", taken):
        yield
