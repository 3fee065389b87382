"""What is read in ten seconds: the sentence, each finding in a row, and a small timeline.

How many of how many, when, who had acknowledged in which epoch, by which fault. A browser test
holds its height against a screen's.
"""

from collections.abc import Sequence

import msgspec

from maxq.checkers.core.api import Status
from maxq.checkers.core.titles import status_in_words, titled
from maxq.checkers.judgement import summary as words
from maxq.checkers.judgement.cuts import (
    BOTH_WAYS,
    ONE_WAY,
    described,
    in_short,
    links_of,
    short_name,
)
from maxq.checkers.judgement.digest import Row
from maxq.checkers.judgement.stretches import long_ones
from maxq.harness.report.bands import Actions, Band
from maxq.harness.report.evidence import Evidence
from maxq.harness.report.lanes import Lanes
from maxq.harness.report.markup import Html, clean, el, join, short
from maxq.harness.report.plot import axis
from maxq.harness.report.timeline import Strip, marks_row, segments_row, strips_row
from maxq.harness.report.timescale import WIDTH, TimeScale
from maxq.harness.schedule.options import Options

SHOWN, SETS = 4, 2  # rows; broker sets with a lane
SENTENCE_MAX, CELL_MAX, EVENTS_MAX = 700, 240, 2000
GLANCE_MAX = 110  # characters of a first sentence in the largest letters
WORDS = {True: "valid", False: "invalid", "unknown": "unknown"}
SIGNS = {
    BOTH_WAYS: "cut both ways",
    ONE_WAY: "cut one way: what the left sends does not reach the right",
}
Mark = tuple[int, int, str]  # time (ns), number of its finding, words


def badge(valid: object) -> Html:
    """A verdict in one coloured word."""
    word = WORDS.get(valid, "unknown") if isinstance(valid, bool | str) else "unknown"
    return el("span", word.upper() if word == "invalid" else word, class_=f"badge {word}")


def head(evidence: Evidence) -> Html:
    """The verdict in a sentence, the largest text there is; which faults took what was lost; what
    else there is to say of it, and what casts doubt on it."""
    first, rest = parted(evidence)
    lost = [row for row in evidence.rows if row.lost and row.blamed]
    blamed = dict.fromkeys(msgspec.structs.replace(row, earlier=0).cause for row in lost)
    notes = words.notes(evidence.results, evidence.context)
    return el(
        "header",
        el("h1", badge(evidence.results.valid), " ", el("span", first, class_="sentence"),
           class_=None if len(first) <= GLANCE_MAX else "long"),
        el("p", "Blamed: ", el("b", short("; ".join(blamed), CELL_MAX), class_="blamed"),
           class_="summary") if blamed else None,
        el("p", rest, class_="summary") if rest else None,
        [el("p", short(doubt, SENTENCE_MAX), class_="doubt") for doubt in evidence.doubts],
        [el("p", short(note, SENTENCE_MAX), class_="note") for note in notes],
    )  # fmt: skip


def parted(evidence: Evidence) -> tuple[str, str]:
    """The verdict's first sentence without its word, and what it says after it; what it leaves
    open of losses comes first there."""
    said = words.headline(evidence.results, evidence.context)
    body = said[len(words.word(evidence.results)) :].lstrip(":; ")
    body = f"{body[:1].upper()}{body[1:]}"
    first, dot, rest = body.partition(". ")
    first += dot.rstrip()
    if besides := words.besides(evidence.results, evidence.context):
        rest = f"{besides[:1].upper()}{besides[1:]}. {rest}"
    advice = "; ".join(evidence.results.advice)
    rest = f"{rest} To decide: {advice}." if advice else rest
    return short(first, SENTENCE_MAX), short(rest.strip(), SENTENCE_MAX)


def findings_table(rows: Sequence[Row]) -> Html:
    """Each finding: what and how many, when, where, by which fault."""
    heads = ("found", "when", "where", "fault")
    body = (
        el("tr",
           el("td", el("a", short(row.what, CELL_MAX), href=f"#finding-{row.number}"),
              el("small", row.share) if row.share else None, data_head=heads[0]),
           el("td", row.when or "unknown", data_head=heads[1], class_="at"),
           el("td", short(row.who or "the cluster", CELL_MAX),
              el("small", row.after) if row.after else None, data_head=heads[2]),
           el("td", el("span", short(row.cause, CELL_MAX), class_="blamed" if row.blamed else None),
              el("small", "blamed") if row.blamed else None,
              data_head=heads[3]),
           class_="worst" if n == 0 else None)
        for n, row in enumerate(rows[:SHOWN])
    )  # fmt: skip
    more = len(rows) - SHOWN
    return join(
        el("table", el("thead", el("tr", (el("th", h, scope="col") for h in heads))),
           el("tbody", body), class_="first"),
        el("p", el("a", f"{more} more kind{'' if more == 1 else 's'} of findings",
                   href="#findings"), class_="note")
        if more > 0 else None,
    )  # fmt: skip


def overview(time: TimeScale, seen: Lanes, done: Actions, marks: Sequence[Mark],
             sets: Sequence[str], drawn: Html, at_ns: int) -> Html:  # fmt: skip
    """The run in a picture: findings, masters with their epochs and faults by name over time, and
    beside it the cluster at the moment that a slider chooses."""
    return el(
        "div",
        el("div", small_timeline(time, seen, done, marks, sets), slider(time, done, marks, at_ns),
           class_="over"),
        drawn,
        class_="overview",
    )  # fmt: skip


def small_timeline(time: TimeScale, seen: Lanes, done: Actions, marks: Sequence[Mark],
                   sets: Sequence[str]) -> Html:  # fmt: skip
    """Findings, what is known of broker sets, and faults by name, over the whole run."""
    lanes = [lane for lane in seen.sets if lane.segments and lane.broker_set in sets[:SETS]]
    return el(
        "div",
        marks_row(time, marks) if marks else None,
        (segments_row(time, lane) for lane in lanes),
        strips_row(time, "faults", strips(done)),
        axis(time),
        el("ul", signs(done), class_="legend"),
        class_="plots small",
    )


def signs(done: Actions) -> list[Html]:
    """What the signs in the names of cuts mean, of those that are there."""
    names = " ".join(in_short(band.act) for band in done.bands)
    return [el("li", el("b", sign), f" {means}") for sign, means in SIGNS.items() if sign in names]


def slider(time: TimeScale, done: Actions, marks: Sequence[Mark], at_ns: int) -> Html:
    """What a script offers to choose a moment; its events are where faults begin and end, and where
    findings are."""
    moments = {time.at(band.fault.begun_ns) for band in done.bands}
    moments |= {time.at(end) for band in done.bands if (end := band.end_ns()) is not None}
    moments |= {time.at(at) for at, _, _ in marks}
    events = " ".join(f"{x:g}" for x in sorted(moments)[:EVENTS_MAX])
    buttons = (
        el("button", name, type="button", data_step=step, aria_label=said)
        for name, step, said in (("◀", -1, "the event before"), ("▶", 1, "the next event"))
    )
    bar = el("input", type="range", id="moment", min=0, max=WIDTH, step=1, value=time.at(at_ns),
             data_events=events, aria_label="moment of the picture")  # fmt: skip
    return el("div", el("div", buttons, class_="name"), bar, class_="row slider", id="slider",
              hidden=True)  # fmt: skip


def moment(rows: Sequence[Row], done: Actions, time: TimeScale) -> int:
    """The moment that is drawn first: of the first finding once its fault is at work, else of the
    first cut, or fault, else half of the run."""
    for row in rows:
        if row.seen_ns >= 0 or row.fault_ns >= 0:
            return max(row.seen_ns, row.fault_ns)
    bands = [band for band in done.bands if _hurts(band)]
    bands.sort(key=lambda band: (band.act.effect != "cut", band.fault.begun_ns))
    times = (b.fault.ended_ns or b.fault.begun_ns for b in bands)
    return next((at for at in times if at >= 0), (time.start_ns + time.end_ns) // 2)


def strips(done: Actions) -> list[Strip]:
    """Every act of the nemesis as a named strip."""
    return [_strip(band, in_short(band.act), band.end_ns()) for band in done.bands if _hurts(band)]


def on_node(node: str, bands: Sequence[Band]) -> list[Strip]:
    """Those of one node; a name says what was done to it, not again to whom."""
    return [_strip(band, _named(node, band), band.end_ns(node)) for band in bands if _hurts(band)]


def _named(node: str, band: Band) -> str:
    if band.act.effect != "cut":
        return short_name(band.fault)
    links = links_of(band.fault.result)
    around = {link for link in links if node in link}
    return f"{short_name(band.fault)} {described(around)}" if around else in_short(band.act)


def _hurts(band: Band) -> bool:
    return band.fault.facts is None or not band.fault.facts.harmless


def _strip(band: Band, name: str, end_ns: int | None) -> Strip:
    return Strip(start_ns=band.fault.begun_ns, end_ns=end_ns, name=clean(name)[:CELL_MAX],
                 color=band.color, proven=band.fault.holds)  # fmt: skip


def claims_line(evidence: Evidence) -> Html:
    """How many claims came to what; the broken ones by name."""
    results = evidence.results
    parts = []
    order: tuple[Status, ...] = ("broken", "not judged", "kept", "not promised", "no occasion")
    for status in order:
        of = results.of(status)
        if of:
            named = status in ("broken", "not judged")
            names = f": {short(titled(of), CELL_MAX)}" if named else ""
            kind = f"count {status.replace(' ', '-')}"
            text = f" {status_in_words(status)}{names}"
            parts.append(el("span", el("b", len(of)), text, class_=kind))
    said = [
        el("span", text, class_="count")
        for text in (words.acting(results), words.topics(results))
        if text
    ]
    return el("p", said, el("a", "Claims", href="#claims"), " ", parts, class_="tally")


def unserved(evidence: Evidence) -> Html:
    """What clients were answered while nothing succeeded for long, and what is known of it and of
    findings."""
    texts = (*long_ones(evidence.results.stretches), *evidence.known)
    said = (f"{text[:1].upper()}{text[1:]}." for text in texts)
    return join(el("p", short(text, SENTENCE_MAX), class_="note") for text in said)


def facts(evidence: Evidence) -> Html:
    """How the run was set up, in a line; a seeded bug first."""
    o = evidence.options
    said = (
        f"{', '.join(o.workload)} with {', '.join(o.nemesis)}",
        *(f"{done} in place of {asked}" for asked, done in o.stand_ins.items()),
        f"{o.environment}, {o.running}, {o.profile}, {o.timing} timing",
        f"{_count(o.broker_sets, 'broker set')} of {_count(o.replicas, 'broker')}"
        + (f" ({_count(o.learners, 'learner')} each), " if o.learners else ", ")
        + ("no controllers, " if o.pair else f"{_count(o.controllers, 'controller')}, ")
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
