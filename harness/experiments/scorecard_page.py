"""A scorecard as Markdown and as a page: releases beside each other, claim by claim.

Sentences on releases come first, then what was broken. In a cell of the tables after it: in how
many of the runs that could judge a claim it was broken, or the number of runs in which it was kept.
``n/a``: the release cannot show it. ``?``: there were runs, and none could judge it. ``-``: there
was no run. In parentheses: what the profile does not promise.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import product

from maxq.checkers.core.claims import CLAIMS
from maxq.checkers.core.titles import titled
from maxq.checkers.judgement.phrases import in_words
from maxq.harness.contracts.target import Profile
from maxq.harness.experiments.overview.tables_page import Part, Row, tables_page
from maxq.harness.experiments.scorecard import (
    BATTERIES,
    LATENCY,
    RECOVERIES,
    Cell,
    Entry,
    Job,
    Scorecard,
    battery,
    cell,
    middle,
)
from maxq.harness.experiments.scorecard_sentences import in_short, short
from maxq.harness.schedule.options import MODES, PROFILES

NONE = "-"
JUDGED = ("broken", "kept")
NAMES = {profile: alias for alias, profile in PROFILES.items()}
TITLE = "What releases of Apache RocketMQ keep and lose"
TITLES = dict(zip(MODES, (TITLE, f"{TITLE} without controllers"), strict=True))
LEGEND = (
    "In a cell: in how many of the runs that could judge a claim it was broken. Or in how many "
    "it was kept. In parentheses: not promised by the profile. n/a: the release "
    "cannot show it. ?: no run could judge it. -: no run."
)
TIMES = (
    "In how many of the runs of a schedule that could judge it, by releases. What the claims say "
    "stands below."
)
RECOVERED = (
    "To recover takes from the fault to the first acknowledged send to a broker set that it struck."
)
AWAITED = (
    "Without controllers a set takes no message until its master is back, so the time includes "
    "that for which the schedule keeps the master away."
)
KEPT = "In so many runs of each release, or more."
UNJUDGED = {"n/a": "no release can show it here", "unknown": "no run could judge it"}


def parts(card: Scorecard) -> Iterator[Part]:
    """All of them: sentences on releases, what was broken, a table for each profile, what all kept,
    speed, what the claims say, which have no verdict, and how it all was made."""
    entries = card.entries()
    yield Part("In short", tuple(in_short(card, entries)))
    yield _found(card, entries)
    for at, profile in enumerate(card.profiles):
        table = _claims(card, entries, profile)
        first = (LEGEND,) if at == 0 and table.rows else ()
        yield table._replace(sentences=first)
    yield Part("Kept by every release", (KEPT,), ("claim", *card.profiles),
               tuple(_kept(card, entries)))  # fmt: skip
    yield _speed(card, entries)
    states = {c.id: _states(card, entries, c.id) for c in CLAIMS}
    rows = tuple(((titled([c.id]), "name"), (c.promise, "")) for c in CLAIMS
                 if not states[c.id].isdisjoint(JUDGED))  # fmt: skip
    yield Part("What the claims say", (), ("claim", "promise"), rows)
    yield Part("Claims without a verdict", (), ("claim", "why"), tuple(_unjudged(states)))
    yield Part("How it was made", tuple(_made(card, entries)))


def _claims(card: Scorecard, entries: Sequence[Entry], profile: Profile) -> Part:
    """Claims that not every release is known to keep; the others in a sentence."""
    rows = []
    for claim in CLAIMS:
        cells = [cell(entries, claim.id, target, profile) for target in card.targets]
        judged = any(c.state in JUDGED for c in cells)
        if judged and not all(c.state == "kept" for c in cells):
            rows.append(((titled([claim.id]), "name"), *((word(c), _kind(c)) for c in cells)))
    return Part(f"{profile}", (), ("claim", *map(short, card.targets)), tuple(rows))


def _kept(card: Scorecard, entries: Sequence[Entry]) -> Iterator[Row]:
    """Claims that every release kept under some profile, in how many runs of each."""
    for claim in CLAIMS:
        said = []
        for profile in card.profiles:
            cells = [cell(entries, claim.id, target, profile) for target in card.targets]
            kept = all(c.state == "kept" for c in cells)
            least = min(c.rate.runs for c in cells)
            said.append((f"{least}", "kept") if kept else ("not by all", "other"))
        if any(kind == "kept" for _, kind in said):
            yield ((titled([claim.id]), "name"), *said)


def _states(card: Scorecard, entries: Sequence[Entry], claim: str) -> set[str]:
    """What came of a claim, over all releases and profiles."""
    return {cell(entries, claim, target, profile).state
            for target in card.targets for profile in card.profiles}  # fmt: skip


def word(found: Cell) -> str:
    """A cell, in few words."""
    match found.state:
        case "broken":
            text = f"broken {found.rate.hits} of {found.rate.runs}"
            return text if found.promised else f"({text})"
        case "kept":
            return f"kept {found.rate.runs}"
        case "n/a":
            return "n/a"
    return "?" if found.state == "unknown" else NONE


def _kind(found: Cell) -> str:
    if found.state == "broken":
        return "broken" if found.promised else "measured"
    return "kept" if found.state == "kept" else "other"


def _speed(card: Scorecard, entries: Sequence[Entry]) -> Part:
    """Latency of acknowledged sends, and times to recover; milliseconds, and seconds."""
    timed = {name: count for name, count in LATENCY.items() if name in battery(card.mode)}
    recovered = [name for name in RECOVERIES if card.mode == MODES[0] or "controller" not in name]
    head = ["release", "profile", "acknowledged"]
    head += [f"{count} sender{'s' * (count > 1)}: p50, p99 (ms)" for count in timed.values()]
    head += [f"{name}: median (s), of" for name in recovered]
    rows = []
    for target in card.targets:
        for profile in card.profiles:
            mine = [e for e in entries if (e.job.target, e.job.profile) == (target, profile)]
            if not mine:
                continue
            cells = [short(target), profile, f"{sum(e.acknowledged for e in mine):,}"]
            cells += [_latency(mine, name) for name in timed]
            cells += [_recovery(mine, name) for name in recovered]
            rows.append(tuple((text, "other" if text == NONE else "") for text in cells))
    sentences = (RECOVERED, AWAITED) if card.mode == MODES[1] else (RECOVERED,)
    return Part("How fast", sentences, tuple(head), tuple(rows))


def _latency(entries: Sequence[Entry], name: str) -> str:
    found = [e for e in entries if e.job.name == name and e.p50_ms is not None]
    if not found:
        return NONE
    best = min(found, key=lambda e: e.p50_ms or 0.0)
    return f"{best.p50_ms:.1f}, {best.p99_ms:.1f}"


def _recovery(entries: Sequence[Entry], name: str) -> str:
    half, count = middle(entries, name)
    if not count:
        return NONE
    return f"never, {count}" if half is None else f"{half / 1000:.1f}, {count}"


def _found(card: Scorecard, entries: Sequence[Entry]) -> Part:
    """What was broken by which schedule, for all releases beside each other."""
    rows = []
    for profile, claim, name in product(card.profiles, CLAIMS, card.names):
        mine = [e for e in entries if e.job.name == name]
        cells = [cell(mine, claim.id, target, profile) for target in card.targets]
        shown = next((c.shown_by for c in cells if c.shown_by is not None), None)
        if shown is None:
            continue
        promised = "" if cells[0].promised else " (not promised)"
        rows.append((
            (f"{profile}{promised}", ""),
            (in_words({s for c in cells for s in c.found}), ""),
            (card.title(name), ""),
            *((_times(c), _kind(c)) for c in cells),
            (command(shown, entries), "code"),
        ))  # fmt: skip
    head = ("profile", "what was broken", "while", *map(short, card.targets), "again")
    return Part("What was broken", (TIMES,) if rows else ("Nothing.",), head, tuple(rows))


def _times(found: Cell) -> str:
    """In how many runs of those that could judge it something was broken."""
    judged = found.state in JUDGED
    return f"{found.rate.hits} of {found.rate.runs}" if judged else word(found)


def command(job: Job, entries: Sequence[Entry]) -> str:
    """The command that repeats a run's schedule."""
    place = f"harness/schedule/{BATTERIES[job.mode]}/{job.name}.jsonl"
    if job.name not in battery(job.mode):
        place = next(e.run for e in entries if e.job == job and e.run)
    words = f"maxq replay {place} --env {job.environment} --target {job.target}"
    return f"{words} --profile {NAMES[job.profile]} --times 10"


def built_by(card: Scorecard) -> str:
    """The command that makes these tables, and goes on where runs are missing."""
    versions, profiles = map(short, card.targets), (NAMES[p] for p in card.profiles)
    words = [
        f"maxq scorecard --versions {','.join(versions)} --profiles {','.join(profiles)}",
        *([f"--mode {card.mode}"] if card.mode != MODES[0] else []),
        f"--env {card.environment}",
        *([f"--seeds {card.seeds}"] if card.seeds else []),
        *([f"--rounds {card.rounds}"] if card.rounds > 1 else []),
    ]
    return " ".join(words)


def _unjudged(states: Mapping[str, Set[str]]) -> Iterator[Row]:
    """Which claims have no row elsewhere, and why."""
    for claim, seen in states.items():
        state = next((s for s in (*JUDGED, "unknown", "n/a") if s in seen), "")
        if state in UNJUDGED:
            yield (titled([claim]), "name"), (UNJUDGED[state], "")


def _runs(number: int) -> str:
    return f"{number} run{'s' * (number != 1)}"


def preface(card: Scorecard) -> list[str]:
    """What was run, in sentences, and what is missing."""
    entries = card.entries()
    runs = [e for e in entries if not e.error]
    dates = sorted({e.date for e in entries})
    when = f"{dates[0]} to {dates[-1]}" if len(dates) > 1 else "".join(dates)
    left = len(card.missing())
    agree = "controllers agree by DLedger unless a release says jraft. "
    where = ", ".join(sorted({e.job.environment for e in entries}))
    sentences = [
        f"{_runs(len(runs))}, {when}, in {where}; "
        f"{agree if card.mode == MODES[0] else 'no controllers. '}"
        f"Schedules: {', '.join(sorted({e.job.name for e in runs}))}.",
    ]
    late = sum(bool(e.late) for e in runs)
    if late:
        sentences.append(f"In {_runs(late)} the harness itself was too late to judge liveness.")
    if len(entries) > len(runs):
        sentences.append(f"{_runs(len(entries) - len(runs))} did not come up.")
    if left:
        sentences.append(f"Not finished: {_runs(left)} missing.")
    return sentences


def _made(card: Scorecard, entries: Sequence[Entry]) -> list[str]:
    """The command, and which components are of another release."""
    runs = [e for e in entries if not e.error]
    return [f"Built by: {built_by(card)}", *sorted({_taken(e) for e in runs if _taken(e)})]


def _taken(entry: Entry) -> str:
    """Which components are of another release."""
    release = entry.job.target.split(":")[1]
    odd = [f"{name} {version.split(' ')[0]}" for name, version in sorted(entry.components.items())
           if not version.startswith(f"{release} ")]  # fmt: skip
    return f"{release} is run with {', '.join(odd)}." if odd else ""


def markdown(card: Scorecard) -> str:
    """All of it, as Markdown."""
    lines = [f"# {TITLES[card.mode]}", ""]
    for sentence in preface(card):
        lines += [sentence, ""]
    for part in parts(card):
        lines += [f"## {part.title}", ""]
        for sentence in part.sentences:
            lines += [sentence, ""]
        if not part.rows:
            continue
        lines += [f"| {' | '.join(part.head)} |", "|" + "---|" * len(part.head)]
        for row in part.rows:
            lines.append(f"| {' | '.join(_marked(text, kind) for text, kind in row)} |")
        lines.append("")
    return "\n".join(lines)


def _marked(text: str, kind: str) -> str:
    if kind == "code":
        return f"`{text}`"
    return f"**{text}**" if kind == "broken" else text


def page(card: Scorecard) -> str:
    """All of it, as one file that loads nothing."""
    promises = {titled([c.id]): c.promise for c in CLAIMS}
    return tables_page(TITLES[card.mode], preface(card), parts(card), promises)
