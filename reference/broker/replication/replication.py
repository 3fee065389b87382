"""A broker's replication: one log, one epoch file, and at most one side that runs.

The rule for those who write to the log: nothing is appended while `lead` or `follow` runs, and
between a `follow` and the next `lead` the slave's side alone does. Source:
docs/spec/controller-ha.md 3.6.
"""

import asyncio
from collections.abc import Callable

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication import ha_master_events as master
from maxq.reference.broker.replication import ha_slave_events as slave
from maxq.reference.broker.replication.epochs import EpochFile, Epochs
from maxq.reference.broker.replication.ha import Compare, HaClient, HaServer, Log, Propose, StartOf
from maxq.reference.broker.replication.ha_link import HaPort, LogAccess
from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.ha_progress import SlaveProgress
from maxq.reference.broker.replication.ha_settings import MasterSettings, SlaveTiming
from maxq.reference.broker.replication.ha_slave import HaSlave
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, invariant


class Replication:
    """A broker's log, its epochs, and the side that it takes.

    `master` and `slave` are the cores of both sides, for others to read: only their shells step
    them.

    Args:
        broker_id: the persistent id.
        access: the log.
        file: where the epochs are kept.
        settings: of the master side.
        timing: of the slave side.
        durable: acknowledge and count only what is synced (SYNC_FLUSH).
        async_learner, sync_from_last_file: of the slave side, RocketMQ's keys.
        propose: sends request 1001.
        compare: compares the log with a master's, when no epoch is shared.
        start_of: asks where the log of the master at an HA address begins.
        confirmed: called with the confirmOffset when it changes, on either side.
        log: `Host.log`.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        access: LogAccess,
        file: EpochFile,
        *,
        settings: MasterSettings,
        timing: SlaveTiming,
        durable: bool = False,
        async_learner: bool = False,
        sync_from_last_file: bool = False,
        propose: Propose,
        compare: Compare,
        start_of: StartOf,
        confirmed: Callable[[PhyOffset], None],
        log: Log,
    ) -> None:
        self._access = access
        self._file = file
        self._on_confirmed = confirmed
        self._log = log
        self._turn = asyncio.Lock()  # one change of role at a time
        self.epochs: Epochs = ()  # as saved
        self.confirm = PhyOffset(0)
        self.master = HaMaster(broker_id=broker_id, settings=settings)
        self.slave = HaSlave(
            broker_id=broker_id,
            durable=durable,
            async_learner=async_learner,
            sync_from_last_file=sync_from_last_file,
            timing=timing,
        )
        self._server = HaServer(
            self.master,
            access,
            durable=durable,
            propose=propose,
            confirmed=self._confirmed,
            log=log,
        )
        self._client = HaClient(
            self.slave,
            access,
            compare=compare,
            start_of=start_of,
            save=self._save,
            saved=lambda: self.epochs,
            confirmed=self._confirmed,
            log=log,
        )

    async def recover(self, confirm: PhyOffset) -> None:
        """Read the epochs, once the log is recovered; `confirm` is the checkpoint's.

        Entries behind the end of the log are of bytes that are lost. They leave the file as well:
        other bytes will come there.

        Raises:
            CorruptEpochs: no copy of the file can be read.
        """
        loaded = self._file.load()
        left = policy.reconcile(loaded, self._access.end)
        self.epochs = policy.cut_prefix(left, self._access.start)
        if left != loaded:
            self._log("broker.epochs.cut", lost=str(loaded[len(left) :]))
        if self._file.fault:
            self._log("broker.epochs.copy", why=self._file.fault)
        if self.epochs != loaded or self._file.fault:
            await self._file.save(self.epochs)
        self.confirm = max(min(confirm, self._access.end), self._access.start)
        self._on_confirmed(self.confirm)

    async def run(self, group: asyncio.TaskGroup, port: HaPort) -> None:
        """Serve until cancelled; `lead` and `follow` work meanwhile."""
        group.create_task(self._client.run(group))
        await self._server.run(group, port)

    async def lead(
        self, master_epoch: MasterEpoch, members: frozenset[BrokerId], sync_state_set_epoch: int
    ) -> bool:
        """Become master, or begin another term; false if this log knows of that epoch, or newer.

        A master that restarts within its term is refused as well: it may have lost what it sent
        to others, and must not write other bytes under the same epoch. It has to be elected anew.
        """
        async with self._turn:
            await self._client.stop()
            self._access.commit()
            whole = self._access.whole_end()
            if whole < self._access.end:
                await self._access.truncate(whole)
            end = await self._access.sync()
            invariant(end == self._access.end, "nothing is appended at a change of role", end=end)
            epochs = policy.append(self.epochs, master_epoch, end)
            if epochs is None:
                self._log("ha.lead.refused", epoch=master_epoch, epochs=str(self.epochs[-1:]))
                return False
            await self._save(epochs)
            invariant(end == self._access.end, "nothing is appended at a change of role", end=end)
            await self._server.lead(
                master.Lead(
                    master_epoch=master_epoch,
                    members=members,
                    sync_state_set_epoch=sync_state_set_epoch,
                    epochs=epochs,
                    start=self._access.start,
                    end=end,
                    counted=end,
                )
            )
            return True

    async def follow(
        self, address: str, master_epoch: MasterEpoch, *, in_sync_state_set: bool
    ) -> None:
        """Copy the log of the master whose HA port is at `address`, once that is known. Raises
        OSError where what waits for its file cannot be written."""
        async with self._turn:
            await self._server.resign()
            self._access.commit()
            log = slave.LogState(
                start=self._access.start,
                end=self._access.end,
                epochs=self.epochs,
                confirm=self.confirm,
            )
            await self._client.follow(
                slave.Follow(
                    address=address,
                    master_epoch=master_epoch,
                    in_sync_state_set=in_sync_state_set,
                    log=log,
                )
            )

    @property
    def copied(self) -> PhyOffset:
        """What lies before this is confirmed, and no member of the SyncStateSet still copies it."""
        return min(self.master.copied, self.confirm) if self.master.leading else self.confirm

    async def trim(self, start: PhyOffset) -> None:
        """Let the log begin with the file that begins at `start`, at `copied` or before.

        Epochs whose last byte is gone leave the list once the bytes have. A crash between the two
        leaves entries that label nothing, which `recover` drops.

        Raises:
            OSError: the disk failed; some of the files may be left.
        """
        async with self._turn:
            if self.slave.phase != "stopped":
                await self._client.trim(start)
                return
            if start > self.copied:  # a change of role came between
                return
            epochs = policy.cut_prefix(self.epochs, start)
            await self._server.trimmed(start, epochs)
            await self._access.trim(start)
            if epochs != self.epochs:
                await self._save(epochs)

    def written(self) -> None:
        """The log has grown, or what is synced of it has."""
        self._server.written()

    def known(self, known: master.Known) -> None:
        """The controller's SyncStateSet, from a poll or a notification."""
        self._server.known(known)

    def when_acknowledged(
        self, end: PhyOffset, master_epoch: MasterEpoch, then: Callable[[str], None]
    ) -> None:
        """Call `then` once the replicas have the log up to `end`, with an empty string; or, when
        that is given up, with the reason."""
        self._server.when_acknowledged(end, master_epoch, then)

    def slaves(self) -> list[tuple[str, SlaveProgress]]:
        """Every slave that has said who it is, by its end of the connection."""
        return self._server.slaves()

    async def _save(self, epochs: Epochs) -> None:
        await self._file.save(epochs)
        self.epochs = epochs

    def _confirmed(self, offset: PhyOffset) -> None:
        self.confirm = offset
        self._on_confirmed(offset)
