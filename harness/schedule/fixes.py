"""Which settings would have kept what was lost, or had clients served: tried, not guessed.

The run is made again with one setting changed at a time, all else equal: in the simulator with the
same seed and schedule, on real machines as often as asked for, since none repeats itself. Where few
messages were lost a change may have kept them by chance, so one that did is tried more often. Where
no single setting keeps everything, pairs of them are tried until one does. Where nothing was lost
but clients waited long, the settings are tried that serve them while a master is away. Pure: the
runs are made by `maxq.harness.experiments.losses`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from pathlib import Path
from shlex import quote
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
from maxq.checkers.judgement.stretches import LONG_NS, NONE
from maxq.harness.schedule.options import Options

PAIRS_MAX = 15
ALL_SET = "each of the settings that Max-Q would try has that value already"
FEW = 10  # messages: so few, and a run that moves by some milliseconds may lose none
CONFIRMED = 3  # how often a change that keeps everything is tried then
Silences = Mapping[str, float]  # ms by the kind of operation
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
# What serves clients of a pair while its master is away.
SERVING_IN_PAIRS: tuple[tuple[Setting, ...], ...] = (
    ((READS.key, READS.value),),
    ((ACTS.key, ACTS.value), (SHOWS.key, SHOWS.value)),
)


class Fix(NamedTuple):
    """A change of settings."""

    settings: tuple[Setting, ...]

    def __str__(self) -> str:
        return " and ".join(f"{key.partition(':')[2]}={value}" for key, value in self.settings)


class ToTry(NamedTuple):
    """Which changes may have kept what was lost, in words, and the command that tries them."""

    what: str
    command: str


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a change, of one run or of several together. `silent_ms` is of each run for how
    long at most no operation of a kind succeeded."""

    fix: str
    messages: tuple[Lost, ...]
    silent_ms: tuple[Silences, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether each run was judged, and lost nothing that was acknowledged or shown."""
        return all(not m.why and not m.lost and not m.gone for m in self.messages)

    @property
    def said(self) -> str:
        """What each run lost, in words."""
        return "; ".join(_said(messages) for messages in self.messages)

    def serves(self, before: Silences) -> list[str]:
        """The kinds of operations that waited long, and less than half as long in each run with
        the change, which lost nothing."""
        if not self.kept:
            return []
        return [f for f in long_in(before) if self._worst(f) < before[f] / 2]

    def said_of(self, before: Silences) -> str:
        """How long clients waited, beside how long they had."""
        if not self.kept:
            return self.said
        sooner = (_waited(f, self._worst(f), before[f]) for f in self.serves(before))
        return "; ".join(sooner) or "clients waited as long"

    def _worst(self, f: str) -> float:
        return max((silent.get(f, 0.0) for silent in self.silent_ms), default=0.0)


def _said(messages: Lost) -> str:
    gone = f", {messages.shown_then_gone} shown and then gone" if messages.gone else ""
    return messages.said + gone


def _waited(f: str, now_ms: float, before_ms: float) -> str:
    what, success = NONE.get(f, (f, "ok"))
    now = f"{now_ms / 1000:.1f} s" if now_ms else "1 s"  # a shorter time is not recorded
    return f"no {what} was {success} for at most {now}, and not for {before_ms / 1000:.1f} s"


def long_in(silent_ms: Silences) -> list[str]:
    """The kinds of operations that waited so long that a verdict says so."""
    return [f for f, ms in silent_ms.items() if ms * 1_000_000 > LONG_NS]


def worth(options: Options, messages: Lost, silent_ms: Silences) -> list["Fix"]:
    """The changes that are worth trying after a run: what keeps messages where some were lost, else
    what serves clients where they waited long."""
    if messages.lost or messages.gone:
        return singles(options)
    if not long_in(silent_ms) or not options.pair:
        return []
    return _changing(options, SERVING_IN_PAIRS)


def to_try(options: Options, messages: Lost, run: Path) -> ToTry | None:
    """What is left to try after a run, by its folder, that lost something."""
    left = singles(options) if messages.lost or messages.gone else []
    if not left:
        return None
    what = f"whether {', '.join(map(str, left))} would have kept what was lost"
    return ToTry(what, f"maxq check {quote(str(run))} --try-fix 1")


def times(asked: int, messages: Lost) -> int:
    """How often a change that has kept everything so far is tried."""
    few = 0 < (messages.lost or 0) + (messages.gone or 0) < FEW
    return max(asked, CONFIRMED) if few else asked


def singles(options: Options) -> list[Fix]:
    """The changes that are none yet of what is set."""
    return _changing(options, IN_PAIRS if options.pair else WITH_CONTROLLERS)


def _changing(options: Options, every: Sequence[tuple[Setting, ...]]) -> list[Fix]:
    """Those that are more than what is set."""
    now = {**DEFAULTS, **(options.context().settings or {})}
    return [Fix(of) for of in every if any(_less(now.get(k, ""), value) for k, value in of)]


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


def said_of_trials(
    what: str, trials: Sequence[Trial], before: Silences | None = None
) -> Iterator[str]:
    """What trying said of settings, a line each.

    Args:
        what: the fault or faults under which the run was made.
        trials: of the changes.
        before: where nothing was lost, how long clients had waited.
    """
    good = [bool(trial.serves(before) if before else trial.kept) for trial in trials]
    of = f"{sum(good)} of {len(trials)} {'served clients sooner' if before else 'kept everything'}"
    yield f"The run of {what} again, with other settings ({of}):"
    width, mark = max(len(trial.fix) for trial in trials), "sooner" if before else "kept"
    for trial, is_good in zip(trials, good, strict=True):
        said = trial.said_of(before) if before else trial.said
        yield f"  {mark if is_good else '':{len(mark)}}  {trial.fix:{width}}  {said}"
