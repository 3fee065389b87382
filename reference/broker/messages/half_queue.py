"""Which half messages are open: a core that reads the half topic and the op topic. Pure.

What it knows follows from the two topics alone, so that anyone who becomes master knows the same.
It takes records in the order of their queue, once they are at the replicas and on disk; of ends
that this broker has just written, at once.

Of copies of one half message only the newest is open, also where a producer sent it twice for want
of an answer: both have its key.

Offsets are message indices: of the half topic, if nothing else is said. Times are ms of the wall
clock, of anyone who was master then.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from maxq.reference.broker.messages.transaction import Half
from maxq.reference.records import QueueOffset


@dataclass(slots=True)
class HalfQueue:
    """The open half messages.

    Args:
        next_half: what is read next of the half topic; nothing before it is open.
        next_op: what is read next of the op topic; nothing before it matters.
    """

    next_half: QueueOffset
    next_op: QueueOffset
    open: dict[QueueOffset, Half] = field(default_factory=dict)  # in order
    _newest: dict[str, QueueOffset] = field(default_factory=dict)  # key -> open one
    _ahead: dict[QueueOffset, None] = field(default_factory=dict)  # ended, and not read yet
    # Ended here, op not read yet; where the copy is that was written instead.
    _ended: dict[QueueOffset, QueueOffset | None] = field(default_factory=dict)
    _ops: deque[tuple[QueueOffset, QueueOffset]] = field(default_factory=deque)
    # invariant: _ops has (op, highest half message that it ends), in order of op

    def on_half(self, half: Half) -> None:
        """The next record of the half topic."""
        self.next_half = QueueOffset(half.offset + 1)
        if half.offset in self._ahead:
            del self._ahead[half.offset]
            return
        self._close(self._newest.get(half.key))
        self.open[half.offset] = half
        self._newest[half.key] = half.offset

    def on_op(self, op: QueueOffset, ends: Sequence[QueueOffset]) -> None:
        """The next record of the op topic."""
        self.next_op = QueueOffset(op + 1)
        for offset in ends:
            self._ended.pop(offset, None)
            if offset >= self.next_half:
                self._ahead[offset] = None
            else:
                self._close(offset)
        if ends:
            self._ops.append((op, max(ends)))

    def on_ended(self, offset: QueueOffset, copy: QueueOffset | None = None) -> None:
        """This broker has just written the end of a half message, of one that has a copy now."""
        if offset >= self.next_half or offset in self.open:
            self._ended[offset] = copy

    def on_moved(self, offset: QueueOffset) -> None:
        """Another broker has this one now, and settles it."""
        self._close(offset)

    def _close(self, offset: QueueOffset | None) -> None:
        half = None if offset is None else self.open.pop(offset, None)
        if half is not None and self._newest.get(half.key) == half.offset:
            del self._newest[half.key]

    def forget(self, first: QueueOffset) -> None:
        """The half messages before `first` are gone from the log: what is open of them stays so
        for ever, and is asked about no more."""
        for offset in [offset for offset in self.open if offset < first]:
            self._close(offset)

    def to_end(self, offset: QueueOffset, key: str) -> QueueOffset | None:
        """What has to be ended where a producer ends this one: its newest copy. None if it has
        ended before."""
        unread = offset >= self.next_half and offset not in self._ahead
        wanted = offset if unread else self._newest.get(key)
        while wanted is not None and wanted in self._ended:
            wanted = self._ended[wanted]
        return wanted

    def due(self, now_ms: int, timeout_ms: int) -> Iterator[Half]:
        """Half messages that are open for too long, oldest first. Change nothing meanwhile.

        One from the future was stored by a clock that was ahead of ours, or ours was set back.
        """
        for half in self.open.values():
            if half.offset in self._ended:
                continue
            waited = now_ms - half.stored_ms
            immune = now_ms - half.born_ms < (half.immune_ms or 0)
            if (waited >= timeout_ms and not immune) or waited < 0:
                yield half

    def left_behind(self) -> tuple[QueueOffset, QueueOffset]:
        """How far both topics need not be read again: half topic, op topic."""
        half = next(iter(self.open), self.next_half)
        while self._ops and self._ops[0][1] < half:
            self._ops.popleft()
        return half, self._ops[0][0] if self._ops else self.next_op
