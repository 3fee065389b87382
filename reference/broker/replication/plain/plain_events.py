"""What happens to the cores of replication without controllers, and what they want done.

Offsets are bytes of the commit log, ends exclusive. Connections are numbered by who makes them; at
the slave, what comes of an older one is ignored.
"""

from typing import Literal

from maxq.reference.records import PhyOffset, Record
from maxq.reference.wire.plain_ha import LogPiece


class PlainSettings(Record):
    """How both sides are set; RocketMQ's key in each comment. Sizes are bytes; times are ns."""

    file_size: int  # mappedFileSizeCommitLog
    sync_master: bool = False  # brokerRole=SYNC_MASTER: sends wait for copies
    in_sync_replicas: int = 1  # inSyncReplicas
    min_in_sync_replicas: int = 1  # minInSyncReplicas
    auto: bool = False  # enableAutoInSyncReplicas
    gap_max: int = 268_435_456  # haMaxGapNotInSync
    batch_bytes: int = 32_768  # haTransferBatchSize
    window_bytes: int = 1 << 20  # RocketMQ has no such bound
    heartbeat_ns: int = 5_000_000_000  # haSendHeartbeatInterval
    housekeeping_ns: int = 20_000_000_000  # haHousekeepingInterval
    wait_ns: int = 3_000_000_000  # slaveTimeout
    dial_ns: int = 5_000_000_000
    retry_ns: int = 1_000_000_000  # RocketMQ waits 5 s


# Both sides.


class Lost(Record):
    """A connection ended, or could not be made."""

    link: int
    why: str = ""


class Timeout(Record):
    """`next_deadline_ns` has passed."""


class Trace(Record):
    """A named fact."""

    name: str
    why: str = ""


# The master: events.


class Written(Record):
    """The log has grown to `end`, and counts up to `counted`: all of it, or what is synced."""

    end: PhyOffset
    counted: PhyOffset


class Accepted(Record):
    """A slave connected, from `host` and from `port`; it does not say who it is."""

    link: int
    host: str = ""
    port: int = 0


class Reported(Record):
    """A slave says where its log ends."""

    link: int
    offset: PhyOffset


class Await(Record):
    """A send waits until `copies` logs, this one counted, reach `end`."""

    ticket: int
    end: PhyOffset
    copies: int


class Trimmed(Record):
    """The log is about to begin at `start`."""

    start: PhyOffset


MasterEvent = Written | Accepted | Reported | Lost | Await | Trimmed | Timeout


# The master: effects.


class SendPiece(Record):
    """Send `size` bytes of the log from `start` in one piece; a heartbeat if there are none."""

    link: int
    start: PhyOffset
    size: int


class Close(Record):
    """Close a connection."""

    link: int


class Acknowledge(Record):
    """A waiting send has its copies."""

    ticket: int


class GiveUp(Record):
    """A waiting send must be answered: its outcome is unknown."""

    ticket: int
    why: str


MasterEffect = SendPiece | Close | Acknowledge | GiveUp | Trace


# The slave: events.


class Follow(Record):
    """Copy the log of the master at `address`; of nobody, if that is empty.

    `end` is that of the own log. It is taken up if nobody was followed before; from then on the
    slave alone writes to the log.
    """

    address: str  # of the HA port
    end: PhyOffset


class Connected(Record):
    """A dial succeeded."""

    link: int


class Bounds(Record):
    """The master says where its log begins and ends."""

    link: int
    start: PhyOffset
    end: PhyOffset


class Received(Record):
    """A piece of the master's log."""

    link: int
    piece: LogPiece


class Synced(Record):
    """`Sync` is done: everything before `end` is on the disk."""

    link: int
    end: PhyOffset


class AppendFailed(Record):
    """The log took nothing of an `Append`, and no effect behind it was carried out."""

    why: str
    end: PhyOffset  # of the log


SlaveEvent = Follow | Connected | Bounds | Received | Synced | Lost | AppendFailed | Timeout


# The slave: effects.


class Dial(Record):
    """Connect; deliver `Connected` or `Lost`."""

    link: int
    address: str


class Ask(Record):
    """Ask the master for the bounds of its log; deliver `Bounds`, or `Lost` if it does not say."""

    link: int


class Hangup(Record):
    """Close a connection; `Lost` need not follow."""

    link: int


class SendReport(Record):
    """Tell the master where the log ends."""

    link: int
    offset: PhyOffset


class Append(Record):
    """Append `data` at `start`, which is the end; an empty log may begin anywhere."""

    start: PhyOffset
    data: bytes


class Empty(Record):
    """Empty the log: its master has nothing more that could continue it."""


class Sync(Record):
    """Make the log durable beside all else; then deliver `Synced`."""

    link: int


SlaveEffect = Dial | Ask | Hangup | SendReport | Append | Empty | Sync | Trace
SlavePhase = Literal["stopped", "waiting", "dialling", "asking", "syncing", "transfer"]
