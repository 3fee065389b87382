"""What happens to the HA master's core, and what it wants done: events and effects.

Offsets are bytes of the commit log, ends exclusive. A connection of a slave is named by the number
that the shell gave it.
"""

from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.sync_state_set import Outcome, ProposeSyncStateSet
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset, Record
from maxq.reference.wire.ha import MasterHandshake, SlavePacket

# Events.


class Lead(Record):
    """This broker is master. A term that follows on the last keeps its connections."""

    master_epoch: MasterEpoch
    members: frozenset[BrokerId]
    sync_state_set_epoch: int
    epochs: Epochs  # saved, the last one being of this term
    start: PhyOffset
    end: PhyOffset
    counted: PhyOffset  # how far this log counts: `end`, or what of it is synced


class Resign(Record):
    """This broker is master no more."""


class Written(Record):
    """The log has grown to `end`, and counts up to `counted`; where no replica is waited for, sends
    up to `alone` are answered: with a transient store pool before they are in the log."""

    end: PhyOffset
    counted: PhyOffset
    alone: PhyOffset = PhyOffset(0)  # `counted` where that is more


class Accepted(Record):
    """A slave connected, from the address `host`."""

    link: int
    host: str = ""


class Received(Record):
    """A packet of a slave."""

    link: int
    packet: SlavePacket


class Lost(Record):
    """A connection ended."""

    link: int


class Known(Record):
    """The controller's SyncStateSet, whoever asked for it."""

    master_epoch: MasterEpoch
    sync_state_set_epoch: int
    members: frozenset[BrokerId]


class Answered(Record):
    """A proposal was not applied (`refused`), or that is not known."""

    number: int
    outcome: Outcome


class Await(Record):
    """A send waits for the replicas to have the log up to `end`."""

    ticket: int
    master_epoch: MasterEpoch  # in which it was appended
    end: PhyOffset


class Trimmed(Record):
    """The log is about to begin at `start`; what is left of the epochs."""

    start: PhyOffset
    epochs: Epochs


class Timeout(Record):
    """`next_deadline_ns` has passed."""


Event = (
    Lead
    | Resign
    | Written
    | Accepted
    | Received
    | Lost
    | Known
    | Answered
    | Await
    | Trimmed
    | Timeout
)


# Effects.


class Reply(Record):
    """Answer a handshake."""

    link: int
    packet: MasterHandshake


class SendLog(Record):
    """Send `size` bytes of the log from `start` as one transfer; a heartbeat if there are none."""

    link: int
    start: PhyOffset
    size: int
    epoch: MasterEpoch
    epoch_start: PhyOffset
    confirm_offset: PhyOffset


class Close(Record):
    """Close a connection."""

    link: int


class Confirm(Record):
    """Consumers may read up to `offset`."""

    offset: PhyOffset


class Acknowledge(Record):
    """A waiting send has its replicas."""

    ticket: int


class GiveUp(Record):
    """A waiting send must be answered: its outcome is unknown."""

    ticket: int
    why: str


class Trace(Record):
    """A named fact."""

    name: str
    why: str = ""


Effect = Reply | SendLog | Close | ProposeSyncStateSet | Confirm | Acknowledge | GiveUp | Trace
