"""When a stored message is where its sender wants it: on the disk, and at the replicas."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.store.store import Store
from maxq.reference.config import BrokerConfig
from maxq.reference.records import MasterEpoch, PhyOffset
from maxq.reference.wire.codes import ResponseCode

A = TypeVar("A")
COPIED_S = 1.0  # for replicas, where they are not insisted on; a slave that moves waits 3 s
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
        return _flushed(config, store, membership, end, epoch, answer)
    return _replicated(membership, end, epoch, answer)


async def kept(
    config: BrokerConfig,
    store: Store,
    membership: Membership,
    end: PhyOffset,
    answer: MakeAnswer[A],
) -> A:
    """Wait as `reached` does, but for replicas only if they are in sync, and not for long; if they
    do not have it then, that is SUCCESS as well. Arguments as there.

    For what a slave that acts sends: it wants no refusal for lack of replicas (``WAIT=false``), and
    what it was sent for is remembered as settled once it is answered. RocketMQ waits for nothing,
    and loses it with the power of this broker.
    """
    asked = membership.in_sync_count >= membership.copies_needed
    copied = _replicated(membership, end, membership.master_epoch, lambda code, _: code)
    if config.flush_disk_type == "SYNC_FLUSH" and not await _synced(config, store):
        return answer(ResponseCode.FLUSH_DISK_TIMEOUT, "")
    if asked:
        with suppress(TimeoutError):
            async with asyncio.timeout(COPIED_S):
                await copied
    return answer(ResponseCode.SUCCESS, "")


async def _synced(config: BrokerConfig, store: Store) -> bool:
    """Wait until the disk has all that is stored now; false if that takes too long."""
    try:
        async with asyncio.timeout(config.sync_flush_timeout / 1000):
            await store.sync()
    except TimeoutError:
        return False
    return True


async def _flushed(
    config: BrokerConfig,
    store: Store,
    membership: Membership,
    end: PhyOffset,
    epoch: MasterEpoch,
    answer: MakeAnswer[A],
) -> A:
    in_time = await _synced(config, store)
    flushed = ResponseCode.SUCCESS if in_time else ResponseCode.FLUSH_DISK_TIMEOUT
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
