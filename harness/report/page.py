"""The page: all parts of a report in one file that loads nothing.

Style and script are inside, and the page's policy allows these two by their digests and nothing
else: no request leaves, and markup that slipped through could neither run nor load anything.
Without a script everything is readable; with one, plots can be zoomed.
"""

import traceback
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from importlib.resources import files

import msgspec

from maxq.checkers.judgement.digest import brokers_by_address
from maxq.harness.contracts.target import plan
from maxq.harness.report import findings, first_screen, tables
from maxq.harness.report.bands import Actions, actions
from maxq.harness.report.cluster import picture
from maxq.harness.report.evidence import Evidence, Group, grouped
from maxq.harness.report.examples.diagram import stylesheet
from maxq.harness.report.lanes import Lane, Lanes, lanes
from maxq.harness.report.markup import Child, Html, clean, el, join, policy, short
from maxq.harness.report.measures import windows
from maxq.harness.report.plot import (
    axis,
    latency_plot,
    rate_plot,
    row,
    shared,
)
from maxq.harness.report.spoken import MEANS
from maxq.harness.report.timeline import FAULTS_MAX, lane_row, marks_row
from maxq.harness.report.timescale import TimeScale, duration, timescale
from maxq.histories.columns.timings import OUTCOMES, Timing, Timings, timings_of

FIRST = ("send", "poll", "acquire", "renew", "release")  # kinds whose plots come first
OPEN_KINDS, NAME_MAX = 4, 120  # plots that need no click; characters of a name


def render(evidence: Evidence) -> str:
    """A run as a page. Pure: equal evidence gives an equal page."""
    style, script = _inside("report.css") + stylesheet(), _inside("report.js")
    o = evidence.options
    title = f"{first_screen.WORDS.get(evidence.results.valid, 'unknown')}: {', '.join(o.workload)}"
    head = join(
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=policy(style, script)),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} — Max-Q"),
        Html(f"<style>{style}</style>"),
    )
    content = join(_body(evidence), Html(f"<script>{script}</script>"))
    page = el("html", el("head", head), el("body", content), lang="en")
    return f"<!doctype html>\n{page}\n"


def _inside(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


class Page(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What several parts of a page are drawn from."""

    evidence: Evidence

    @cached_property
    def time(self) -> TimeScale:
        return timescale(self.timings.first_ns, self.timings.last_ns)

    @cached_property
    def done(self) -> Actions:
        return actions(self.evidence.history)

    @cached_property
    def groups(self) -> list[Group]:
        return grouped(self.evidence)

    @cached_property
    def brokers(self) -> dict[str, str]:
        return brokers_by_address(self.evidence.history)

    @cached_property
    def timings(self) -> Timings:
        return timings_of(self.evidence.history)

    @cached_property
    def seen(self) -> Lanes:
        first = tuple(self.evidence.options.context().broker_sets)
        struck = sorted(self.done.by_node())
        return lanes(self.evidence.history, self.time.end_ns, first, struck)

    @cached_property
    def marks(self) -> list[first_screen.Mark]:
        return findings.marks(self.evidence)


def _body(evidence: Evidence) -> Html:
    page = Page(evidence=evidence)
    parts: list[tuple[str, str, Callable[[], Child]]] = [
        ("findings", "Findings", lambda: findings.harms(evidence, page.groups, page.brokers)),
        ("claims", "Claims", lambda: findings.claims_table(evidence, page.groups)),
        *(
            [("power", "What would have been called", lambda: tables.power_table(evidence))]
            if evidence.power
            else []
        ),
        ("anomalies", "Evidence", lambda: _evidence(page)),
        ("timeline", "Timeline", lambda: _timeline(page)),
        ("latency", "Latency and rate", lambda: _plots(page.time, page.timings.kinds, page.done)),
        ("faults", "Faults", lambda: tables.faults_table(page.done)),
        ("recovery", "Recovery", lambda: tables.recovery_table(evidence)),
        ("operations", "Operations", lambda: tables.kinds_table(page.timings.kinds)),
        ("checkers", "Checkers", lambda: _checkers(evidence)),
        ("setup", "Set-up", lambda: tables.setup_table(evidence)),
    ]
    nav = el("nav", (el("a", title, href=f"#{name}") for name, title, _ in parts),
             aria_label="parts of this report")  # fmt: skip
    sections = (
        el("section", el("h2", title), guarded(part), id=name) for name, title, part in parts
    )
    return join(
        shared(page.time, page.done.bands),
        el("a", "skip to the findings", href="#findings", class_="skip"),
        el("div",
           guarded(lambda: first_screen.head(evidence)),
           guarded(lambda: first_screen.findings_table(evidence.rows) if evidence.rows else None),
           guarded(lambda: _overview(page)),
           guarded(lambda: first_screen.unserved(evidence)),
           guarded(lambda: first_screen.claims_line(evidence)),
           guarded(lambda: first_screen.facts(evidence)),
           nav, class_="top", id="top"),
        el("div", guarded(lambda: findings.commands(evidence)), class_="top"),
        el("main", sections),
        el("footer", el("p", f"Max-Q: {page.timings.operations:,} operations, "
                             f"{duration(page.time.length_ns)} of the run's own clock.")),
    )  # fmt: skip


def _evidence(page: Page) -> Html:
    return findings.anomalies(page.evidence, page.groups, page.time, page.brokers)


def _overview(page: Page) -> Html:
    rows = page.evidence.rows
    at_ns = first_screen.moment(rows, page.done, page.time)
    about = [node for row in rows for node in row.nodes]
    nodes = plan(page.evidence.options.topology)
    drawn = picture(page.time, nodes, page.seen, page.done, page.seen.ids, at_ns, about)
    # Those of the findings first: there is room for few.
    of = page.evidence.context.broker_sets
    sets = sorted(of, key=lambda name: not set(of[name]).intersection(about))
    return first_screen.overview(page.time, page.seen, page.done, page.marks, sets, drawn, at_ns)


def guarded(part: Callable[[], Child]) -> Html:
    """A part of the page; one that cannot be drawn says so, and the others stay."""
    try:
        return join(part())
    except Exception:  # of an unforeseen history: the rest of the page is evidence still
        why = clean(traceback.format_exc())
        return join(el("p", "This part could not be drawn; the verdict does not depend on it.",
                       class_="note"), el("pre", why))  # fmt: skip


def _timeline(page: Page) -> Html:
    time, done, seen = page.time, page.done, page.seen
    on = done.by_node()
    titles = tables.titles(page.evidence.options)
    ours = frozenset(page.evidence.context.broker_sets)
    hidden = sum(max(0, len(bands) - FAULTS_MAX) for bands in on.values())
    dropped = sum(lane.dropped for lane in (*seen.sets, *seen.nodes))
    notes = (
        "A state is drawn from the answer that showed it to the next one, so a change appears up "
        "to one round of questions late."
    )
    notes += f" {seen.left_out} lines are left out." if seen.left_out else ""
    notes += f" {dropped} states are too short to be drawn here." if dropped else ""
    notes += f" {hidden} faults on nodes are not drawn, for their number." if hidden else ""
    return join(
        el("p", notes, class_="note"),
        toolbar(),
        el("div", axis(time),
           marks_row(time, page.marks) if page.marks else None,
           (lane_row(time, lane, _set_title(lane, ours), ()) for lane in seen.sets),
           (lane_row(time, lane, titles.get(lane.node, lane.name),
                     first_screen.on_node(lane.node, on.get(lane.node, ())))
            for lane in seen.nodes),
           axis(time), class_="plots"),
        state_legend(seen, first_screen.signs(done)),
    )  # fmt: skip


def _set_title(lane: Lane, ours: Collection[str]) -> str:
    """What a row about a broker set is called; some workloads start and stop sets of their own."""
    return lane.name if lane.broker_set in ours else f"spare {lane.name}"


def _checkers(evidence: Evidence) -> Html:
    return join(findings.checkers_table(evidence), findings.breaches(evidence))


WORDS_OF_STATES = {
    "master": "master",
    "slave": "slave",
    "acting": "slave that acts for its master",
    "isolated": "isolated: it is not in its group yet",
    "leader": "leader",
    "follower": "follower",
    "answers": "answers (name server)",
    "silent": "no answer, or no master",
    "gap": "nothing is known: nothing answered, or nobody asked",
}


def state_legend(seen: Lanes, signs: Child = None) -> Html:
    """What the fills of the timeline mean, of those that are in it; and its signs."""
    there = {s.state for lane in (*seen.sets, *seen.nodes) for s in (*lane.gaps, *lane.segments)}
    boxes = [
        el("li", el("svg", el("rect", width=22, height=12, rx=2, class_=f"state {state}"),
                    width=22, height=12, aria_hidden="true"), " ", words)
        for state, words in WORDS_OF_STATES.items() if state in there
    ]  # fmt: skip
    whole = el("svg", (el("rect", x=n * 11, width=11, height=12, class_=f"state set shade-{n + 1}")
                       for n in range(3)), width=33, height=12, aria_hidden="true")  # fmt: skip
    members = el("li", whole, " SyncStateSet, the stronger the more members")
    return el("ul", boxes, members if "set" in there else None, signs, class_="legend",
              aria_label="states")  # fmt: skip


def toolbar() -> Html:
    """What a script offers; without one it stays hidden."""
    buttons = (("zoom-in", "Zoom in"), ("zoom-out", "Zoom out"), ("earlier", "Earlier"),
               ("later", "Later"), ("whole", "Whole run"))  # fmt: skip
    return el(
        "div",
        (el("button", words, type="button", data_do=name) for name, words in buttons),
        el("output", "Drag across a plot to zoom.", id="readout", aria_live="off"),
        class_="toolbar", id="toolbar", hidden=True, role="toolbar", aria_label="view of all plots",
    )  # fmt: skip


def _plots(time: TimeScale, counted: Sequence[Timing], done: Actions) -> Html:
    if not counted:
        return el("p", "No client did anything.", class_="note")
    order = sorted(counted, key=lambda kind: (
        FIRST.index(kind.f) if kind.f in FIRST else len(FIRST), kind.f.startswith("observe"),
        -kind.invoked, kind.f))  # fmt: skip
    shown, rest = order[:OPEN_KINDS], order[OPEN_KINDS:]
    outcomes = (
        el("li", el("svg", el("rect", width=12, height=12, rx=6, class_=f"key {name}"),
                    width=12, height=12, aria_hidden="true"), f" {name}")
        for name in OUTCOMES
    )  # fmt: skip
    lines = (
        el("li", el("svg", el("path", d="M0 6H22", class_=f"quantile {name}"), width=22, height=12,
                    aria_hidden="true"), f" {name} of ok")
        for name in ("p50", "p99")
    )  # fmt: skip
    more = None
    if rest:
        names = ", ".join(kind.f for kind in rest)
        more = el("details", el("summary", f"{len(rest)} more: {names}"),
                  (_kind(time, kind) for kind in rest), class_="more")  # fmt: skip
    return join(
        el("p", "Above: latency, from each invocation, on a logarithmic scale. Below: completions "
           "a second, stacked. Grey: a fault is in effect; at the top, of which kind. A lock that "
           "another client holds is refused, which is no failure.", class_="note"),
        tables.legend(done),
        el("ul", outcomes, lines, class_="legend", aria_label="outcomes"),
        el("div", axis(time), (_kind(time, kind) for kind in shown), more, class_="plots"),
    )  # fmt: skip


def _kind(time: TimeScale, kind: Timing) -> Html:
    stretches = windows(kind, time)
    drawn, said = latency_plot(time, kind, stretches)
    never = f"{kind.open} never completed. " if kind.open else ""
    counts = " · ".join(f"{n:,} {outcome}" for outcome, n in kind.counts.items() if n)
    name = join(
        el("b", short(kind.f, NAME_MAX)),
        el("small", MEANS.get(kind.f, "")),
        el("small", counts),
        el("small", said, never),
    )
    return el("div", row(name, drawn, kind="tall"), row("", rate_plot(time, kind, stretches)),
              class_="kind")  # fmt: skip
