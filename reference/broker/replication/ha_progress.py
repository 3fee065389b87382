"""How far one slave is, as its master knows.

Offsets are bytes of the commit log, ends exclusive; times are ns of this node's monotonic clock.
"""

from dataclasses import dataclass

from reference.records import BrokerId, MasterEpoch, PhyOffset


@dataclass(slots=True)
class SlaveProgress:
    """One slave's connection."""

    number: int
    heard_ns: int
    wrote_ns: int
    mark_ns: int  # when the master's end was `mark`
    slave: BrokerId | None = None  # until the handshake
    learner: bool = False
    from_last_file: bool = False
    told: MasterEpoch = MasterEpoch(0)  # the newest epoch of the reply to its handshake
    acked: PhyOffset | None = None  # until the first acknowledgement
    first: PhyOffset = PhyOffset(0)  # first byte that was to be sent
    next: PhyOffset = PhyOffset(0)  # first byte that was not sent
    label: int = 0  # index of the epoch of that byte
    caught_up_ns: int | None = None  # when it last had all that the master had
    mark: PhyOffset = PhyOffset(0)  # when the slave reaches it, the next mark is set
