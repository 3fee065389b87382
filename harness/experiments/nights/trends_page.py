"""What changed between nights, as a page: changes, then losses and times by fault and release."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from maxq.harness.experiments.nights.changes import (
    Change,
    Kind,
    faults_in,
    lost_in,
    so_many_runs,
    times_in,
)
from maxq.harness.experiments.nights.nights import Night
from maxq.harness.experiments.overview.entries import MARKS, STATES, Entry
from maxq.harness.experiments.overview.tables_page import Part, Row, tables_page

SHOWN: dict[Kind, str] = {
    "worse": "broken", "not compared": "measured", "new": "other", "better": "kept",
}  # fmt: skip
NIGHTS_MAX = 14  # whose verdicts a row shows one by one
BOUNDS = (
    "In parentheses: between which bounds the true share lies with 95 %. The last column has the "
    "verdict of each run, by nights: . valid, X invalid, ? unknown."
)
LOST = (
    "In how many of the runs that could judge it acknowledged messages were lost, whether or not "
    "the settings allow it. Runs of seeded bugs are left out."
)
TIMES = (
    "From a fault to the first send that was ok to a broker set that it struck: the median, of how "
    "many faults, and its bounds (95 %). Runs of seeded bugs are left out."
)
RULE = (
    "Settings are compared with themselves. Worse: what was kept in every run before is broken; or "
    "it is broken more often, which chance gives once in a thousand times. A time is worse if its "
    "median is half as long again, and the bounds of both do not overlap."
)
NOTHING = "Nothing that could be compared is better or worse than before."


def page(nights: Sequence[Night], found: Sequence[Change]) -> str:
    """The page. Pure."""
    return tables_page("What changed overnight", preface(nights, found), parts(nights, found), {})


def preface(nights: Sequence[Night], found: Sequence[Change]) -> list[str]:
    """What is compared, and what came of it, in sentences."""
    *before, now = nights
    of = f"{now.name} ({so_many_runs(len(now.runs))})"
    if not before:
        return [f"There is one night, {of}: there is nothing to compare it with."]
    count = sum(len(night.runs) for night in before)
    many = f"{len(before)} night{'' if len(before) == 1 else 's'} before"
    return [f"The newest night, {of}, beside {many} ({so_many_runs(count)}).", headline(found)]


def headline(found: Sequence[Change]) -> str:
    """How many changes of each kind, in a sentence."""
    counts = Counter(change.kind for change in found)
    said = [f"{counts[kind]} {kind}" for kind in SHOWN if counts[kind]]
    return f"{', '.join(said)}." if said else NOTHING


def parts(nights: Sequence[Night], found: Sequence[Change]) -> Iterator[Part]:
    """All tables."""
    rows = tuple(_changed(change) for change in found)
    if len(nights) > 1:
        head = ("", "what", "settings", "run")
        yield Part("Changes", (RULE,) if rows else (NOTHING,), head, rows)
    by_load = _groups(nights, lambda run: [run.settings.get("nemesis", "")])
    yield _table("Losses by fault and release", (LOST, BOUNDS), "faults", nights, by_load,
                 lambda runs, _: _rate(runs))  # fmt: skip
    by_fault = _groups(nights, lambda run: faults_in([run]))
    yield _table("Time until a send was ok", (TIMES,), "fault", nights, by_fault,
                 lambda runs, fault: str(times_in(runs, fault)))  # fmt: skip
    yield Part("Nights", (), ("night", "runs", *STATES), tuple(map(_night, reversed(nights))))


def _changed(change: Change) -> Row:
    return (
        (change.kind, SHOWN[change.kind]), (change.what, "prose"), (change.settings, "prose"),
        (change.run, "code" if change.run else ""),
    )  # fmt: skip


def _groups(nights: Sequence[Night], of: Callable[[Entry], Sequence[str]]) -> list[tuple[str, str]]:
    """Which pairs of a fault and a release there are."""
    found = {
        (fault, run.settings.get("target", "")): None
        for night in nights for run in _unseeded(night.runs) for fault in of(run)
    }  # fmt: skip
    return sorted(found)


def _table(
    title: str, sentences: tuple[str, ...], what: str, nights: Sequence[Night],
    groups: Sequence[tuple[str, str]], said: Callable[[Sequence[Entry], str], str],
) -> Part:  # fmt: skip
    """A row for each fault and release: what was so before, and in the newest night."""
    rows = []
    for fault, release in groups:
        each = [_alike(night.runs, fault, release, what) for night in nights]
        before = [run for runs in each[:-1] for run in runs]
        rows.append((
            (fault or "none", "name"), (release, ""), (_of(before, fault, said), ""),
            (_of(each[-1], fault, said), ""), (_marks(each), "code"),
        ))  # fmt: skip
    head = (what, "release", "before", nights[-1].name, "verdicts by night")
    return Part(title, sentences if rows else ("Nothing of it is stored.",), head, tuple(rows))


def _alike(runs: Sequence[Entry], fault: str, release: str, what: str) -> list[Entry]:
    mine = [run for run in _unseeded(runs) if run.settings.get("target", "") == release]
    if what == "faults":
        return [run for run in mine if run.settings.get("nemesis", "") == fault]
    return [run for run in mine if fault in faults_in([run])]


def _of(runs: Sequence[Entry], fault: str, said: Callable[[Sequence[Entry], str], str]) -> str:
    return said(runs, fault) if runs else "-"


def _rate(runs: Sequence[Entry]) -> str:
    found = lost_in(runs)
    if not found.runs:
        return f"not judged in {so_many_runs(len(runs))}"
    messages = sum(run.messages.lost or 0 for run in runs)
    acknowledged = sum(run.messages.acknowledged for run in runs if run.messages.lost is not None)
    return f"{found}; {messages:,} of {acknowledged:,} messages"


def _marks(each: Sequence[Sequence[Entry]]) -> str:
    """The verdicts of the last nights, such as ``.. .X ..``; ``-`` without a run."""
    shown = [
        "".join(MARKS.get(run.state, "?") for run in runs) or "-" for runs in each[-NIGHTS_MAX:]
    ]
    return ("… " if len(each) > NIGHTS_MAX else "") + " ".join(shown)


def _night(night: Night) -> Row:
    counts = Counter(run.state for run in night.runs)
    each = tuple((str(counts[state]) if counts[state] else "", "") for state in STATES)
    return ((night.name, "name"), (str(len(night.runs)), ""), *each)


def _unseeded(runs: Sequence[Entry]) -> list[Entry]:
    return [run for run in runs if not run.settings.get("mutant")]
