"""Which master wrote which part of a log: the epoch list, and where two logs part.

A list of entries (epoch, start), oldest first, both ascending. An entry claims: from `start` to the
next entry's start (the last one: to the log's end) every byte was written by the one master of that
epoch, and everything before is what that master held when it was elected. With one master an
epoch, two logs that share an entry are equal up to the smaller of their ends of that epoch; on
this `truncation_point` stands (claim S8).

The claim holds only if an entry is on disk before the first byte that it labels, and leaves after
the last one is gone. Anyone who changes log and list keeps that order:

* grow: save the list, then append the bytes;
* cut: cut the log durably, then save the list.

A crash between the two leaves an entry that begins behind the log's end, which `reconcile` drops,
or an epoch without bytes, which is true of the log that is left. So epochs without bytes are kept:
RocketMQ refuses them, and two masters then write under one entry (docs/spec/controller-ha.md 6.4
(H2)).

What lies before the first entry (all of a log without entries) is *unlabelled*: written before the
broker had controllers, or before its epoch files were removed, as the upgrade to RocketMQ 5.1.1
demands. Nothing follows from it about other logs. Two logs that share no entry are therefore
compared record by record (`maxq.reference.broker.membership.comparison`), and a slave

* keeps what is equal, and takes over its master's entries of that part; its own older ones go,
  since bytes that it copies next may be unlabelled ones of the master;
* that has other records, or more than its master, is cut at the first of them while it is known
  not to be in the SyncStateSet; a member follows nobody: it may have the only copy of a message;
* with an empty log gets everything.

A master sends unlabelled bytes under its first entry, whose start then lies behind them; so does
RocketMQ, and a RocketMQ slave records that entry as it records others. Nothing but the list is
stored, so a restart, an election or an entry that is cut leaves more unlabelled, and never less.

Offsets are bytes of the commit log, ends exclusive. Everything but `EpochFile` is pure. Source:
docs/spec/controller-ha.md 4.6 to 4.8 and 6.5; RocketMQ ``EpochFileCache``, ``CheckpointFile``.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from maxq.reference.host import Disk, read_file, replace_file
from maxq.reference.records import MasterEpoch, PhyOffset, RemoteProtocolError
from maxq.reference.wire.files import EPOCHS_MAX, decode_epochs, encode_epochs
from maxq.reference.wire.ha import EpochStart

Epochs: TypeAlias = tuple[EpochStart, ...]


class CorruptEpochs(Exception):
    """No copy of the epoch file can be read; says file and reason."""


def last_epoch(epochs: Epochs) -> MasterEpoch:
    """The newest epoch; 0 where there is none (the first is 1)."""
    return epochs[-1].epoch if epochs else MasterEpoch(0)


def is_ascending(epochs: Epochs) -> bool:
    """Whether a list that came from elsewhere can be true of any log."""
    in_order = all(a.epoch < b.epoch and a.start <= b.start for a, b in pairwise(epochs))
    return in_order and all(e.epoch > 0 and e.start >= 0 for e in epochs[:1])


def predates(epoch: MasterEpoch, registered: int | None) -> bool:
    """Whether an epoch had begun when a process registered, so that the process is not its master.

    Args:
        epoch: in which a controller names the process's broker id as master.
        registered: the set's epoch when the process registered last, at another address or after
            another had its id; None if no controller said.
    """
    return registered is not None and epoch <= registered


def append(epochs: Epochs, epoch: MasterEpoch, start: PhyOffset) -> Epochs | None:
    """Begin an epoch at `start`; None if it is not newer than the last.

    Entries behind `start` are of bytes that are not there, and go; those at `start` stay. Beyond
    `EPOCHS_MAX` the oldest go too: less is then shared, never more.
    """
    if epoch <= last_epoch(epochs):
        return None
    kept = reconcile(epochs, start)
    return (*kept, EpochStart(epoch=epoch, start=start))[-EPOCHS_MAX:]


def reconcile(epochs: Epochs, end: PhyOffset) -> Epochs:
    """Drop what a log that ends at `end` cannot have: entries that start behind it."""
    return tuple(e for e in epochs if e.start <= end)


def cut_from_epoch(epochs: Epochs, epoch: MasterEpoch) -> Epochs:
    """Drop `epoch` and newer ones."""
    return tuple(e for e in epochs if e.epoch < epoch)


def cut_prefix(epochs: Epochs, start: PhyOffset) -> Epochs:
    """Drop entries whose last byte lies before `start`, where the log begins; the last one stays,
    since it labels what is written next."""
    gone = sum(1 for following in epochs[1:] if following.start <= start)
    return epochs[gone:]


def index_at(epochs: Epochs, offset: PhyOffset) -> int | None:
    """Index of the entry that labels the byte at `offset`, existing or the next one written."""
    for index in reversed(range(len(epochs))):
        if epochs[index].start <= offset:
            return index
    return None


def label_at(epochs: Epochs, offset: PhyOffset) -> int | None:
    """Index of the entry under which a master sends the byte at `offset`: of an unlabelled one the
    first; None without entries."""
    found = index_at(epochs, offset)
    return 0 if found is None and epochs else found


def kept_after_comparison(equal: PhyOffset, whole: PhyOffset, *, member: bool) -> PhyOffset | None:
    """Where a slave that shares no entry with its master cuts its log.

    Args:
        equal: end of the last record before the first that the master has not, or has otherwise.
        whole: end of the slave's last whole record; what follows was never acknowledged.
        member: whether the slave may be in the SyncStateSet.

    Returns:
        None if it must not be cut where it has to be.
    """
    return None if member and equal < whole else equal


def end_of(epochs: Epochs, index: int, log_end: PhyOffset) -> PhyOffset:
    """Where the entry ends in a log that ends at `log_end`."""
    following = epochs[index + 1].start if index + 1 < len(epochs) else log_end
    return min(following, log_end)


def truncation_point(
    mine: Epochs, my_end: PhyOffset, theirs: Epochs, their_end: PhyOffset
) -> PhyOffset | None:
    """Find where a slave cuts its log before it copies from a master.

    Args:
        mine, my_end: this log's epochs and end.
        theirs, their_end: the master's.

    Returns:
        The end of the part that both certainly share, never behind `my_end`. None if no entry is
        shared: nothing is known of the bytes then, and they have to be compared. (RocketMQ cuts
        nothing where `mine` is empty and the log is not, and follows on behind unknown bytes.)
    """
    if my_end == 0:
        return PhyOffset(0)
    ends = {e: end_of(theirs, at, their_end) for at, e in enumerate(theirs)}
    for at in reversed(range(len(mine))):
        if mine[at] in ends:
            return min(end_of(mine, at, my_end), ends[mine[at]])
    return None


def adopted(mine: Epochs, theirs: Epochs, start: PhyOffset, end: PhyOffset) -> Epochs:
    """The epochs of a slave whose log, from `start` to `end`, is known to be its master's.

    These are the master's entries that touch this part, those without bytes at its ends included;
    and, since the reply of a master holds only so many, older ones of its own.
    """
    if not theirs:
        return ()
    older = tuple(e for e in mine if e.epoch < theirs[0].epoch and e.start <= theirs[0].start)
    both = older + theirs
    following = [e.start for e in both[1:]] + [None]
    return tuple(
        e
        for e, behind in zip(both, following, strict=True)
        if e.start <= end and (e.start >= start or behind is None or behind > start)
    )


class EpochFile:
    """The epoch file and its copy ``.bak``. One writer at a time: see `save`.

    Args:
        disk: the node's.
        path: RocketMQ's storePathEpochFile.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._backup = path + ".bak"
        self.fault = ""  # why the last `load` had to take the copy

    def load(self) -> Epochs:
        """Read the file, else its copy; no file at all is an empty list.

        Raises:
            CorruptEpochs: what there is cannot be read. An older list would label bytes wrongly,
                and no list would throw them away, so no broker may go on from here alone.
        """
        faults: list[str] = []
        for path in (self._path, self._backup):
            data = read_file(self._disk, path)
            if not data:
                faults += [] if data is None else [f"{path}: empty"]
                continue
            try:
                epochs = decode_epochs(data)
            except RemoteProtocolError as error:
                faults.append(f"{path}: {error}")
                continue
            self.fault = "; ".join(faults)
            return epochs
        if faults:
            raise CorruptEpochs("; ".join(faults) + "; restore one from a backup, or move the "
                                "store away and let the broker copy its master's")  # fmt: skip
        return ()

    async def save(self, epochs: Sequence[EpochStart]) -> None:
        """Make `epochs` durable; a crash on the way leaves the old or the new list whole.

        The copy is written second and holds the same list, not the one before as RocketMQ's does:
        if the file rots, the copy must not lack an epoch whose bytes are in the log. No list is
        no file (the format has none that RocketMQ reads as empty); the copy goes first then, so
        that it can never be taken for the list.
        """
        if epochs:
            data = encode_epochs(epochs)
            await replace_file(self._disk, self._path, data)
            await replace_file(self._disk, self._backup, data)
            return
        folder, _, _ = self._path.rpartition("/")
        for path in (self._backup, self._path):
            if read_file(self._disk, path) is not None:
                self._disk.unlink(path)
                await self._disk.sync_dir(folder)
