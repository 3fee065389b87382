"""When a stored message is where its sender wants it: on the disk, and at the replicas."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.store.store import Store
from maxq.reference.config import BrokerConfig
from maxq.reference.records import MasterEpoch, PhyOffset
from maxq.reference.wire.codes import ResponseCode

A = TypeVar("A")
MakeAnswer = Callable[[ResponseCode, str], A]


def reached(
    config: BrokerConfig,
    store: Store,
    membership: Membership,
    end: PhyOffset,
    answer: MakeAnswer[A],
) -> Awaitable[A]:
    """Wait for disk and replicas, as far as the settings ask for them.

    Call it in the step that has stored the message: it waits within the master's term of then.

    Args:
        config: the broker's settings.
        store: its messages.
        membership: its role and replicas.
        end: of the log, behind the message.
        answer: makes the answer of SUCCESS, or of what did not happen in time, and why. What the
            replicas say weighs more. In any case the message is stored.

    Returns:
        A plain future where only replicas are waited for: most sends do, and it costs no task.
    """
    epoch = membership.master_epoch
    if config.flush_disk_type == "SYNC_FLUSH":
        timeout_s = config.sync_flush_timeout / 1000
        return _flushed(store, membership, end, epoch, answer, timeout_s=timeout_s)
    return _replicated(membership, end, epoch, answer)


async def _flushed(
    store: Store,
    membership: Membership,
    end: PhyOffset,
    epoch: MasterEpoch,
    answer: MakeAnswer[A],
    *,
    timeout_s: float,
) -> A:
    flushed = ResponseCode.SUCCESS
    try:
        async with asyncio.timeout(timeout_s):
            await store.sync()
    except TimeoutError:
        flushed = ResponseCode.FLUSH_DISK_TIMEOUT
    return await _replicated(
        membership, end, epoch, lambda code, why: answer(code if why else flushed, why)
    )


def _replicated(
    membership: Membership, end: PhyOffset, epoch: MasterEpoch, answer: MakeAnswer[A]
) -> asyncio.Future[A]:
    future: asyncio.Future[A] = asyncio.get_running_loop().create_future()

    def finish(why: str) -> None:
        if not future.done():  # cancelled with the task that waited for it
            code = ResponseCode.FLUSH_SLAVE_TIMEOUT if why else ResponseCode.SUCCESS
            future.set_result(answer(code, why))

    membership.when_acknowledged(end, epoch, finish)
    return future
