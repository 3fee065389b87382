"""Ordered queues in strict mode: what clients believe to hold (claims L1, L2).

A lock is what a quorum has granted and a client has learnt. From then on it is the client's for one
lease, counted from when it asked, or until the client unlocks. A second client must not learn
the same within that time. A broker's table is watched for unlocks, and its answers for grants.
Times are ns of virtual time.
"""

from collections.abc import Callable, Iterable
from typing import Any, cast

from maxq.harness.simulation.oracle.facts import Facts, Grant, View
from maxq.reference.broker.locks.lock_quorum import Locks
from maxq.reference.broker.locks.locks import LockTable
from maxq.reference.rpc import Reply
from maxq.reference.wire.bodies import LockResponse, MessageQueue
from maxq.reference.wire.frame import Frame


class WatchedTable:
    """A broker's lease table that reports a client's unlocks; all else is the table's own."""

    def __init__(
        self, table: LockTable, unlocked: Callable[[str, str, Iterable[MessageQueue]], None]
    ) -> None:
        self._table = table
        self._unlocked = unlocked

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """End a client's own leases, and report it."""
        self._unlocked(group, client_id, queues)
        self._table.unlock(group, client_id, queues)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


def watch_locks(view: View, locks: Locks) -> None:
    """Watch what a broker grants; without strict mode nothing is promised over several brokers."""
    if not locks.polls:
        return
    facts, broker_set = view.facts, view.set.name
    lease_ns = locks._table.lease_ns
    honest = locks._win

    def unlocked(group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            held = facts.grants.get((broker_set, group, queue))
            if held is not None and held.client == client_id:
                del facts.grants[broker_set, group, queue]

    async def win(
        request: Frame, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> Reply:
        asked_ns = view.now_ns()
        answer = await honest(request, group, client_id, queues)
        if answer is not None and view.alive:
            for queue in LockResponse.from_json(answer.body).lock_ok_mq_set:
                _granted(facts, (broker_set, group, queue), client_id, view.name,
                         view.now_ns(), asked_ns + lease_ns)  # fmt: skip
        return answer

    locks._win = win  # type: ignore[method-assign]
    locks._table = cast(LockTable, WatchedTable(locks._table, unlocked))


def _granted(
    facts: Facts, key: tuple[str, str, object], client: str, by: str, now_ns: int, until_ns: int
) -> None:
    held = facts.grants.get(key)
    if held is not None and held.client != client and now_ns < held.until_ns:
        facts.report(
            "lock-held-twice", [held.by, by],
            f"{key}: {client} learns that it holds it, {held.client} does for another "
            f"{held.until_ns - now_ns} ns",
        )  # fmt: skip
    facts.grants[key] = Grant(client, until_ns, by)
