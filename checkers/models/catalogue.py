"""All models by name."""

from collections.abc import Mapping

from maxq.checkers.linearizability.model import Model
from maxq.checkers.models.kv import KeyValue
from maxq.checkers.models.leases import Fencing, Lease
from maxq.checkers.models.locks import Mutex, RwLock, Semaphore
from maxq.checkers.models.logs.kafka import Kafka
from maxq.checkers.models.logs.log import Log
from maxq.checkers.models.queues import FifoQueue, Queue
from maxq.checkers.models.registers import (
    CasRegister,
    MultiRegister,
    Register,
    StrictCasRegister,
)
from maxq.checkers.models.sets import Counter, GrowSet, UniqueIds
from maxq.checkers.models.snapshots import Bank, LongFork
from maxq.checkers.models.total import SetFull, TotalQueue
from maxq.checkers.models.transactions import ListAppend, RwRegister

OURS: tuple[type[Model], ...] = (
    Bank, CasRegister, Counter, Fencing, FifoQueue, GrowSet, Kafka, KeyValue, Lease, ListAppend,
    Log, LongFork, MultiRegister, Mutex, Queue, Register, RwLock, RwRegister, Semaphore, SetFull,
    StrictCasRegister, TotalQueue, UniqueIds,
)  # fmt: skip


def models() -> Mapping[str, Model]:
    """Every model there is, by name, in order of names."""
    return {kind.name: kind() for kind in sorted(OURS, key=lambda kind: kind.name)}
