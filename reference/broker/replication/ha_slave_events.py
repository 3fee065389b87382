"""What happens to the HA slave's core, and what it wants done: events and effects.

Offsets are bytes of the commit log, ends exclusive. Connections are numbered; what comes of an
older one is ignored.
"""

from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.records import MasterEpoch, PhyOffset, Record
from maxq.reference.wire.ha import MasterPacket, SlaveAck, SlaveHandshake

# Events.


class LogState(Record):
    """A log and its epoch list, as they are on disk now."""

    start: PhyOffset
    end: PhyOffset
    epochs: Epochs
    confirm: PhyOffset


class Follow(Record):
    """The controller named a master. Nothing is dialled while its HA address is not known.

    `log` is taken up if no master was followed before; from then on the slave alone writes to it.
    """

    address: str  # ip:port, or empty
    master_epoch: MasterEpoch
    in_sync_state_set: bool  # whether this broker is a member, as far as it knows
    log: LogState


class Stop(Record):
    """This broker follows no master: it becomes master, or ends."""


class Connected(Record):
    """A dial succeeded."""

    connection: int


class Received(Record):
    """A packet of the master."""

    connection: int
    packet: MasterPacket


class Lost(Record):
    """A connection ended, could not be made, or carried what cannot be read."""

    connection: int
    why: str


class Trimmed(Record):
    """Of this log what lies before `start`, where a file begins, has been kept for long enough."""

    start: PhyOffset


class Truncated(Record):
    """`Truncate` is done."""

    connection: int
    end: PhyOffset


class Synced(Record):
    """`Sync` is done: everything before `end` is on the disk."""

    connection: int
    end: PhyOffset


class Compared(Record):
    """`Compare` is done: `equal` and `whole` as `epochs.kept_after_comparison` takes them."""

    connection: int
    equal: PhyOffset
    whole: PhyOffset


class Uncompared(Record):
    """`Compare` came to nothing, as the master did not answer."""

    connection: int
    why: str


class AppendFailed(Record):
    """The log took nothing of an `Append`, and none of the effects behind it was carried out."""

    why: str
    end: PhyOffset  # of the log
    epochs: Epochs  # as saved


class Timeout(Record):
    """`next_deadline_ns` has passed."""


Event = (
    Follow
    | Stop
    | Connected
    | Received
    | Lost
    | Compared
    | Uncompared
    | Trimmed
    | Truncated
    | Synced
    | AppendFailed
    | Timeout
)


# Effects.


class Dial(Record):
    """Connect; deliver `Connected` or `Lost`."""

    connection: int
    address: str


class Hangup(Record):
    """Close a connection; `Lost` need not follow."""

    connection: int


class Send(Record):
    """Write a packet, in one write."""

    connection: int
    packet: SlaveHandshake | SlaveAck


class Compare(Record):
    """Compare this log with that of the master at `address`, which ends at `their_end` or behind;
    deliver `Compared` or `Uncompared`. Neither log is changed by that."""

    connection: int
    address: str
    their_end: PhyOffset


class Truncate(Record):
    """Cut the log to `end` durably if it is longer, then save `epochs`; then deliver `done`.

    An `end` of 0 throws the log away: it is then empty and may begin anywhere.
    """

    end: PhyOffset
    epochs: Epochs
    done: Truncated


class Trim(Record):
    """Let the log begin at `start`, durably, then save `epochs`."""

    start: PhyOffset
    epochs: Epochs


class Append(Record):
    """Save `epochs` if there are any, then append `data` at `start`, then send `then`.

    To an empty log the data may come at any offset.
    """

    start: PhyOffset
    data: bytes
    epochs: Epochs | None
    then: tuple[Send, ...]


class Sync(Record):
    """Make the log durable beside all else; then deliver `done`."""

    done: Synced


class Confirm(Record):
    """What lies before `offset` is on every member of the SyncStateSet, says the master."""

    offset: PhyOffset


class Trace(Record):
    """A named fact."""

    name: str
    why: str = ""


Effect = Dial | Hangup | Send | Compare | Truncate | Trim | Append | Sync | Confirm | Trace
