"""The replication of a broker without controllers: one log, and the one side that its role is.

The role is configured and holds for life. Nothing but `PlainClient` appends to a slave's log.
"""

import asyncio
from collections.abc import Callable

from maxq.reference.broker.replication.ha_link import HaPort, LogAccess
from maxq.reference.broker.replication.plain.plain_events import PlainSettings
from maxq.reference.broker.replication.plain.plain_master import PlainMaster
from maxq.reference.broker.replication.plain.plain_ports import (
    AskBounds,
    Log,
    PlainClient,
    PlainServer,
)
from maxq.reference.broker.replication.plain.plain_slave import PlainSlave
from maxq.reference.records import PhyOffset


class PlainReplication:
    """A broker's log, and how it is copied.

    `master` and `slave` are the cores, for others to read; of the two only that of the broker's
    role is ever stepped.

    Args:
        access: the log.
        leads: whether this broker is master.
        settings: of both sides.
        durable: report and count only what is synced (SYNC_FLUSH).
        bounds: asks the master that is followed.
        appended: called when a slave's log has grown, with the end of its last whole record.
        log: `Host.log`.
    """

    def __init__(
        self,
        access: LogAccess,
        *,
        leads: bool,
        settings: PlainSettings,
        durable: bool,
        bounds: AskBounds,
        appended: Callable[[PhyOffset], None],
        log: Log,
    ) -> None:
        self._access = access
        self._leads = leads
        self._turn = asyncio.Lock()
        self.began = access.end  # of the log, at the start
        counted = access.durable if durable else access.end
        self.master = PlainMaster(
            settings=settings, start=access.start, end=access.end, counted=counted
        )
        self.slave = PlainSlave(settings=settings, durable=durable)
        self._server = PlainServer(self.master, access, durable=durable, log=log)
        self._client = PlainClient(self.slave, access, bounds=bounds, appended=appended, log=log)

    async def run(self, group: asyncio.TaskGroup, port: HaPort) -> None:
        """Serve until cancelled."""
        if self._leads:
            await self._server.run(port)
        else:
            await self._client.run(group)

    async def follow(self, address: str) -> None:
        """Copy the log of the master whose HA port is at `address`; of nobody if it is empty."""
        async with self._turn:
            await self._client.follow(address)

    @property
    def copied(self) -> PhyOffset:
        """What lies before this no connected slave still copies."""
        return self.master.copied if self._leads else self._access.end

    def trimmed(self, start: PhyOffset) -> None:
        """The log is about to begin at `start`."""
        if self._leads:
            self._server.trimmed(start)

    def written(self) -> None:
        """The log has grown, or what is synced of it has."""
        if self._leads:
            self._server.written()

    def when_acknowledged(self, end: PhyOffset, copies: int, then: Callable[[str], None]) -> None:
        """Call `then` once so many logs reach `end`, with an empty string; or, when that is given
        up, with the reason."""
        self._server.when_acknowledged(end, copies, then)
