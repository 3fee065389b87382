"""What a known anomaly is, what all of them have in common, and how it is said to people."""

from collections.abc import Collection
from typing import NamedTuple

from maxq.harness.targets.rocketmq.releases import ordered

OURS, BY_DESIGN, UNCLASSIFIED = "ours", "by design", "unclassified"
TRACK = "new: docs/track-record.md"


class Known(NamedTuple):
    """An anomaly that was looked into.

    `seen` are releases in which it was, in order, also by reports; empty: it is in all. `is_`: the
    numbers of its reports at apache/rocketmq, else ``ours``, ``by design`` (of what settings ask
    for), or where it is described. `what` no other one has. `shown` is the cause that must fit
    (`naming.TIES`), empty: none is needed. `mended` is the first release without it, if one is
    known.
    """

    signatures: tuple[str, ...]
    seen: tuple[str, ...]
    is_: str | tuple[int, ...]
    what: str
    shown: str = ""
    mended: str = ""

    @property
    def class_(self) -> str:
        """What it is, as tables have it."""
        return self.is_ if isinstance(self.is_, str) else f"upstream {_numbers(self.is_)}"

    def covers(self, release: str) -> bool:
        """Whether a release may have it: from the first one in which it was seen until it was
        mended; where no cause shows it, to the last one in which it was seen."""
        if not self.seen:
            return True
        mended = self.mended and ordered(release) >= ordered(self.mended)
        past = not self.shown and ordered(release) > ordered(self.seen[-1])
        return ordered(release) >= ordered(self.seen[0]) and not mended and not past

    def said(self, *, sure: bool = True) -> str:
        """In words: ``known: … (RocketMQ #8158, seen in 5.1.1 to 5.5.0)``. It may be another thing
        if it is not `sure`."""
        if self.is_ == BY_DESIGN:
            return f"{'by design of these settings' if sure else 'may be by design'}: {self.what}"
        record = f"{'' if sure else 'of '}Max-Q's track record"
        reports = record if isinstance(self.is_, str) else f"RocketMQ {_numbers(self.is_)}"
        first, last = self.seen[0], self.seen[-1]
        span = first if first == last else f"{first} to {last}"
        mended = f", fixed in {self.mended}" if self.mended else ""
        if sure:
            return f"known: {self.what} ({reports}, seen in {span}{mended})"
        return f"may be {reports} ({self.what}), seen in {span}{mended}"


def _numbers(reports: Collection[int]) -> str:
    return ", ".join(f"#{number}" for number in reports)
