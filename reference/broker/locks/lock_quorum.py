"""Locks of ordered queues, asked of one broker and in strict mode of its whole set (41, 42).

Without strict mode the broker that is asked decides alone, as in RocketMQ: exclusion holds per
broker process and not over a fail-over or a restart. In strict mode (``lockInStrictMode=true`` on
every broker of the set, ``totalReplicas`` of all of them equal)::

    client ──41──► broker: grants what it can ──41 onlyThisBroker──► each other broker
           ◄──────  answers when totalReplicas/2+1 have granted, or can no longer

Who is asked comes from the name server (901), read every second. The answer waits for nobody who
is not needed, and `PEER_TIMEOUT_S` at the most, less than a client's second. A first acquisition
that failed is undone at every broker that takes part in it (see
`maxq.reference.broker.locks.locks`): the attempt's mark travels in the ext field `ATTEMPT`, which a
broker that can undo echoes. Java ignores the field, and is never asked to undo: it could not
distinguish a first acquisition from a renewal. An unlock is passed on with the mark of what it ends
(`LEASE`), so that one which comes late does not end what its client has acquired again.

Safe because two quorums share a broker and a broker never breaks a lease. It needs distinct
brokers behind distinct addresses, so what this broker has registered itself is never asked.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from maxq.reference.broker.locks.locks import LockTable, Tally, quorum
from maxq.reference.config import BrokerConfig
from maxq.reference.host import Host
from maxq.reference.member_group import members_of, preferred
from maxq.reference.node import now_ns
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Connection, Handler, Pool, Reply
from maxq.reference.wire.bodies import LockRequest, LockResponse, MessageQueue
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame

ATTEMPT = "maxqAttempt"
LEASE = "maxqLease"  # of an unlock that is passed on: the last two attempts that it ends
PEER_TIMEOUT_S = 0.8  # Java clients wait one second for the answer


class Self(Protocol):
    """Who this broker is now; its `Membership`."""

    @property
    def address(self) -> str: ...
    @property
    def namesrvs(self) -> Sequence[str]: ...
    @property
    def role_id(self) -> int: ...
    @property
    def broker_id(self) -> int: ...


def others(group: Mapping[int, str], *, address: str, ids: Iterable[int]) -> tuple[str, ...]:
    """Addresses of a set's other brokers: each once, and nothing that may be this broker."""
    mine = frozenset(ids)
    found = {a: None for i, a in sorted(group.items()) if i not in mine}
    found.pop(address, None)
    return tuple(found)


class Locks:
    """Handlers of 41 and 42.

    Args:
        config: the broker's settings.
        node: randomness and log.
        me: who this broker is.
        group: where the work goes that outlives a request.
    """

    def __init__(
        self, config: BrokerConfig, node: Host, me: Self, group: asyncio.TaskGroup
    ) -> None:
        self._config = config
        self._node = node
        self._me = me
        self._group = group
        self._strict = config.lock_in_strict_mode
        self._needed = quorum(config.total_replicas)
        lease_ns = config.lock_max_live_time * 1_000_000
        self._table = LockTable(lease_ns, now_ns() + lease_ns if self._strict else 0)
        self._pool = Pool(group)  # its own: a call given up must cut off no other
        self._peers: tuple[str, ...] = ()
        self._answered = ""  # the name server that has, last

    def handlers(self) -> dict[int, Handler]:
        return {RequestCode.LOCK_BATCH_MQ: self._lock, RequestCode.UNLOCK_BATCH_MQ: self._unlock}

    def close(self) -> None:
        """Close the connections to other brokers."""
        self._pool.close()

    def expire(self) -> None:
        """Forget leases that have run out."""
        self._table.expire(now_ns())

    def is_held(self, group: str) -> bool:
        """Whether a consumer group holds locks here."""
        return self._table.is_held(now_ns(), group)

    # Who is asked.

    @property
    def polls(self) -> bool:
        """Whether other brokers matter here."""
        return self._strict and self._needed > 1

    async def poll(self) -> None:
        """Read the set's members; what is known stays where none answers. Call every
        ``syncBrokerMemberGroupPeriod``."""
        for namesrv in preferred(self._me.namesrvs, self._answered):
            group = await self._members(namesrv)
            if group:
                ids = (self._me.role_id, self._me.broker_id)
                self._peers = others(group, address=self._me.address, ids=ids)
                self._answered = namesrv
                return

    def _others(self) -> tuple[str, ...]:
        """The others' addresses. This broker may have got one of them since the poll: that of a
        former id of its own, which a name server still lists. Its grant would count twice."""
        return tuple(peer for peer in self._peers if peer != self._me.address)

    async def _members(self, namesrv: str) -> dict[int, str]:
        config = self._config
        try:
            return await members_of(
                self._pool, namesrv, config.broker_cluster_name, config.broker_name
            )
        except (OSError, TimeoutError, RemoteProtocolError) as error:
            why = f"{type(error).__name__}: {error}"
            self._node.log("broker.lock.members.failed", of=namesrv, why=why)
            return {}

    # Locking.

    def _lock(self, request: Frame, connection: Connection) -> Reply | Awaitable[Reply]:
        body = LockRequest.from_json(request.body)
        group, client_id = _who(body)
        if self.polls and not body.only_this_broker:
            return self._win(request, group, client_id, body.mq_set)
        mark = (request.ext or {}).get(ATTEMPT) if body.only_this_broker else None
        granted = self._table.lock(now_ns(), group, client_id, body.mq_set, attempt=mark)
        echo = None if mark is None else {ATTEMPT: mark}
        return request.answer(ResponseCode.SUCCESS, ext=echo, body=_granted(granted))

    async def _win(
        self, request: Frame, group: str, client_id: str, queues: Iterable[MessageQueue]
    ) -> Reply:
        """Grant, ask the others, answer what a quorum has granted."""
        # The time is part of it: no attempt may be taken for an earlier one of the same client.
        rng = self._node.rng(f"broker.lock/{group}/{client_id}/{now_ns()}")
        mark = f"{rng.getrandbits(64):x}"
        mine = self._table.lock(now_ns(), group, client_id, queues, attempt=mark)
        peers = self._others() if mine else ()
        attempt = _Attempt(
            group=group,
            client_id=client_id,
            mark=mark,
            tally=Tally(self._needed, mine, asked=len(peers)),
            decided=asyncio.get_running_loop().create_future(),
        )
        for peer in peers:
            self._group.create_task(self._ask(peer, attempt))
        attempt.check()
        await attempt.decided
        self._table.undo(group, client_id, attempt.tally.lost, mark)
        return request.answer(ResponseCode.SUCCESS, body=_granted(attempt.tally.won))

    async def _ask(self, peer: str, attempt: "_Attempt") -> None:
        """Ask one broker; when the attempt is decided, undo there what has failed."""
        frame = attempt.frame(RequestCode.LOCK_BATCH_MQ, attempt.tally.mine)
        granted: tuple[MessageQueue, ...] = ()
        can_undo = False
        try:
            answer = await self._call(peer, frame)
            if answer.code == ResponseCode.SUCCESS:
                granted = LockResponse.from_json(answer.body).lock_ok_mq_set
                can_undo = (answer.ext or {}).get(ATTEMPT) == attempt.mark
        except (OSError, TimeoutError, RemoteProtocolError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            self._node.log("broker.lock.peer.failed", of=peer, why=why)
        attempt.tally.on_answer(granted)
        attempt.check()
        await attempt.decided
        lost = tuple(q for q in attempt.tally.lost if q in granted)
        if lost and can_undo:
            await self._unlock_at(peer, attempt.frame(RequestCode.UNLOCK_BATCH_MQ, lost))

    async def _call(self, peer: str, frame: Frame) -> Frame:
        loop = asyncio.get_running_loop()
        end = loop.time() + PEER_TIMEOUT_S
        async with asyncio.timeout_at(end):
            connection = await self._pool.get(peer)
        # The call has a timeout of its own, which closes the connection.
        return await connection.call(frame, timeout_s=max(end - loop.time(), 0.001))

    def _unlock(self, request: Frame, connection: Connection) -> Reply:
        body = LockRequest.from_json(request.body)
        group, client_id = _who(body)
        ext = request.ext or {}
        if body.only_this_broker and ATTEMPT in ext:
            self._table.undo(group, client_id, body.mq_set, ext[ATTEMPT])
        elif body.only_this_broker and LEASE in ext:
            self._table.release(group, client_id, body.mq_set, ext[LEASE])
        else:
            ended = self._table.marks(group, client_id, body.mq_set)
            self._table.unlock(group, client_id, body.mq_set)
            if self.polls and not body.only_this_broker:
                self._pass_on(group, client_id, ended)
        return request.answer(ResponseCode.SUCCESS)

    def _pass_on(
        self, group: str, client_id: str, ended: Mapping[str, tuple[MessageQueue, ...]]
    ) -> None:
        """Pass an unlock on to the others. What this broker did not grant itself runs out there."""
        for mark, queues in ended.items():
            frame = _frame(RequestCode.UNLOCK_BATCH_MQ, group, client_id, queues)
            frame = msgspec.structs.replace(frame, ext={LEASE: mark})
            for peer in self._others():
                self._group.create_task(self._unlock_at(peer, frame))

    async def _unlock_at(self, peer: str, frame: Frame) -> None:
        """Pass an unlock on to a broker; what does not arrive runs out by itself."""
        try:
            async with asyncio.timeout(PEER_TIMEOUT_S):
                await self._pool.oneway(peer, frame)
        except (OSError, TimeoutError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            self._node.log("broker.lock.peer.failed", of=peer, why=why)


@dataclass(slots=True)
class _Attempt:
    """One request for locks on its way to a quorum."""

    group: str
    client_id: str
    mark: str
    tally: Tally
    decided: "asyncio.Future[None]"

    def check(self) -> None:
        """Note that further answers change nothing, once that is so."""
        if self.tally.decided and not self.decided.done():
            self.decided.set_result(None)

    def frame(self, code: RequestCode, queues: tuple[MessageQueue, ...]) -> Frame:
        frame = _frame(code, self.group, self.client_id, queues)
        return msgspec.structs.replace(frame, ext={ATTEMPT: self.mark})


def _frame(
    code: RequestCode, group: str, client_id: str, queues: tuple[MessageQueue, ...]
) -> Frame:
    body = LockRequest(
        client_id=client_id, consumer_group=group, mq_set=queues, only_this_broker=True
    )
    return Frame(code=code, ext={}, body=body.to_json())


def _who(body: LockRequest) -> tuple[str, str]:
    if not body.consumer_group or not body.client_id:
        raise RemoteProtocolError("a lock needs consumerGroup and clientId")
    return body.consumer_group, body.client_id


def _granted(queues: tuple[MessageQueue, ...]) -> bytes:
    return LockResponse(lock_ok_mq_set=queues).to_json()
