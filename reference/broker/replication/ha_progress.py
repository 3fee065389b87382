"""How far one slave is, as its master knows, and what it gets next.

Offsets are bytes of the commit log, ends exclusive; times are ns of this node's monotonic clock.
"""

from dataclasses import dataclass

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha_master_events import SendLog
from maxq.reference.broker.replication.ha_settings import MasterSettings
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset


@dataclass(slots=True)
class SlaveProgress:
    """One slave's connection."""

    number: int
    heard_ns: int
    wrote_ns: int
    mark_ns: int  # when the master's end was `mark`
    host: str = ""  # where it speaks from
    slave: BrokerId | None = None  # until the handshake
    learner: bool = False
    from_last_file: bool = False
    replied: MasterEpoch = MasterEpoch(0)  # the newest epoch of the reply to its handshake
    acked: PhyOffset | None = None  # until the first acknowledgement
    first: PhyOffset = PhyOffset(0)  # first byte that was to be sent
    next: PhyOffset = PhyOffset(0)  # first byte that was not sent
    label: int = 0  # index of the epoch of that byte
    caught_up_ns: int | None = None  # when it last had all that the master had
    mark: PhyOffset = PhyOffset(0)  # when the slave reaches it, the next mark is set

    def begin(
        self,
        request: PhyOffset,
        *,
        start: PhyOffset,
        end: PhyOffset,
        last_file: PhyOffset,
        epochs: Epochs,
    ) -> str:
        """Choose where to start sending; returns why that is impossible, or an empty string.

        Args:
            request: the slave's first acknowledgement; 0 asks for all that is kept. One that lies
                before it gets that, too, and sees from the first transfer what it lacks.
            start, end, epochs: of the master's log.
            last_file: where its last file begins.
        """
        if self.slave is None:
            return "acknowledgement before the handshake"
        at = request
        if request == 0:
            at = last_file if self.from_last_file else start
        elif 0 < request < start:
            at = start
        label = policy.label_at(epochs, at)
        if not start <= at <= end or label is None:
            return f"cannot start at {at}: the log is {start} to {end}"
        # A term that began since the reply: the slave hears of each epoch from then on.
        while label and epochs[label].epoch > self.replied:
            label -= 1
        self.first = self.next = at
        self.label = label
        return ""

    def lacks(self, start: PhyOffset) -> bool:
        """Whether the slave still has to be sent bytes before `start`."""
        return self.acked is not None and self.next < start

    def enter_epoch(self, epochs: Epochs) -> bool:
        """Go on to the next epoch of the master's log, if it begins at the next byte or before."""
        following = self.label + 1
        if following < len(epochs) and epochs[following].start <= self.next:
            self.label = following
            return True
        return False

    def ack_fault(self, offset: PhyOffset) -> str:
        """Why an acknowledgement behind the first cannot be true; empty if it may be."""
        if offset > self.next:
            return f"acknowledges {offset}, sent up to {self.next}"
        if self.acked is not None and offset < self.acked:
            return f"acknowledges {offset} after {self.acked}"
        return ""

    def note_progress(self, now_ns: int, offset: PhyOffset, end: PhyOffset) -> None:
        """Note when the slave last had all that the master, whose log ends at `end`, had."""
        if offset >= end:
            self.caught_up_ns = now_ns
        elif offset >= self.mark:
            self.caught_up_ns = max(self.mark_ns, self.caught_up_ns or 0)
        if offset >= self.mark:
            self.mark, self.mark_ns = end, now_ns

    def sendable(self, epochs: Epochs, end: PhyOffset, settings: MasterSettings) -> int:
        """Bytes that the next transfer may carry: of one epoch, file and batch, and within the
        window of what is not acknowledged; 0 before the first acknowledgement."""
        if self.acked is None:
            return 0
        at = self.next
        begins = epochs[self.label].start  # behind `at` only where nothing is labelled
        stop = min(
            policy.end_of(epochs, self.label, end) if begins <= at else begins,
            at - at % settings.file_size + settings.file_size,
            at + settings.batch_bytes,
            max(self.acked, self.first) + settings.window_bytes,
        )
        return max(stop - at, 0)

    def sent(self, now_ns: int, size: int, epochs: Epochs, confirm: PhyOffset) -> SendLog:
        """The transfer of the next `size` bytes, which count as sent from now on."""
        label, start = epochs[self.label], self.next
        self.next, self.wrote_ns = PhyOffset(start + size), now_ns
        return SendLog(
            link=self.number,
            start=start,
            size=size,
            epoch=label.epoch,
            epoch_start=label.start,
            confirm_offset=confirm,
        )
