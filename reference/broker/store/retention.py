"""Which files of a commit log go now. Pure.

Files go for their age, at certain hours or when there is little room; and, where there is too
little, whatever their age, unless that is switched off. A file's age is that of its last change.
The oldest goes first, and the first that stays keeps all behind it. A look takes no more than
`batch_max`, but for what is beyond a share. Never the last file, and none beyond `held_from`: what
is not confirmed yet, or what a member of the SyncStateSet still copies (claim S9). RocketMQ knows
neither bound.

How much room there is, is one of two questions. A broker that has the whole partition asks how full
that is, by its own files or others. One with a share asks how much of it its own files take, and no
neighbour's files count (claims B9, B10). A look leaves `share_forcibly_at` of the share at most, so
it is exceeded by no more than what comes between two looks, and a file. RocketMQ takes a batch of
files then, and takes them as well when the partition is at `forcibly_at`.

At the warning level sends are refused, until the partition is no fuller than where files are
deleted whatever their age: between the two levels nothing changes, so that it does not flap. That
is so with a share as well: nothing can be written to a full partition.

Times are ms of the wall clock; levels are percent of the partition. Source: RocketMQ
``CleanCommitLogService``, ``MappedFileQueue.deleteExpiredFileByTime``; RIP-31, "Data Storage".
"""

import math
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
    share: float = 1.0  # of the partition; below 1 `used_max` is percent of it, not of the whole
    share_forcibly_at: float = 0.8  # of the share; in the place of `forcibly_at`
    forcibly: bool = True
    batch_max: int = 10


class Seen(Record):
    """The log and its partition, now."""

    now_ms: int
    hour: int
    used: float  # percent of the partition
    held_from: PhyOffset  # what begins here or ends behind it stays
    own: int = 0  # bytes of the broker's log and queues; of no use without a share
    total: int = 0  # bytes of the partition


class Verdict(Record):
    """Where the log begins from now on; None: where it does. Whether sends are refused. How many
    bytes beyond its share the broker keeps, since what holds them may not go."""

    start: PhyOffset | None
    full: bool
    beyond: int = 0


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
    crowded, excess = _room(rules, seen, forcibly_at)
    start: PhyOffset | None = None
    if crowded or seen.hour in rules.hours:
        for number, (file, following) in enumerate(pairwise(files)):
            old = seen.now_ms >= file.modified_ms + rules.reserved_ms
            young_too = rules.forcibly and excess > 0
            if not (old or young_too) or following.start > seen.held_from:
                break
            if number >= rules.batch_max and not (rules.share < 1 and young_too):
                break
            start = following.start
            excess -= following.start - file.start
    beyond = math.ceil(max(excess, 0)) if rules.share < 1 else 0
    return Verdict(start=start, full=full, beyond=beyond)


def _room(rules: Rules, seen: Seen, forcibly_at: int) -> tuple[bool, float]:
    """Whether what is old goes at any hour, and how many bytes too many there are."""
    if rules.share < 1:
        quota = rules.share * seen.total
        most = rules.share_forcibly_at * quota
        return seen.own > min(quota * rules.used_max / 100, most), seen.own - most
    over = seen.used > forcibly_at
    return seen.used > min(rules.used_max, forcibly_at), math.inf if over else 0
