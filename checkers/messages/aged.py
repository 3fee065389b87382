"""Messages that a reader passed because they had been deleted for their age: no loss.

That is what explains a finding if all the messages that it misses may be deleted
(`maxq.checkers.evidence.stores.trims`) by the time of the operation that first went past them, or
that read the whole log without them. A reader that had another message at the same offset did not
go past this one, if that was before this one was acknowledged, or if a broker showed it that did
not lead any more: it read what an election took away. A log that ends sooner than it did, or that
holds another message at an offset, is never explained by that.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

from maxq.checkers.evidence.log import LogFacts, LogOp, Step
from maxq.checkers.evidence.log_key import Finding, Order
from maxq.checkers.evidence.stores.trims import Expiry, first_young
from maxq.checkers.messages.excuses import Passage, passages

WENT_PAST = frozenset(("lost-write", "hidden-loss"))
SKIPS = frozenset(("poll-skip", "int-poll-skip"))


class Aged:
    """Of one key.

    Args:
        steps: what is said of it, in order.
        order: its log.
        facts: of the whole history.
        expired: what of it may be deleted, from when on.
    """

    def __init__(
        self, steps: Sequence[Step], order: Order, facts: LogFacts, expired: Sequence[Expiry]
    ) -> None:
        self._unrest = facts.unrest
        self._order = order
        self._expired = expired
        self._steps = steps
        self._went = dict(passages(steps, order, plain=facts.plain)) if expired else {}
        self._passages = list({id(p): p for p in self._went.values()}.values())

    def explains(self, finding: Finding) -> bool:
        """Whether a finding is the deletion of what is old."""
        if not self._expired:
            return False
        last = self._last_missed(finding)
        return last is not None and last < first_young(self._expired, self._shown_by(finding))

    def _last_missed(self, finding: Finding) -> int | None:
        """The last offset that a finding misses; None where it does not just miss messages."""
        detail, order = finding.detail, self._order
        if finding.name in SKIPS:
            after: int = order.place[detail["values"][1]]
            return order.offsets[after - 1]
        if finding.name in WENT_PAST:
            return order.offsets[order.last[detail["value"]]]
        if finding.name == "lost-tail" or (finding.name == "truncation" and "end" in detail):
            offset: int | None = detail["offset"]
            return None if offset is None or detail["end"] <= offset else offset
        return None

    def _shown_by(self, finding: Finding) -> int:
        """The operation that shows it."""
        if finding.name in WENT_PAST:
            place = finding.detail["index"]
            # One that began behind the message went past a later copy of it.
            went = (p for p in self._past(finding.detail["writer"], place) if p.first <= place)
            reached = (at for p in went for at in p.reached(place))
            return min(reached, default=max(finding.ops))
        shows = {"lost-tail": "reader", "truncation": "later"}.get(finding.name)
        return max(finding.ops) if shows is None else int(finding.detail[shows])

    def _past(self, writer: int, place: int) -> Iterator[Passage]:
        """The passages that had not read what stood at a place before a send was acknowledged, nor
        from a broker that was deposed."""
        there = self._read.get(self._order.offsets[place], ())
        other = {id(p) for p, poll in there if poll.at < writer or self._deposed(poll)}
        return (p for p in self._passages if id(p) not in other)

    def _deposed(self, poll: LogOp) -> bool:
        """Whether another broker than the one that answered a poll surely led meanwhile."""
        masters = self._unrest.led_by(poll.node or "", poll.begun, poll.at)
        return bool(masters) and poll.broker is not None and poll.broker not in masters

    @cached_property
    def _read(self) -> dict[int, list[tuple[Passage, LogOp]]]:
        """By offset: which passage read there, by which operation."""
        found: dict[int, list[tuple[Passage, LogOp]]] = {}
        for step in self._steps:
            passage = self._went.get(step.at)
            if passage is None or not isinstance(step, LogOp):
                continue
            for e in step.polled:
                if e.offset is not None:
                    found.setdefault(e.offset, []).append((passage, step))
        return found
