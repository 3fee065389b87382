"""What is read in ten seconds: the sentence, each finding in a row, and a small timeline.

How many of how many, when, who had acknowledged in which epoch, by which fault. A browser test
holds its height against a screen's.
"""

from collections.abc import Sequence

from maxq.checkers.core.api import Status
from maxq.checkers.evidence.cuts import in_short
from maxq.checkers.judgement import summary as words
from maxq.checkers.judgement.digest import Row
from maxq.harness.report.bands import Actions
from maxq.harness.report.evidence import Evidence
from maxq.harness.report.lanes import Lanes
from maxq.harness.report.markup import Html, clean, el, join, short
from maxq.harness.report.plot import axis
from maxq.harness.report.timeline import Strip, marks_row, segments_row, strips_row
from maxq.harness.report.timescale import TimeScale
from maxq.harness.schedule.options import Options

SHOWN, CLAIMS_MAX, SETS = 4, 12, 2  # rows; claims by name; broker sets with a lane
SENTENCE_MAX, CELL_MAX = 700, 240
WORDS = {True: "valid", False: "invalid", "unknown": "unknown"}


def badge(valid: object) -> Html:
    """A verdict in one coloured word."""
    word = WORDS.get(valid, "unknown") if isinstance(valid, bool | str) else "unknown"
    return el("span", word.upper() if word == "invalid" else word, class_=f"badge {word}")


def head(evidence: Evidence, rows: Sequence[Row]) -> Html:
    """The sentence, and the findings that it is about."""
    first, rest = parted(evidence)
    return join(
        el("h1", badge(evidence.results.valid), " ", el("span", first, class_="sentence")),
        el("p", rest, class_="summary") if rest else None,
        [el("p", doubt, class_="doubt") for doubt in evidence.doubts],
        findings_table(rows) if rows else None,
    )


def parted(evidence: Evidence) -> tuple[str, str]:
    """The verdict's first sentence without its word, and what it says after that."""
    said = words.headline(evidence.results, evidence.context)
    body = said[len(words.word(evidence.results)) :].lstrip(":; ")
    body = f"{body[:1].upper()}{body[1:]}"
    first, stop, rest = body.partition(". ")
    advice = "; ".join(evidence.results.advice)
    rest = f"{rest} To decide: {advice}." if advice else rest
    return short(first + (stop and "."), SENTENCE_MAX), short(rest.strip(), SENTENCE_MAX)


def findings_table(rows: Sequence[Row]) -> Html:
    """Each finding: what and how many, when, where, by which fault."""
    heads = ("found", "when", "where", "fault")
    body = (
        el("tr",
           el("td", el("a", short(row.what, CELL_MAX), href=f"#finding-{row.number}"),
              "" if row.broken else " (not promised)", data_head=heads[0]),
           el("td", row.when or "unknown", data_head=heads[1], class_="at"),
           el("td", short(row.who or "the cluster", CELL_MAX),
              el("small", row.after) if row.after else None, data_head=heads[2]),
           el("td", el("span", short(row.cause, CELL_MAX), class_="blamed" if row.blamed else None),
              data_head=heads[3]),
           class_="worst" if n == 0 else None)
        for n, row in enumerate(rows[:SHOWN])
    )  # fmt: skip
    more = len(rows) - SHOWN
    return join(
        el("table", el("thead", el("tr", (el("th", h, scope="col") for h in heads))),
           el("tbody", body), class_="first"),
        el("p", el("a", f"{more} more kinds of findings", href="#findings"), class_="note")
        if more > 0 else None,
    )  # fmt: skip


def small_timeline(time: TimeScale, seen: Lanes, done: Actions,
                   marks: Sequence[tuple[int, int, str]]) -> Html:  # fmt: skip
    """Findings, masters with their epochs, and faults by name, over the whole run."""
    masters = [lane for lane in seen.sets if lane.name.endswith(" master")][:SETS]
    return el(
        "div",
        marks_row(time, marks) if marks else None,
        (segments_row(time, lane) for lane in masters),
        strips_row(time, "faults", strips(done)),
        axis(time),
        class_="plots small",
    )


def strips(done: Actions) -> list[Strip]:
    """Every act of the nemesis as a named strip."""
    return [
        Strip(
            start_ns=band.fault.begun_ns,
            end_ns=band.end_ns(),
            name=clean(in_short(band.act))[:CELL_MAX],
            color=band.color,
            proven=band.fault.holds,
        )
        for band in done.bands
        if band.fault.facts is None or not band.fault.facts.harmless
    ]


def claims_line(evidence: Evidence) -> Html:
    """How many claims came to what; the broken ones by name."""
    results = evidence.results
    parts = []
    order: tuple[Status, ...] = ("broken", "not judged", "kept", "not promised", "no occasion")
    for status in order:
        of = results.of(status)
        if of:
            named = status in ("broken", "not judged")
            names = f": {', '.join(short(c, 20) for c in of[:CLAIMS_MAX])}" if named else ""
            more = "…" if named and len(of) > CLAIMS_MAX else ""
            parts.append(el("span", el("b", len(of)), f" {status}{names}{more}", class_=f"count {status.replace(' ', '-')}"))  # fmt: skip
    return el("p", el("a", "Claims", href="#claims"), " ", parts, class_="tally")


def facts(evidence: Evidence) -> Html:
    """How the run was set up, in a line; a seeded bug first."""
    o = evidence.options
    said = (
        f"{', '.join(o.workload)} with {', '.join(o.nemesis)}",
        *(f"{done} in place of {asked}" for asked, done in o.stand_ins.items()),
        f"{o.environment}, {o.running}, {o.profile}, {o.timing} timing",
        f"{_count(o.broker_sets, 'broker set')} of {_count(o.replicas, 'broker')}"
        + (f" ({_count(o.learners, 'learner')} each), " if o.learners else ", ")
        + f"{_count(o.controllers, 'controller')}, "
        + _name_servers(o),
        f"seed {o.seed}",
    )
    mutant = el("li", "seeded bug, on purpose: ", el("code", o.mutant)) if o.mutant else None
    return el("ul", mutant, (el("li", fact) for fact in said), class_="facts")


def _name_servers(options: Options) -> str:
    if options.embedded:
        return f"in {_count(max(options.namesrvs, options.controllers), 'name server')}"
    return _count(options.namesrvs, "name server")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
