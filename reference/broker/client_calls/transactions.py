"""Ends transactions, and asks producers about those that stay open, on a master.

A commit is answered as in RocketMQ: when disk and replicas have the message as its sender wanted,
or when that takes too long; the answer is the same, and most producers want none. What a fail-over
takes away of a commit, it takes away with the op record behind it; then the half message is still
open at the new master, which asks about it, and the producer commits again. (Java writes op records
some seconds later, together, and so commits twice more often.) An end that came before is not done
again, as long as this broker has been master since; Java does it again.

How far both topics are behind us is remembered as consumer offsets of a group of RocketMQ's own,
which slaves copy, of either kind: they count only what replicas and disk have.

Source: RocketMQ ``EndTransactionProcessor``, ``TransactionalMessageServiceImpl.check``.
"""

import asyncio
import contextlib

import msgspec

from maxq.reference.broker.client_calls.acknowledgement import reached
from maxq.reference.broker.client_calls.clients import Clients
from maxq.reference.broker.client_calls.half_reader import AT_ONCE_MAX, HalfReader
from maxq.reference.broker.client_calls.made_topics import MadeTopics
from maxq.reference.broker.client_calls.record_reads import record_at
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.messages import transaction
from maxq.reference.broker.messages.half_queue import HalfQueue
from maxq.reference.broker.messages.refusal import Refusal
from maxq.reference.broker.messages.transaction import NOT_FOUND, QUEUE, Half
from maxq.reference.broker.store.store import Store, Stored
from maxq.reference.broker.store.topics import Tables
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.names import GIVEN_UP_TOPIC, HALF_TOPIC
from maxq.reference.records import LocalProtocolError, QueueOffset, some
from maxq.reference.rpc import Connection, Handler, NotSent, Reply
from maxq.reference.wire import property as props
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import EndTransactionRequest, from_ext, to_ext
from maxq.reference.wire.message import (
    TRANSACTION_COMMIT,
    TRANSACTION_ROLLBACK,
    Message,
    decode,
)

UNKNOWN = "UNKNOWN_ERROR DEFAULT"  # Java's word for whatever its store did not do


class Transactions:
    """Handler of 37; `tick` every ``transactionCheckInterval``.

    Args:
        config: the broker's.
        node: clock and log.
        store: where half messages are.
        tables: remembers how far they are done with.
        membership: role and address.
        topics: makes the topic of half messages that are given up.
        clients: the producers.
    """

    def __init__(
        self,
        config: BrokerConfig,
        node: Host,
        store: Store,
        tables: Tables,
        membership: Membership,
        topics: MadeTopics,
        clients: Clients,
    ) -> None:
        self._config = config
        self._node = node
        self._store = store
        self._tables = tables
        self._membership = membership
        self._topics = topics
        self._clients = clients
        self._term: int | None = None  # the master epoch that the rest is of
        self._reader = HalfReader(store, tables)

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.END_TRANSACTION: self._end}

    @property
    def _core(self) -> HalfQueue:
        return self._reader.core

    # Ends.

    async def _end(self, request: Frame, connection: Connection) -> Reply:
        h = from_ext(EndTransactionRequest, request.ext)
        refusal = self._role_fault()
        if refusal is not None:
            return request.answer(refusal.code, refusal.remark)
        if h.commit_or_rollback not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
            return None  # the producer does not know either; RocketMQ has no answer to that
        self._begin()
        record = record_at(self._store, h.commit_log_offset)
        waiting = None if record is None else decode(record)[0]
        refusal = transaction.fault_of_end(h, waiting, now_ms=self._node.wall_ms())
        if refusal is not None:
            return request.answer(refusal.code, refusal.remark)
        waiting = some(waiting, "what is not there is refused")
        end = self._core.to_end(waiting.queue_offset, transaction.facts(waiting).key)
        if end is None:  # it has ended
            return request.answer(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        if h.commit_or_rollback == TRANSACTION_COMMIT:
            why = await self._commit(waiting, end)
        else:
            why = None if self._write_op(end) else UNKNOWN
        return request.answer(ResponseCode.SYSTEM_ERROR if why else ResponseCode.SUCCESS, why)

    def _role_fault(self) -> Refusal | None:
        role = self._membership.role
        if role == "slave" or (role == "fenced" and self._config.broker_role == "SLAVE"):
            return Refusal(code=ResponseCode.SLAVE_NOT_AVAILABLE, remark="")
        if role == "fenced":
            why = "service not available now. It may be caused by the broker being fenced"
            return Refusal(code=ResponseCode.SERVICE_NOT_AVAILABLE, remark=why)
        return None

    async def _commit(self, waiting: Message, end: QueueOffset) -> str | None:
        """Store the message and, in the same step, what says so; why not."""
        try:
            message = transaction.committed(waiting, self._membership.host)
        except LocalProtocolError:  # a record of another broker's, that we would not write
            return UNKNOWN
        if message is None:
            return NOT_FOUND
        waits = message.property_map().get(props.WAIT) != "false"
        if waits and self._membership.in_sync_count < self._config.min_in_sync_replicas:
            return "in-sync replicas not enough"
        stored = self._put(message)
        if stored is None:
            return UNKNOWN
        self._write_op(end)  # if it fails the commit stands, and may come again
        if waits:
            await reached(
                self._config, self._store, self._membership, stored.end, lambda code, _: code
            )
        return None

    def _write_op(self, end: QueueOffset, copy: QueueOffset | None = None) -> bool:
        op = transaction.ended(end, self._node.wall_ms(), self._membership.host)
        if self._put(op) is None:
            return False
        self._core.on_ended(end, copy)
        return True

    def _put(self, message: Message) -> Stored | None:
        try:
            (stored,) = self._store.put([message])
        except (ValueError, OSError) as error:  # it does not fit; the disk is full
            self._node.log("broker.transaction.failed", why=str(error))
            return None
        return stored

    # Questions.

    async def tick(self) -> None:
        """Ask producers about what is open for too long."""
        if not self._serves:
            self._term = None
            return
        self._begin()
        term = self._term
        if not await self._read_all() or not self._membership.knows_the_end:
            return
        self._core.forget(self._store.bounds(HALF_TOPIC, QUEUE)[0])
        self._reader.remember()
        now, timeout_ms = self._node.wall_ms(), self._config.transaction_time_out
        for number, due in enumerate(list(self._core.due(now, timeout_ms))):
            if number % AT_ONCE_MAX == AT_ONCE_MAX - 1:
                await asyncio.sleep(0)
            if self._term != term or not self._leads():
                return
            if due.offset < self._store.bounds(HALF_TOPIC, QUEUE)[0]:  # it went meanwhile
                continue
            if due.times >= self._config.transaction_check_max:
                await self._give_up(due)
            else:
                self._ask_about(due)

    def _leads(self) -> bool:
        """Whether this broker is still master of the term that it has read for."""
        return self._serves and self._membership.master_epoch == self._term

    @property
    def _serves(self) -> bool:
        """Whether this broker is master, and in its group: else others may be further."""
        return self._membership.role == "master" and not self._membership.isolated

    def _begin(self) -> None:
        """In a new term, go on where the last master is known to have been.

        A position behind the end of its queue is of records that were lost in an unclean election.
        """
        if self._leads():
            return
        self._term = self._membership.master_epoch
        self._reader = HalfReader(self._store, self._tables)

    async def _read_all(self) -> bool:
        """Read what is new in both topics; false if this broker leads no more."""
        while self._reader.read_some():
            await asyncio.sleep(0)
            if not self._leads():
                return False
        return True

    async def _give_up(self, due: Half) -> None:
        """Put the half message where an operator may find it, and end it."""
        await self._topics.known(GIVEN_UP_TOPIC)
        first, _ = self._store.bounds(HALF_TOPIC, QUEUE)
        if not self._leads() or due.offset < first:
            return
        waiting = self._waiting(due)
        if self._put(transaction.given_up(waiting, self._membership.host)) is not None:
            self._write_op(due.offset)
            self._node.log("broker.transaction.given-up", at=waiting.physical_offset)

    def _waiting(self, due: Half) -> Message:
        return some(self._reader.waiting(due.offset), "what is open is in the log")

    def _ask_about(self, due: Half) -> None:
        """Write the half message anew, then ask a producer of its group."""
        try:
            copy = transaction.renewed(self._waiting(due), self._membership.host)
        except LocalProtocolError as error:  # no room for the count
            self._node.log("broker.transaction.lost", offset=due.offset, why=str(error))
            self._write_op(due.offset)
            return
        stored = self._put(copy)
        if stored is not None and self._write_op(due.offset, stored.queue_offset):
            self._ask(
                msgspec.structs.replace(
                    copy,
                    queue_offset=stored.queue_offset,
                    physical_offset=stored.physical_offset,
                    store_timestamp=stored.at_ms,
                )
            )

    def _ask(self, waiting: Message) -> None:
        asked = transaction.question(waiting, self._config.broker_name)
        group = waiting.property_map().get(props.PGROUP, "")
        members = self._clients.producers.get(group, {})
        name = transaction.producer_of(waiting, sorted(members))
        channel = None if name is None else members[name].channel
        if asked is None or not isinstance(channel, Connection):
            self._node.log("broker.transaction.nobody", group=group, at=waiting.physical_offset)
            return
        header, body = asked
        question = Frame(code=RequestCode.CHECK_TRANSACTION_STATE, ext=to_ext(header), body=body)
        with contextlib.suppress(NotSent):  # its end will be seen; the next time asks another one
            channel.oneway(question)
