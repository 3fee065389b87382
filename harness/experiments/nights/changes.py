"""What changed between the newest night and those before it. Pure: entries in, changes out.

Settings are compared with themselves, never with others. A claim of the newest night is worse if

- it was kept in all earlier runs that could judge it, and is broken in one of this night;
- it was broken before, and is now broken in so many more of its runs that chance gives that once in
  a thousand times (Fisher's exact test, one-sided).

Losses that the settings allow are compared by how many runs lost something. A time to
recover is worse if its median is half as long again as before, and the bounds of both medians
(95 %, by order statistics) do not overlap. A seeded bug is worse if no run finds any more what
every earlier run found. Settings that did not run, claims that could not be judged and runs without
a verdict are no change for the better: they are not compared, and said.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Literal, NamedTuple

from maxq.checkers.availability.recovery import Recovery
from maxq.checkers.core.titles import titled
from maxq.checkers.judgement.lost import KEPT_ALL
from maxq.harness.experiments.nights.nights import Night, Settings, alike, in_words
from maxq.harness.experiments.overview.entries import Entry
from maxq.harness.run.replay import Rate

Kind = Literal["worse", "better", "not compared", "new"]
CHANCE = 0.001  # that a change is none
SLOWER = 1.5  # times the median of before
BOUNDED = 0.95
NO_VERDICT = ("unfinished", "damaged", "running")


class Change(NamedTuple):
    """What changed, in a sentence, under which settings; and a run that shows it."""

    kind: Kind
    what: str
    settings: str
    run: str = ""


class Times(NamedTuple):
    """Times to recover (s), infinite where nothing recovered while it was watched."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Between which the true median lies with 95 %; None of too few."""
        n, least = len(self.seconds), -1
        below = 0.0
        while (below := below + math.comb(n, least + 1) / 2**n) <= (1 - BOUNDED) / 2:
            least += 1
        if least < 0:
            return None
        ordered = sorted(self.seconds)
        return ordered[least], ordered[n - 1 - least]

    def __str__(self) -> str:
        if not self.seconds:
            return "-"
        never = sum(map(math.isinf, self.seconds))
        bounds = self.bounds
        said = f"{_seconds(self.median)} of {len(self.seconds)}"
        if bounds:
            said += f" ({_seconds(bounds[0])} to {_seconds(bounds[1])})"
        return f"{said}, {never} not while watched" if never else said


def _seconds(value: float) -> str:
    return "longer than watched" if math.isinf(value) else f"{value:.1f} s"


def more_often(now: Rate, before: Rate) -> bool:
    """Whether so many more hits than before are no chance. Source: Fisher 1922."""
    hits, runs = now.hits + before.hits, now.runs + before.runs
    ways = range(now.hits, min(hits, now.runs) + 1)
    more = sum(math.comb(hits, k) * math.comb(runs - hits, now.runs - k) for k in ways)
    return more / math.comb(runs, now.runs) < CHANCE


def broken_in(runs: Sequence[Entry], claim: str) -> Rate:
    """In how many of the runs that could judge it a claim was broken."""
    said = [run.claims.get(claim) for run in runs]
    broken = said.count("broken")
    return Rate(broken, broken + said.count("kept"))


def lost_in(runs: Sequence[Entry]) -> Rate:
    """In how many of the runs in which that was judged acknowledged messages were lost."""
    judged = [run.messages.lost for run in runs if run.messages.lost is not None]
    return Rate(sum(map(bool, judged)), len(judged))


def times_in(runs: Sequence[Entry], fault: str) -> Times:
    """How long it took after a fault of a kind (`faults_in`) until a send was ok."""
    found = [r.after_ns for run in runs for r in run.recoveries or () if _kind(r) == fault]
    return Times(tuple(math.inf if ns is None else ns / 1e9 for ns in found))


def faults_in(runs: Sequence[Entry]) -> list[str]:
    """The kinds of faults of which it is known how long they took: ``kill of a master``."""
    return sorted({_kind(r) for run in runs for r in run.recoveries or ()})


def _kind(found: Recovery) -> str:
    fault = found.f.removeprefix("start-")
    return f"{fault} of a {found.part}" if found.part else fault


def changes(nights: Sequence[Night]) -> list[Change]:
    """What changed from the nights before to the newest, the worst first; nothing of one night."""
    found: list[Change] = []
    if len(nights) > 1:
        for settings, each in alike(nights):
            found += _of(settings, each[-1], [run for runs in each[:-1] for run in runs])
    order: tuple[Kind, ...] = ("worse", "not compared", "new", "better")
    return sorted(found, key=lambda change: order.index(change.kind))


def _of(settings: Settings, now: Sequence[Entry], before: Sequence[Entry]) -> Iterator[Change]:
    where = in_words(settings)
    if not now:
        yield Change("not compared", f"did not run: {so_many_runs(len(before))} before", where)
        return
    if without := [run for run in now if run.state in NO_VERDICT]:
        said = f"{so_many_runs(len(without))} of {len(now)} without a verdict"
        yield Change("not compared", said, where, without[0].name)
    if not before:
        yield from _new(now, where)
        return
    seeded = bool(dict(settings).get("mutant"))
    for claim in dict.fromkeys(c for run in (*before, *now) for c in run.claims):
        yield from _of_claim(claim, now, before, where, seeded=seeded)
    if not seeded:
        yield from _of_losses(now, before, where)
        for fault in faults_in(now):
            yield from _of_times(fault, now, before, where)


def _new(now: Sequence[Entry], where: str) -> Iterator[Change]:
    broken = [c for c in dict.fromkeys(c for r in now for c in r.claims) if broken_in(now, c).hits]
    found = f"; broken: {titled(broken)}" if broken else ""
    yield Change("new", f"ran for the first time, {so_many_runs(len(now))}{found}", where)


def _of_claim(
    claim: str, now: Sequence[Entry], before: Sequence[Entry], where: str, *, seeded: bool
) -> Iterator[Change]:
    mine, older = broken_in(now, claim), broken_in(before, claim)
    if not mine.runs or not older.runs:
        if older.runs:
            many = so_many_runs(len(now))
            said = f"{titled([claim])}: not judged in {many}; in {older.runs} before"
            yield Change("not compared", said, where, now[-1].name)
        return
    text = (
        f"{titled([claim])}: broken in {mine.hits} of {so_many_runs(mine.runs)}, before in {older}"
    )
    if seeded:
        if older.hits == older.runs and not mine.hits:
            yield Change(
                "worse", f"a seeded bug is not found any more: {text}", where, now[-1].name
            )
        return
    kind = _compared(mine, older)
    if kind:
        shown = [r.name for r in now if (r.claims.get(claim) == "broken") == (kind == "worse")]
        yield Change(kind, text, where, shown[-1])


def _compared(mine: Rate, older: Rate) -> Kind | None:
    if mine.hits and (not older.hits or more_often(mine, older)):
        return "worse"
    return "better" if older.hits and not mine.hits else None


def _of_losses(now: Sequence[Entry], before: Sequence[Entry], where: str) -> Iterator[Change]:
    """Of losses that are allowed: those that are not are of their claim."""
    if any(run.claims.get(KEPT_ALL) in ("kept", "broken") for run in (*now, *before)):
        return
    mine, older = lost_in(now), lost_in(before)
    if mine.runs and older.runs and (kind := _compared(mine, older)):
        said = (
            f"messages lost, as the settings allow, in {mine.hits} of {so_many_runs(mine.runs)}, "
        )
        shown = [run.name for run in now if bool(run.messages.lost) == (kind == "worse")]
        yield Change(kind, f"{said}before in {older}", where, shown[-1])


def _of_times(
    fault: str, now: Sequence[Entry], before: Sequence[Entry], where: str
) -> Iterator[Change]:
    mine, older = times_in(now, fault), times_in(before, fault)
    for kind, slow, quick in (("worse", mine, older), ("better", older, mine)):
        if not (slow.bounds and quick.bounds) or slow.bounds[0] <= quick.bounds[1]:
            continue
        if slow.median >= SLOWER * quick.median:
            said = f"until a send was ok after {fault}: {mine}, before {older}"
            name = max(now, key=lambda run: max(times_in([run], fault).seconds, default=0.0)).name
            yield Change(kind, said, where, name)  # type: ignore[arg-type]


def so_many_runs(number: int) -> str:
    """So many runs."""
    return f"{number:,} run{'' if number == 1 else 's'}"
