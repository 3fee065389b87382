"""When a stored message is where its sender wants it: on the disk, and at the replicas."""

import asyncio

from reference.broker.membership.membership import Membership
from reference.broker.store.store import Store
from reference.config import BrokerConfig
from reference.records import PhyOffset
from reference.wire.codes import ResponseCode


async def reached(
    config: BrokerConfig, store: Store, membership: Membership, end: PhyOffset
) -> tuple[ResponseCode, str]:
    """Wait for disk and replicas, as far as the settings ask for them.

    Call it in the step that has stored the message: it waits within the master's term of then.

    Args:
        config: the broker's settings.
        store: its messages.
        membership: its role and replicas.
        end: of the log, behind the message.

    Returns:
        SUCCESS, or what did not happen in time, and why. What the replicas say weighs more. In any
        case the message is stored.
    """
    epoch, replication = membership.master_epoch, membership.replication
    code = ResponseCode.SUCCESS
    if config.flush_disk_type == "SYNC_FLUSH":
        try:
            async with asyncio.timeout(config.sync_flush_timeout / 1000):
                await store.sync()
        except TimeoutError:
            code = ResponseCode.FLUSH_DISK_TIMEOUT
    if replication is not None:
        why = await replication.server.acknowledged(end, epoch)
        if why:
            return ResponseCode.FLUSH_SLAVE_TIMEOUT, why
    return code, ""
