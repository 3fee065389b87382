"""Which settings would have kept what was lost: tried, not guessed.

The run is made again with one setting changed at a time, all else equal: in the simulator with the
same seed and schedule, on real machines as often as asked for, since none repeats itself. Where no
single setting keeps everything, pairs of them are tried until one does. Pure: the runs are made by
`maxq.harness.experiments.losses`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from typing import NamedTuple

import msgspec

from maxq.checkers.core.promises import (
    ACTS,
    ALL_ACK,
    CLEAN,
    DEFAULTS,
    IN_SYNC,
    MIN_IN_SYNC,
    NO_DEGRADING,
    NO_POOL,
    READS,
    SHOWS,
    SYNC_MASTER,
    SYNCED,
)
from maxq.checkers.judgement.lost import Lost
from maxq.harness.schedule.options import Options

PAIRS_MAX = 15
Setting = tuple[str, str]  # broker:flushDiskType, SYNC_FLUSH
# What can keep more, with and without controllers; what belongs together is one change.
WITH_CONTROLLERS: tuple[tuple[Setting, ...], ...] = (
    ((NO_POOL.key, NO_POOL.value),),
    ((SYNCED.key, SYNCED.value),),
    ((ALL_ACK.key, ALL_ACK.value),),
    ((MIN_IN_SYNC, "2"),),
    ((IN_SYNC, "2"),),
    ((CLEAN.key, CLEAN.value),),
    ((READS.key, "false"),),
)
IN_PAIRS: tuple[tuple[Setting, ...], ...] = (
    ((NO_POOL.key, NO_POOL.value),),
    ((SYNCED.key, SYNCED.value),),
    ((SYNC_MASTER.key, SYNC_MASTER.value),),
    ((IN_SYNC, "2"),),
    ((NO_DEGRADING.key, NO_DEGRADING.value),),
    ((READS.key, "false"),),
    ((ACTS.key, ACTS.value), (SHOWS.key, SHOWS.value)),
)


class Fix(NamedTuple):
    """A change of settings."""

    settings: tuple[Setting, ...]

    def __str__(self) -> str:
        return " and ".join(f"{key.partition(':')[2]}={value}" for key, value in self.settings)


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a change, of one run or of several together."""

    fix: str
    messages: tuple[Lost, ...]

    @property
    def kept(self) -> bool:
        """Whether each run was judged, and lost nothing that was acknowledged or shown."""
        return all(not m.why and not m.lost and not m.gone for m in self.messages)

    @property
    def said(self) -> str:
        """What each run lost, in words."""
        return "; ".join(_said(messages) for messages in self.messages)


def _said(messages: Lost) -> str:
    gone = f", {messages.shown_then_gone} shown and then gone" if messages.gone else ""
    return messages.said + gone


def singles(options: Options) -> list[Fix]:
    """The changes that are none yet of what is set."""
    found = IN_PAIRS if options.pair else WITH_CONTROLLERS
    return [Fix(settings) for settings in found if _changes(options, settings)]


def _changes(options: Options, settings: Sequence[Setting]) -> bool:
    now = {**DEFAULTS, **(options.context().settings or {})}
    return any(_less(now.get(key, ""), value) for key, value in settings)


def _less(now: str, value: str) -> bool:
    both = now.isdecimal() and value.isdecimal()
    return int(now) < int(value) if both else now != value


def pairs(alone: Sequence[Fix]) -> Iterator[Fix]:
    """Two changes at once, the first ones of all."""
    for one, other in islice(combinations(alone, 2), PAIRS_MAX):
        yield Fix((*one.settings, *other.settings))


def changed(options: Options, fix: Fix) -> Options:
    """The same run with other settings; what single nodes have of them otherwise goes."""
    names = {key.partition(":")[2] for key, _ in fix.settings}
    keys = {k: v for k, v in options.keys.items() if k.partition(":")[2] not in names}
    return msgspec.structs.replace(options, keys={**keys, **dict(fix.settings)})


def next_fix(alone: Sequence[Fix], tried: Mapping[Fix, bool]) -> Fix | None:
    """What to try next: every single change, then pairs until one keeps everything.

    Args:
        alone: the single changes of the run that lost something.
        tried: the changes that were tried, and whether each kept everything.
    """
    left = [fix for fix in alone if fix not in tried]
    if left:
        return left[0]
    if any(tried.values()):
        return None
    return next((fix for fix in pairs(alone) if fix not in tried), None)
