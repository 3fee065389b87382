"""The numbers of a report: faults with their proofs, recoveries, operations, how it was set up."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from maxq.checkers.evidence.faults import HOLDS, Fault
from maxq.checkers.evidence.harms import charged
from maxq.checkers.judgement.cuts import described, links_of
from maxq.checkers.judgement.lost import NOT_JUDGED, Lost
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import plan
from maxq.harness.report.bands import Actions
from maxq.harness.report.evidence import Evidence
from maxq.harness.report.findings import plain, table
from maxq.harness.report.markup import Child, Html, el, join, short
from maxq.harness.report.measures import quantile
from maxq.harness.report.spoken import MEANS
from maxq.harness.report.timescale import duration, seconds
from maxq.harness.schedule.options import Options
from maxq.histories.columns.timings import OUTCOMES, Timing

ACTIONS_MAX, RECOVERIES_MAX, SETTINGS_MAX = 500, 500, 400
NAME_MAX, VALUE_MAX = 120, 300
BAR = 120  # px


def swatch(color: str) -> Html:
    """A little of a colour."""
    box = el("rect", width=12, height=12, rx=2, fill=color, class_="swatch")
    return el("svg", box, width=12, height=12, aria_hidden="true")


def titles(options: Options) -> dict[str, str]:
    """What each node is called where there is room for a word: its role and its name."""
    words = {Role.NAMESRV: "name server", Role.CONTROLLER: "controller", Role.BROKER: "broker"}
    return {node.name: f"{words[node.role]} {node.name}" for node in plan(options.topology)}


def legend(actions: Actions) -> Html | None:
    """Which colour is which fault."""
    if not actions.colors:
        return None
    entries = (el("li", swatch(color), " ", short(f, NAME_MAX))
               for f, color in actions.colors.items())  # fmt: skip
    return el("ul", entries, class_="legend", aria_label="colours of faults")


def faults_table(actions: Actions) -> Html:
    """Every action of the nemesis, what probes saw of it, and what undid it."""
    healed = {
        band.fault.begun: sorted({heal.begun for heal in band.act.healed.values()})
        for band in actions.bands
    }
    rows = [_action(action, actions, healed) for action in actions.every[:ACTIONS_MAX]]
    heads = ("begun", "took", "action", "asked for", "on", "proof", "undone by")
    more = len(actions.every) - len(rows)
    note = el("p", f"{more} more are not shown.", class_="note") if more else None
    return join(_anchored(heads, rows, actions), note)


def _anchored(heads: Sequence[str], rows: Sequence[Sequence[Child]], actions: Actions) -> Html:
    body = (
        el("tr", (el("td", cell) for cell in cells), id=f"action-{action.begun}")
        for action, cells in zip(actions.every, rows, strict=False)
    )
    drawn = el("table", el("thead", el("tr", (el("th", h, scope="col") for h in heads))),
               el("tbody", body))  # fmt: skip
    return el("div", drawn, class_="scroll", role="region", tabindex=0, aria_label="faults")


def _action(action: Fault, actions: Actions, healed: Mapping[int, list[int]]) -> list[Child]:
    color = actions.colors.get(action.f) if action.kind == "fault" else None
    took = "never ended"
    if action.ended_ns is not None:
        took = duration(max(0, action.ended_ns - action.begun_ns))
    undone: Child = None
    if color is not None:
        ops = healed.get(action.begun, [])
        links = [el("a", f"op {op}", href=f"#action-{op}") for op in ops if op != action.begun]
        undone = [[link, " "] for link in links] or ("itself" if ops else "nothing")
    return [
        el("span", seconds(action.begun_ns), class_="at"),
        el("span", took, class_="at"),
        el("span", swatch(color) if color else None, " ", short(action.f, NAME_MAX),
           _cut(action), class_="action"),
        short(action.request, NAME_MAX) if isinstance(action.request, str)
        else plain(action.request),
        _nodes(action),
        _proof(action),
        undone,
    ]  # fmt: skip


def _cut(action: Fault) -> Html | None:
    """Which packets did not arrive, from whom to whom."""
    links = described(links_of(action.result))
    return el("small", short(links, NAME_MAX)) if links else None


def _nodes(action: Fault) -> Html:
    cells = []
    for node in action.nodes:
        done = action.result.get(node) if isinstance(action.result, dict) else None
        role = done.get("role") if isinstance(done, dict) else None
        of_role = f" ({short(role, NAME_MAX)})" if role else ""
        cells.append(el("span", short(node, NAME_MAX), of_role, class_="node"))
    return join([one, " "] for one in cells)


def _proof(action: Fault) -> Html:
    mark = (el("span", "proven", class_="outcome ok") if action.holds
            else el("span", "NO PROOF", class_="outcome fail"))  # fmt: skip
    if not isinstance(action.result, dict) or not action.result:
        return join(mark, " ", plain(action.result))
    lines = (
        el("li", el("b", short(node, NAME_MAX)), " ", _seen(done))
        for node, done in sorted(action.result.items(), key=lambda entry: str(entry[0]))
    )
    return el("details", el("summary", mark), el("ul", lines))


def _seen(done: Any) -> Html:
    if not isinstance(done, dict):
        return el("code", plain(done))
    held = "" if done.get(HOLDS) is True else "does not hold; "
    rest = {k: v for k, v in done.items() if k != HOLDS}
    return join(held, el("code", plain(rest)))


def recovery_table(evidence: Evidence) -> Html:
    """How long each fault kept messages out (RTO), and how many it cost (RPO)."""
    found = evidence.recoveries
    if not found:
        return el("p", "No fault was completed, so there is nothing to recover from.",
                  class_="note")  # fmt: skip
    costs, lost = charged(evidence.results.findings), evidence.results.lost
    most = max((r.after_ns for r in found if r.after_ns is not None), default=0)
    rows: list[Sequence[Child]] = []
    for r in found[:RECOVERIES_MAX]:
        after: Child = f"not in the {duration(r.sent_ns)} until the last send"
        if r.after_ns is not None:
            after = join(_bar(r.after_ns, most), " ", duration(r.after_ns))
        part = f" ({short(r.part, NAME_MAX)})" if r.part else ""
        rows.append((
            el("span", seconds(r.at_ns), class_="at"), short(r.f, NAME_MAX),
            f"{short(r.node, NAME_MAX)}{part}", after, _cost(costs.pop(r.act, 0), lost),
            "yes" if r.failed_over else "no",
        ))  # fmt: skip
    rest = sum(costs.values())
    if rest:
        rows.append(("", "no fault", "nothing that was done explains these", "", f"{rest:,}", ""))
    if lost.lost:
        of = f"of {lost.acknowledged:,} acknowledged messages"
        rows.append(("", "all", of, "", lost.number, ""))
    heads = ("at", "fault", "node (as)", "until a send was ok (RTO)", "messages lost (RPO)",
             "by another master")  # fmt: skip
    more = len(found) - min(len(found), RECOVERIES_MAX)
    note = el("p", f"{more} more are not shown.", class_="note") if more else None
    return join(table("recovery", heads, rows), note)


def _cost(found: int, lost: Lost) -> str:
    """What a fault cost, as far as that was judged."""
    return f"{found:,}" if found or not lost.why else NOT_JUDGED


def power_table(evidence: Evidence) -> Html:
    """How much the verdict could have called."""
    rows: list[Sequence[Child]] = []
    for p in evidence.power:
        why = f": {p.why}" if p.why else ""
        share: Child = p.why
        if p.share is not None:
            share = join(_bar(p.share, 1.0), f" {p.called} of {p.tried}{why}")
        rows.append((p.claim, p.wrong, f"{p.places:,}", share, ", ".join(p.by)))
    said = (
        "Each wrong answer was written into this run at one place after the other, of many at a "
        "sample, and judged again. That a claim was kept says much where most were called, and "
        "little where few were."
    )
    heads = ("claim", "wrong answer", "places", "called", "by")
    return join(el("p", said, class_="note"), table("power", heads, rows))


def _bar(value: float, most: float) -> Html:
    width = max(2, round(BAR * value / most)) if most else 2
    bar = el("rect", width=width, height=10, y=1, rx=2, class_="bar")
    return el("svg", bar, width=BAR, height=12, aria_hidden="true")


def kinds_table(kinds: Sequence[Timing]) -> Html:
    """Operations by kind: outcomes, and the latency of what was ok."""
    rows: list[Sequence[Child]] = []
    for kind in kinds:
        ascending = kind.latencies()
        cells = [quantile(ascending, share) for share in (0.5, 0.95, 0.99)]
        cells.append(kind.slowest["ok"] if len(ascending) else None)
        rows.append((
            join(el("code", short(kind.f, NAME_MAX), class_="id"), " ", MEANS.get(kind.f, "")),
            f"{kind.invoked:,}",
            *(f"{n:,}" for n in kind.counts.values()), f"{kind.open:,}",
            *("" if ns is None else duration(ns) for ns in cells),
        ))  # fmt: skip
    heads = ("operation", "invoked", *OUTCOMES, "open", "ok p50", "p95", "p99", "slowest")
    return el("div", table("operations", heads, rows), class_="numbers")


def setup_table(evidence: Evidence) -> Html:
    """All that is stored of how the run was set up."""
    rows: list[Sequence[Child]] = [("commit", el("code", short(evidence.commit, VALUE_MAX)))]
    rows += [
        (short(name, NAME_MAX), el("code", short(value, VALUE_MAX)))
        for name, value in _flat(evidence.config, "")
        if name not in ("commit", "repeat")
    ]
    shown = rows[:SETTINGS_MAX]
    return el("div", table("how it was set up", ("setting", "value"), shown), class_="setup")


def _flat(value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """A tree of settings as lines."""
    if isinstance(value, dict) and value and depth < 6:
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, list) and all(isinstance(v, str) for v in value):
        yield name, ", ".join(value)
    else:
        yield name, value if isinstance(value, str) else plain(value)
