"""The oracle's view of one broker process: its role, its log, its epochs, what it promises.

What is compared at each step are numbers that the node has anyway. Two things are heard of at their
call, since no state shows them afterwards: a send that is acknowledged (the node's
`Replication.when_acknowledged` calls back), and a lock that is granted
(`maxq.harness.simulation.oracle.locks`).

Offsets are bytes of the commit log, ends exclusive; times are ns.
"""

from collections.abc import Callable, Mapping

from maxq.harness.simulation.loop import SimLoop
from maxq.harness.simulation.oracle.facts import LOG_AGREEMENT, PROMISED_BEYOND, Facts
from maxq.harness.simulation.oracle.locks import watch_locks
from maxq.harness.simulation.oracle.log import LogDigest
from maxq.harness.simulation.oracle.pairs import agree, watch_acknowledged
from maxq.reference.broker.membership.membership import Membership
from maxq.reference.broker.membership.pairs import PairMembership
from maxq.reference.broker.replication.epochs import Epochs, is_ascending
from maxq.reference.broker.replication.ha_master import HaMaster
from maxq.reference.broker.replication.replication import Replication
from maxq.reference.broker.server import Broker
from maxq.reference.broker.store.commit_log import CommitLog, file_name
from maxq.reference.records import MasterEpoch, PhyOffset, RemoteProtocolError
from maxq.reference.wire.ha import EpochStart
from maxq.reference.wire.message import BLANK_BYTES, peek


class BrokerView:
    """One process of a broker, from its first step to its death."""

    def __init__(
        self,
        facts: Facts,
        name: str,
        files: Mapping[str, bytearray],
        loop: SimLoop,
        node: Broker,
        now_ns: Callable[[], int],
    ) -> None:
        config = node._config
        self.name = name
        self.set = facts.set_of(config.broker_name)
        self._pools = config.pools
        self.set.lossy |= config.pools
        self.facts = facts
        self.now_ns = now_ns
        self._files = files
        self._loop = loop
        self._node = node
        self._controlled = config.enable_controller_mode
        self._facts_of_store = facts.store_of(name, config.store_path_root_dir, config.broker_name)
        facts.synced[name] = config.flush_disk_type == "SYNC_FLUSH"
        self._store = node._store
        self._ran = False
        self._log: CommitLog = node._store._log
        self._facts_of_store.log = self._log
        self._log_size = config.mapped_file_size_commit_log
        self.digest = LogDigest(self._read)
        self.epochs: Epochs = ()
        self.following: dict[EpochStart, int | None] = {}  # entry -> where the next one starts
        self._cuts = 0
        self._epoch = 0  # as master by role
        self._led = 0  # as master by replication
        self._floor = 0  # end of the last whole record that is confirmed
        self._confirm = 0
        self._membership: Membership | None = None
        self._replication: Replication | None = None
        self._core: HaMaster | None = None

    @property
    def alive(self) -> bool:
        """Whether its process lives, and its container, if it is in one, has not removed it: then
        its store is nobody's, and may be taken elsewhere."""
        locked = self._store._locked
        self._ran |= locked
        return self._loop.alive and (locked or not self._ran)

    def look(self) -> None:
        """Judge what has changed since the last look."""
        log, replication = self._log, self._replication
        # One step may save a list and append what it labels: both are taken, then judged.
        same_range = (log.start, log.end) == (self.digest.start, self.digest.end)
        moved = not same_range or log._cuts != self._cuts
        if moved:
            self._moved(log)
        if replication is not None:
            if replication.epochs is not self.epochs:
                self._relabelled(replication.epochs)
                moved = True
            if moved:
                self._agree()
        if self._store.confirm_offset > log.end:
            why = f"confirms {self._store.confirm_offset}, ends at {log.end}"
            self.facts.report("confirm-beyond-end", [self.name], why)
        membership = self._membership
        if membership is None:
            if self._node.membership is None:
                return
            membership = self._serves(self._node.membership)
        if moved and not self._controlled:
            agree(self)
        if membership.broker_id != self._facts_of_store.broker_id and self._controlled:
            self._identified(membership.broker_id)
        if membership.role == "master" and membership.master_epoch != self._epoch:
            self._epoch = membership.master_epoch
            self._masters(self._epoch)
        core = self._core
        if core is None:
            if membership.replication is None:
                return
            core = self._replicates(membership.replication)
        if core.leading and core.master_epoch != self._led:
            self._begins(core)
        if core.confirm != self._confirm:
            self._confirms(core)

    # Beginnings.

    def _serves(self, membership: Membership) -> Membership:
        self._membership = membership
        if self._node.locks is not None:
            watch_locks(self, self._node.locks)
        if isinstance(membership, PairMembership):
            self.set.live().append(self)
            watch_acknowledged(self, membership)
        return membership

    def _identified(self, broker_id: int) -> None:
        if broker_id < 1 or self.name in self.facts.foreign:
            return
        store, before = self._facts_of_store, self._facts_of_store.broker_id
        if before:
            self.facts.report("id-changed", [self.name],
                               f"store {store.root}: id {before}, now {broker_id}")  # fmt: skip
        owner = self.set.stores.setdefault(broker_id, store)
        if owner is not store:
            self.facts.report("id-owned-twice", [owner.machine, self.name],
                               f"{self.set.name}: id {broker_id}")  # fmt: skip
        store.broker_id = broker_id

    def _replicates(self, replication: Replication) -> HaMaster:
        self._replication, self._core = replication, replication.master
        self.set.live().append(self)
        self._relabelled(replication.epochs)
        self._agree()
        honest = replication.when_acknowledged

        def when_acknowledged(
            end: PhyOffset, master_epoch: MasterEpoch, then: Callable[[str], None]
        ) -> None:
            def finish(why: str) -> None:
                if not why:
                    self._acknowledges(end, master_epoch)
                then(why)

            honest(end, master_epoch, finish)

        replication.when_acknowledged = when_acknowledged  # type: ignore[method-assign]
        return replication.master

    # The log.

    def _read(self, start: int, end: int) -> bytes:
        """Bytes of the log as the disk holds them."""
        parts = []
        while start < end:
            base = start - start % self._log_size
            stop = min(end, base + self._log_size)
            content = self._files.get(f"{self._log.folder}/{file_name(base)}", b"")
            parts.append(bytes(content[start - base : stop - base]).ljust(stop - start, b"\0"))
            start = stop
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _moved(self, log: CommitLog) -> None:
        digest = self.digest
        start = log.start
        if start != digest.start:
            digest.restart(start)
        if log._cuts != self._cuts or log.end < digest.end:
            self._cuts = log._cuts
            digest.cut(log.end)
        digest.grow(log.end)
        self._facts_of_store.seen = log.end

    def _relabelled(self, epochs: Epochs) -> None:
        self.epochs = epochs
        if not is_ascending(epochs):
            self.facts.report("epochs-ascend", [self.name], f"the epoch list is {epochs}")
        starts: list[int | None] = [*(e.start for e in epochs[1:]), None]
        self.following = dict(zip(epochs, starts, strict=False))  # no entries: no end either

    def end_of(self, entry: EpochStart) -> int:
        """Where what its log has of an epoch ends."""
        following = self.following[entry]
        return self.digest.end if following is None else min(following, self.digest.end)

    def _agree(self) -> None:
        """S8: equal bytes up to the smaller end of the newest epoch that two replicas share."""
        for other in self.set.live():
            if other is self:
                continue
            shared = next((e for e in reversed(self.epochs) if e in other.following), None)
            if shared is None:
                continue
            end = min(self.end_of(shared), other.end_of(shared))
            differs = self.digest.differs_at(other.digest, end)
            if differs is not None:
                self.facts.report(
                    LOG_AGREEMENT, [self.name, other.name],
                    f"{self.set.name}: both have epoch {shared.epoch} from {shared.start}, share "
                    f"up to {end}, and differ at {differs}",
                )  # fmt: skip

    # Terms and promises.

    def _masters(self, epoch: int) -> None:
        """S5: one process is master in an epoch, and no other ever was."""
        if not self._controlled:
            return
        process = self._loop.name
        first = self.set.masters.setdefault(epoch, process)
        if first != process:
            self.facts.report(
                "one-master-per-epoch", [first.partition("/")[0], self.name],
                f"{self.set.name}: {first} was master in epoch {epoch}, now {process} is",
            )  # fmt: skip

    def _begins(self, core: HaMaster) -> None:
        self._led, self._floor = core.master_epoch, core.began
        self._masters(core.master_epoch)
        if core.master_epoch > self.set.newest_epoch:
            self.set.newest, self.set.newest_epoch = self, core.master_epoch
            if core.settings.all_ack:
                self.facts.judge_kept(self.set, self)

    def _confirms(self, core: HaMaster) -> None:
        self._confirm = core.confirm
        if not core.leading or not core.settings.all_ack:
            return
        before = self._floor
        self._floor = self._whole(before, min(core.confirm, self.digest.end))
        if self._floor > before:
            self.facts.promised(self, core.master_epoch, self._floor)

    def _whole(self, at: int, end: int) -> int:
        """End of the last record that begins at `at` or behind and ends no later than `end`."""
        while at + BLANK_BYTES <= end:
            try:
                size, _ = peek(self._read(at, at + BLANK_BYTES))
            except RemoteProtocolError:
                return at
            if size < BLANK_BYTES or at + size > end:
                return at
            at += size
        return at

    def _acknowledges(self, end: int, epoch: int) -> None:
        """A send is answered with success: all that it waits for must be so."""
        core = self._core
        if core is None or not self.alive:  # what a process does in the step in which it dies
            return
        if self._pools:  # it is answered before it is in the log
            return
        if end > self._log.end:
            self.facts.report("acknowledged-beyond-end", [self.name],
                               f"acknowledges {end}, ends at {self._log.end}")  # fmt: skip
            return
        self.look()  # the same step may have written it
        if core.settings.all_ack:
            self.facts.promised(self, epoch, end)
            return
        holders = sum(store.end >= end for store in self.set.stores.values())
        if holders < core.settings.in_sync_replicas:
            self.facts.report(
                PROMISED_BEYOND, [self.name],
                f"{self.set.name}: acknowledges {end}, which {holders} replicas have, of "
                f"{core.settings.in_sync_replicas}",
            )  # fmt: skip
