"""The words of a report: the verdict, each claim, each anomaly with its story and operations."""

import shlex
from collections.abc import Collection, Mapping, Sequence

import msgspec

from maxq.checkers.core.api import CITED, ClaimVerdict, Harm, Status
from maxq.checkers.core.claims import BY_ID
from maxq.checkers.core.titles import status_in_words, titled
from maxq.checkers.counterexample.of_anomaly import Counterexample
from maxq.checkers.judgement import summary as words
from maxq.checkers.judgement.digest import named
from maxq.checkers.judgement.phrases import said
from maxq.harness.contracts.plugins import with_plugins
from maxq.harness.report.evidence import Evidence, Excerpt, Group, Numbered
from maxq.harness.report.examples import of_anomaly
from maxq.harness.report.markup import Child, Html, clean, el, join, short
from maxq.harness.report.spoken import spoken
from maxq.harness.report.timescale import TimeScale, seconds
from maxq.histories.history import History
from maxq.histories.op import Op

OPS_MAX, VALUE_MAX, STORY_MAX, REASON_MAX, TRIED_MAX = 12, 240, 4000, 6000, 20_000
CARDS_MAX = 3  # anomalies of one name whose operations are shown
HARMS_OPEN = 6  # findings that need no click
START_MAX = 140  # characters of a story that is folded


def commands(evidence: Evidence) -> Html:
    """How to repeat the run, and how to judge it again."""
    had = evidence.config.get("plugins") or {}
    lines = (
        ("repeat the run", with_plugins(evidence.options.repeat(evidence.run), had)),
        ("judge it again", f"maxq check {shlex.quote(evidence.run)}"),
        *((f"try {t.what}", t.command) for t in (evidence.to_try,) if t is not None),
    )
    return el(
        "dl",
        (
            [el("dt", name), el("dd", el("code", line), copy_button(name))]
            for name, line in lines
        ),
        class_="commands",
    )  # fmt: skip


def copy_button(what: str) -> Html:
    """A button that copies the text before it, where a script runs."""
    return el("button", "copy", type="button", class_="copy", hidden=True,
              aria_label=f"copy the command: {what}")  # fmt: skip


# How each status is coloured: as a verdict would be, or not at all.
COLOURS: dict[Status, str] = {
    "kept": "valid",
    "broken": "invalid",
    "not judged": "unknown",
    "not promised": "neutral",
    "no occasion": "neutral",
}


def claims_table(evidence: Evidence, groups: Sequence[Group]) -> Html:
    """What became of each claim: what is broken, not judged or was measured; the others folded."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        found.setdefault(group.claim, []).append(group)
    judges = {r.claim: v.checker for v in evidence.results.verdicts for r in v.claim_verdicts}
    first: list[Sequence[Child]] = []
    rest: list[Sequence[Child]] = []
    for claim, verdict in words.table(evidence.results):
        links = [_group_link(g) for g in found.get(claim, ())]
        why = el("p", short(verdict.why, REASON_MAX), class_="reason") if verdict.why else None
        status = el(
            "span", status_in_words(verdict.status), class_=f"badge {COLOURS[verdict.status]}"
        )
        promise = BY_ID[claim].promise if claim in BY_ID else ""
        telling = verdict.status in ("broken", "not judged") or verdict.measured
        (first if telling else rest).append(
            (claim, status, join(promise, why), links or _measured(verdict),
             f"{verdict.occasions:,}", el("code", judges[claim], class_="id"))
        )  # fmt: skip
    heads = ("claim", "came to", "promise", "found", "coverage", "checker")
    absent = evidence.context.absent
    unseen = f"{len(absent)} claims that this target cannot show"
    folded = f"{len(rest)} claims: kept, not covered, or not promised"
    return join(
        table("claims", heads, first) if first else None,
        el("details", el("summary", folded), table("more claims", heads, rest), class_="more")
        if rest else None,
        el("details", el("summary", unseen),
           el("p", f"{titled(absent, len(absent))}.", class_="note"), class_="more")
        if absent else None,
    )  # fmt: skip


def _measured(verdict: ClaimVerdict) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in verdict.found.items())


def _group_link(group: Group) -> Html:
    first = group.numbered[0].number if group.numbered else 0
    return el("a", f"{group.found} {group.name}", href=f"#anomaly-{first}", class_="found")


def checkers_table(evidence: Evidence) -> Html:
    """What each checker said, and counted."""
    rows: list[Sequence[Child]] = []
    for v in evidence.results.verdicts:
        counts = v.counts
        if v.checker == "stats":
            counts = {}  # the table of operations shows them better
        numbered = [
            el("span", f"{k} ", el("b", f"{n:,}"), class_="count") for k, n in counts.items()
        ]
        more = el("p", short(v.reason, REASON_MAX), class_="reason") if v.reason else None
        rows.append((el("code", v.checker, class_="id"), join(numbered, more)))
    return table("checkers", ("checker", "counted"), rows)


def breaches(evidence: Evidence) -> Html | None:
    """What is malformed in the history."""
    found = evidence.results.breaches
    if not found:
        return None
    rows = [(b.rule, b.index, short(b.text, VALUE_MAX), "warning" if b.warning else "breach")
            for b in found]  # fmt: skip
    return table("breaches", ("rule", "op", "what", "kind"), rows)


def table(label: str, heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Html:
    """A table that scrolls by itself where it is too wide."""
    body = (el("tr", (el("td", cell) for cell in cells)) for cells in rows)
    drawn = el("table", el("thead", el("tr", (el("th", h, scope="col") for h in heads))),
               el("tbody", body))  # fmt: skip
    return el("div", drawn, class_="scroll", role="region", tabindex=0, aria_label=label)


# Findings.


def harms(evidence: Evidence, groups: Sequence[Group], brokers: Mapping[str, str]) -> Html:
    """Each harm once: what it was, what it is blamed on, and what it showed itself by."""
    found = evidence.results.findings
    if not found:
        return el("p", "None.", class_="note")
    first = {(g.claim, g.name): g.numbered[0].number for g in groups if g.numbered}
    tried, settings = "\n".join(evidence.explained), "\n".join(evidence.tried)
    known = {row.number: row.known for row in evidence.rows}
    logs = evidence.logs
    each = [_harm(number, harm, first, brokers, known.get(number, ()), logs.get(number, ()))
            for number, harm in enumerate(found, start=1)]  # fmt: skip
    rest = each[HARMS_OPEN:]
    return join(
        each[:HARMS_OPEN],
        el("details", el("summary", f"{len(rest)} more findings"), rest, class_="more")
        if rest
        else None,
        join(el("h3", "Causes, tried"), el("pre", short(tried, TRIED_MAX))) if tried else None,
        join(el("h3", "Settings, tried"), el("pre", short(settings, TRIED_MAX)))
        if settings
        else None,
    )


def _harm(
    number: int, harm: Harm, first: Mapping[tuple[str, str], int], brokers: Mapping[str, str],
    known: Sequence[str], logs: Sequence[Excerpt],
) -> Html:  # fmt: skip
    word, colour = ("broken", "invalid") if harm.broken else ("not promised", "neutral")
    symptoms = []
    for name, count in harm.seen_as:
        claim, _, anomaly = name.partition(" ")
        numbered = f"{count} {anomaly} ({claim})"
        at = first.get((claim, anomaly))
        symptoms.append(numbered if at is None else el("a", numbered, href=f"#anomaly-{at}"))
    cells = [part for symptom in symptoms for part in (" · ", symptom)][1:]
    title = harm.title if harm.lost else said(harm.kind, sum(harm.symptoms.values()))
    return el(
        "section",
        el("h3", f"{number}. {short(title, STORY_MAX)} ",
           None if harm.lost else el("span", f"({short(harm.title, STORY_MAX)}) ", class_="times"),
           el("span", word, class_=f"badge {colour}")),
        el("p", short(named(harm.story, brokers), STORY_MAX), class_="story"),
        [el("p", short(f"{text[:1].upper()}{text[1:]}.", STORY_MAX), class_="note")
         for text in known],
        el("p", "Seen as: ", cells, class_="note") if cells else None,
        [_log(one) for one in logs],
        id=f"finding-{number}", class_="group",
    )  # fmt: skip


def _log(log: Excerpt) -> Html:
    """What a node wrote around a finding, folded."""
    at = seconds(log.at_ns)
    count = len(log.before) + len(log.after)
    return el(
        "details",
        el("summary", f"log of {log.node}: {count} lines around {at}"),
        el("p", "The whole log: ", el("a", log.path, href=log.path), class_="note"),
        el("pre", "\n".join(log.before), "\n" if log.before else "",
           el("b", f"———— {at} ————\n"), "\n".join(log.after), class_="log"),
        class_="more",
    )  # fmt: skip


def marks(evidence: Evidence) -> list[tuple[int, int, str]]:
    """When each finding's operations were: time (ns), its number, and what it is."""
    found = []
    for number, harm in enumerate(evidence.results.findings, start=1):
        ops = [op for at in harm.ops if (op := _op_at(evidence.history, at)) is not None]
        chosen = [op for op in ops if op.is_client] or ops
        found += [(op.time, number, f"{number}. {harm.title}") for op in chosen if op.time >= 0]
    return found


# Anomalies.


def anomalies(
    evidence: Evidence, groups: Sequence[Group], time: TimeScale, brokers: Mapping[str, str]
) -> Html:
    """The evidence: of each kind of anomaly some with their operations, the others in a table.
    `brokers` are names of brokers by address."""
    if not groups:
        return el("p", "None was found.", class_="note")
    small = {id(c.anomaly): c for c in evidence.counterexamples}
    of = evidence.history.totals.total() // 2
    return join(
        _group(evidence.history, group, time, brokers, small.get(id(group.numbered[0].anomaly)), of)
        for group in groups
    )


def _group(
    history: History, group: Group, time: TimeScale, brokers: Mapping[str, str],
    small: Counterexample | None, of: int,
) -> Html:  # fmt: skip
    cards = [_card(history, one, time, brokers, is_open=n == 0)
             for n, one in enumerate(group.numbered[:CARDS_MAX])]  # fmt: skip
    more = group.found - len(group.numbered)
    rest = f"{len(group.numbered)} of {group.found} are shown here; results.json may hold more."
    return el(
        "section",
        el("h3", el("span", group.claim, class_="claim"), " ",
           short(said(group.name, group.found), VALUE_MAX), " ",
           el("span", f"({group.name})", class_="times")),
        of_anomaly.drawn(small, of, brokers) if small is not None else None,
        cards,
        _others(group.numbered[CARDS_MAX:], brokers),
        el("p", rest, class_="note") if more > 0 else None,
        class_="group",
    )  # fmt: skip


def _others(numbered: Sequence[Numbered], brokers: Mapping[str, str]) -> Html | None:
    """Anomalies of which only the story is shown, as a table."""
    if not numbered:
        return None
    body = (
        el("tr", el("td", el("span", _at(one), class_="at")),
           el("td", short(named(one.anomaly.story, brokers), STORY_MAX)),
           id=f"anomaly-{one.number}")
        for one in numbered
    )  # fmt: skip
    heads = (el("th", head, scope="col") for head in ("time", "what was seen"))
    drawn = el("table", el("thead", el("tr", heads)), el("tbody", body))
    scroll = el("div", drawn, class_="scroll", role="region", tabindex=0, aria_label="more of them")
    return el("details", el("summary", f"{len(numbered)} more"), scroll, class_="more")


def _at(numbered: Numbered) -> str:
    return seconds(numbered.at_ns) if numbered.at_ns >= 0 else "unknown time"


def _card(
    history: History, numbered: Numbered, time: TimeScale, brokers: Mapping[str, str],
    *, is_open: bool,
) -> Html:  # fmt: skip
    a = numbered.anomaly
    story = short(named(a.story, brokers), STORY_MAX)
    cited = (*a.ops, *(int(match[2]) for match in CITED.finditer(story)))
    known = [op for index in sorted({*cited}) if (op := _op_at(history, index)) is not None]
    shown = {op.index for op in known[:OPS_MAX]}
    places = " ".join(f"{time.at(op.time):g}" for op in known if op.index in a.ops and op.time >= 0)
    show = el("a", "show on the timeline", href="#timeline", class_="show", data_marks=places)
    return el(
        "details",
        el("summary", el("span", _at(numbered), class_="at"), " ",
           el("span", f"{clean(story)[:START_MAX]}…", class_="start")),
        el("p", linked(story, numbered.number, shown), class_="story"),
        _operations(known[:OPS_MAX], numbered.number, brokers),
        _more_ops(a.ops, known),
        el("p", show, " · ", el("code", short(a.signature, VALUE_MAX)), class_="note"),
        id=f"anomaly-{numbered.number}", open=is_open, class_="anomaly",
    )  # fmt: skip


def _more_ops(ops: Sequence[int], known: Sequence[Op]) -> Html | None:
    rest = [op.index for op in known[OPS_MAX:]]
    lost = [index for index in ops if index not in {op.index for op in known}]
    said = f"Also operations {', '.join(map(str, rest))}. " if rest else ""
    said += f"Not in this history: {', '.join(map(str, lost))}." if lost else ""
    return el("p", short(said, STORY_MAX), class_="note") if said else None


def linked(story: str, number: int, shown: Collection[int]) -> Html:
    """A story, in which operations are links to their rows, where they have one."""
    parts: list[Child] = []
    end = 0
    for match in CITED.finditer(story):
        if int(match[2]) in shown:
            link = el("a", match[0], href=f"#op-{number}-{int(match[2])}")
            parts += [story[end : match.start()], link]
            end = match.end()
    return join(*parts, story[end:])


def _operations(ops: Sequence[Op], number: int, brokers: Mapping[str, str]) -> Html | None:
    if not ops:
        return None
    heads = ("op", "time", "client", "what", "came to", "answered by", "")
    body = (
        el(
            "tr",
            (el("td", cell) for cell in (
                op.index, el("span", _when(op), class_="at"), op.process,
                short(spoken(op) or op.f, VALUE_MAX),
                el("span", op.type, class_=f"outcome {op.type}"),
                _answered_by(op, brokers), _as_json(op),
            )),
            id=f"op-{number}-{op.index}",
        )
        for op in ops
    )  # fmt: skip
    drawn = el("table", el("thead", el("tr", (el("th", h, scope="col") for h in heads))),
               el("tbody", body))  # fmt: skip
    return el("div", drawn, class_="scroll", role="region", tabindex=0, aria_label="operations")


def _answered_by(op: Op, brokers: Mapping[str, str]) -> str:
    address = (op.ext or {}).get("broker")
    return "" if address is None else short(brokers.get(str(address), address), VALUE_MAX)


def _as_json(op: Op) -> Html:
    """All that the operation says, behind a click."""
    parts = [f"{op.f} {plain(op.value)}".rstrip(), _more(op)]
    lines = (el("code", part) for part in parts if part)
    return el("details", el("summary", "JSON"), lines)


def _when(op: Op) -> str:
    return seconds(op.time) if op.time >= 0 else "unknown"


def _more(op: Op) -> str:
    more = dict(op.ext or {})
    if op.error is not None:
        more["error"] = op.error
    return plain(more) if more else ""


def _op_at(history: History, index: int) -> Op | None:
    try:
        return history[index]
    except KeyError:
        return None


def plain(value: object) -> str:
    """A value as JSON where it is that, of a bounded length."""
    if value is None:
        return ""
    try:
        numbered = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, UnicodeError):
        numbered = repr(value)
    return short(numbered, VALUE_MAX)
