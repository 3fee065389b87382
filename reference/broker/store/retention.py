"""Which files of a commit log go now. Pure.

Files go for their age, at certain hours or when the partition fills up; and, once it is nearly
full, whatever their age, unless that is switched off. A file's age is that of its last change. The
oldest goes first, and the first that stays keeps all behind it; a look takes no more than
`batch_max`. Never the last file, and none beyond `held_from`: what is not confirmed yet, or what a
member of the SyncStateSet still copies (claim S9). RocketMQ knows neither bound.

At the warning level sends are refused, until the partition is no fuller than where files are
deleted whatever their age: between the two levels nothing changes, so that it does not flap.

Times are ms of the wall clock; levels are percent of the partition. Source: RocketMQ
``CleanCommitLogService``, ``MappedFileQueue.deleteExpiredFileByTime``.
"""

from collections.abc import Sequence
from itertools import pairwise

from maxq.reference.records import PhyOffset, Record

HOUR_MS = 3_600_000


class LogFile(Record):
    """A file of the log."""

    start: PhyOffset
    modified_ms: int


class Rules(Record):
    """What is kept: RocketMQ's settings."""

    reserved_ms: int = 72 * HOUR_MS
    hours: frozenset[int] = frozenset({4})  # of the day, when what is old goes
    used_max: int = 75  # beyond this, what is old goes at any hour
    forcibly_at: int = 85  # beyond this, what is young goes as well
    warning_at: int = 90  # beyond this, sends are refused too
    forcibly: bool = True
    batch_max: int = 10


class Seen(Record):
    """The log and its partition, now."""

    now_ms: int
    hour: int
    used: float  # percent
    held_from: PhyOffset  # what begins here or ends behind it stays


class Verdict(Record):
    """Where the log begins from now on; None: where it does. Whether sends are refused."""

    start: PhyOffset | None
    full: bool


def judge(rules: Rules, seen: Seen, files: Sequence[LogFile], *, full: bool) -> Verdict:
    """Choose the files that go.

    Args:
        rules: the settings.
        seen: what there is besides the files.
        files: of the log, in order.
        full: whether sends were refused until now.
    """
    forcibly_at = min(rules.forcibly_at, rules.warning_at)
    full = seen.used > rules.warning_at or (full and seen.used > forcibly_at)
    young_too = rules.forcibly and seen.used > forcibly_at
    crowded = seen.used > min(rules.used_max, forcibly_at)
    start: PhyOffset | None = None
    if crowded or seen.hour in rules.hours:
        for file, following in list(pairwise(files))[: rules.batch_max]:
            old = seen.now_ms >= file.modified_ms + rules.reserved_ms
            if not (old or young_too) or following.start > seen.held_from:
                break
            start = following.start
    return Verdict(start=start, full=full)
