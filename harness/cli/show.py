"""A verdict as it is printed: for people, or as JSON (docs/json.md)."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from maxq.checkers.availability.recovery import Recovery
from maxq.checkers.core.api import ClaimVerdict, Context
from maxq.checkers.core.titles import status_in_words, titled
from maxq.checkers.counterexample.of_anomaly import Counterexample
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.harms import charged
from maxq.checkers.evidence.harms import plain as plain_harms
from maxq.checkers.judgement import stretches, summary
from maxq.checkers.judgement.digest import NOT_PROMISED, Row, brokers_by_address, named
from maxq.checkers.judgement.runner import Results
from maxq.checkers.power.power import ADVICE, Power, power_rows, weakly
from maxq.harness.contracts.terminal import (
    coloured,
    echo,
    echo_drawn,
    one_line,
    pasted,
    table,
)
from maxq.harness.run.explained import Explained
from maxq.harness.run.run_context import LEFT
from maxq.harness.schedule.fixes import ToTry
from maxq.histories.store import StoredRun

SHOWN_MAX = 12  # findings that are told with their stories
LINES_MAX, NOTES_MAX, WIDTH = 20, 3, 100
CELL_MAX = 160  # characters of a cell
POWER_COLUMNS = (("planted", 58), ("called", 9), ("of", 27))
COLUMNS = (("found", 30), ("when", 16), ("where", 24), ("fault", 26))
STATUSES = ("broken", "not judged", "kept", "not promised", "no occasion")


class Shown(Protocol):
    """What can be shown: a run and its verdict, or a file's."""

    @property
    def stored(self) -> StoredRun: ...

    @property
    def results(self) -> Results: ...

    @property
    def context(self) -> Context: ...

    @property
    def rows(self) -> Sequence[Row]: ...

    @property
    def known(self) -> Sequence[str]: ...

    @property
    def explained(self) -> Sequence[Explained]: ...

    @property
    def tried(self) -> Sequence[str]: ...

    @property
    def to_try(self) -> ToTry | None: ...

    @property
    def power(self) -> Sequence[Power]: ...

    @property
    def failed_on(self) -> dict[str, int]: ...

    @property
    def recoveries(self) -> Sequence[Recovery]: ...

    @property
    def absent(self) -> Sequence[str]: ...

    @property
    def repeat(self) -> str: ...

    @property
    def commit(self) -> str: ...

    @property
    def report(self) -> Path | None: ...

    @property
    def unreported(self) -> Exception | None: ...

    @property
    def counterexamples(self) -> Sequence[Counterexample]: ...


def show(judged: Shown, *, as_json: bool, verbose: bool = False) -> None:
    """Print a verdict: for people, what they came for first, in `LINES_MAX` lines unless they ask
    for more; or JSON."""
    if judged.unreported is not None:
        echo(f"the report is not written: {described(judged.unreported)}", err=True)
    if as_json:
        echo(msgspec.json.format(msgspec.json.encode(document(judged)), indent=2).decode())
        return
    head, foot = _head(judged), _foot(judged)
    for line in head:
        echo(line)
    if verbose:
        _show_all(judged)
    else:
        room = LINES_MAX - sum(_height(line) for line in (*head, *foot))
        show_rows(judged.rows, room)
    for one in judged.explained:
        echo("\n" + "\n".join(wrapped(line, indent=4) for line in one.lines()))
    if judged.tried:
        echo("\n" + "\n".join(judged.tried))
    if judged.power:
        show_power(judged.power)
    for line in foot:
        echo(line)


def show_power(powers: Sequence[Power]) -> None:
    """How much a verdict could have called, a line for each wrong answer."""
    cells = []
    for p in powers:
        called = f"{p.called} of {p.tried}" if p.tried else "-"
        where = f"{p.places:,} place{'' if p.places == 1 else 's'}"
        cells.append([(f"{p.claim}: {p.wrong}", ""), (called, "red" if p.weak else ""),
                      (p.why or where, "")])  # fmt: skip
    echo_drawn(table(POWER_COLUMNS, cells, width=WIDTH, colour=coloured()))
    if weak := weakly(powers):
        echo(wrapped(f"power:   of {', '.join(weak)} less than a tenth was called: that they were "
                     f"kept says little; {ADVICE}"))  # fmt: skip


def _height(text: str) -> int:
    """How many lines of a terminal a text takes; a command is not broken, to be copied whole."""
    return sum(max(1, -(-len(line) // WIDTH)) for line in text.split("\n"))


def _head(judged: Shown) -> list[str]:
    """The sentence, and what must be known with it."""
    results = judged.results
    lines = [wrapped(f"verdict: {summary.headline(results, judged.context)}")]
    notes = (*results.advice, *summary.notes(results, judged.context))
    lines += [wrapped(f"  {line}") for line in notes[:NOTES_MAX]]
    if judged.failed_on:
        found = ", ".join(f"{n:,} {name}" for name, n in judged.failed_on.items())
        lines.append(f"  exit 1, as asked by --fail-on: measured {found}")
    return lines


def _foot(judged: Shown) -> list[str]:
    """What came of the claims and the faults, and where all is."""
    results = judged.results
    counted = [
        f"{len(of)} {status_in_words(status)}"
        + (f" ({', '.join(of)})" if status == "broken" else "")
        for status in STATUSES if (of := results.of(status))
    ]  # fmt: skip
    kept = summary.besides(results, judged.context)
    lines = [f"{'kept:' if results.lost.lost == 0 else 'lost:':9}{kept}"] if kept else []
    lines += [wrapped(f"claims:  {', '.join(counted)}")] if counted else []
    if found := judged.recoveries:
        known = [r.after_ns for r in found if r.after_ns is not None]
        late = len(found) - len(known)
        text = f"faults:  {len(found)}{_failed_over(found)}"
        if known:
            text += f"; a send was ok again after at most {max(known) / 1e9:.2f} s"
        text += f"; after {late} of them not until the last send" if late else ""
        lines.append(wrapped(text))
    lines += [wrapped(f"answers: {said}") for said in stretches.long_ones(results.stretches)]
    lines += [wrapped(f"known:   {text.removeprefix('known: ')}") for text in judged.known]
    lines += [wrapped(f"acting:  {said}")] if (said := summary.acting(results)) else []
    lines += [wrapped(f"topics:  {said}")] if (said := summary.topics(results)) else []
    lines += [wrapped(f"minimal: {_suffices(judged)}")] if judged.counterexamples else []
    if judged.to_try is not None:
        lines.append(wrapped(f"advice:  to try {judged.to_try.what}:"))
        lines.append(f"         {pasted(judged.to_try.command)}")
    lines += [f"run:     {judged.stored.path}", f"repeat:  {pasted(judged.repeat)}"]
    lines.append(f"commit:  {judged.commit}")
    lines += [f"report:  {judged.report}"] if judged.report is not None else []
    return lines


def _suffices(judged: Shown) -> str:
    """How few operations show what was found."""
    each = judged.counterexamples
    first, of = each[0], judged.stored.history.totals.total() // 2
    one = first.length == 1
    more = len(each) - 1
    kinds = "one more kind has" if more == 1 else f"{more} more kinds have"
    rest = f", and {kinds} such a part" if more else ""
    return (
        f"{first.length:,} of {of:,} operations show{'s' if one else ''} {first.anomaly.name} by "
        f"{'itself' if one else 'themselves'}{without(first)}{rest}; --minimal DIR writes them"
    )


def without(found: Counterexample) -> str:
    """That messages are left out of what its reads show, where they are."""
    if not found.left_out:
        return ""
    what = "message that plays" if found.left_out == 1 else "messages that play"
    return f", {found.left_out:,} {what} no part left out"


def show_rows(rows: Sequence[Row], room: int) -> None:
    """The findings as a table of so many lines."""
    cells = [_cells(row) for row in rows]
    for count in range(len(rows), 0, -1):
        drawn = table(COLUMNS, cells[:count], width=WIDTH, colour=coloured())
        left = len(rows) - count
        if drawn.count("\n") + 1 + (1 if left else 0) <= room or count == 1:
            echo_drawn(drawn)
            if left:
                echo(f"  ... and {left} more {'row' if left == 1 else 'rows'}; -v shows all")
            return


def _cells(row: Row) -> list[tuple[str, str]]:
    # Of how many messages a loss is stands in the sentence already.
    share = row.share if not row.lost else "" if row.broken else NOT_PROMISED
    found = f"{row.what}, {share}" if share else row.what
    cause = f"blamed: {row.cause}" if row.blamed else row.cause
    texts = (found, row.when or "unknown", row.who or "the cluster", cause)
    styles = ("bold", "", "", "red" if row.blamed else "")
    return [(text[:CELL_MAX], style) for text, style in zip(texts, styles, strict=True)]


def _show_all(judged: Shown) -> None:
    """Every finding with its story, every claim, every fault."""
    show_findings(judged)
    echo("\nclaims:")
    for line in claim_lines(judged.results):
        echo(line)
    if judged.absent:
        echo(f"  n/a on this target: {', '.join(judged.absent)}")
    show_recoveries(judged)
    target = judged.context.target
    echo(f"\ntarget:  {target}" if "," in target else "")


def claim_lines(results: Results) -> Iterator[str]:
    """What became of every claim: a line each for those to be read, one for all that were kept."""
    plain: dict[str, list[str]] = {}
    for claim, verdict in summary.table(results):
        if verdict.status in ("broken", "not judged") or verdict.measured:
            shown = verdict.status.upper() if verdict.status == "broken" else verdict.status
            yield f"  {shown:13}{titled([claim])}: {_said(verdict)}"
        else:
            plain.setdefault(verdict.status, []).append(claim)
    for status, claims in plain.items():
        yield wrapped(f"  {status_in_words(status):13}{', '.join(claims)}", indent=15)


def _said(verdict: ClaimVerdict) -> str:
    found = ", ".join(f"{n:,} {name}" for name, n in verdict.found.items())
    said = f"measured: {found}; {verdict.why}" if verdict.measured else found or verdict.why
    return one_line(said)


def wrapped(text: str, indent: int = 9) -> str:
    """A long line as several."""
    return textwrap.fill(text, WIDTH, subsequent_indent=" " * indent, break_long_words=False,
                         break_on_hyphens=False, drop_whitespace=True)  # fmt: skip


def document(judged: Shown) -> dict[str, Any]:
    """What ``--json`` prints."""
    results = judged.results
    plain = results.to_json()
    return {
        "run": str(judged.stored.path),
        "valid": results.valid,
        "verdict": summary.headline(results, judged.context),
        "advice": list(results.advice),
        **results.lost.plain(),
        "measured": summary.measured_names(results.claims),
        "claims": [
            {"claim": claim, "status": r.status, "why": r.why, "found": r.found}
            for claim, r in results.claims.items()
        ],
        "first": [first_row(row) for row in judged.rows],
        "known": list(judged.known),
        "absent": list(judged.absent),
        "verdicts": plain["verdicts"],
        "findings": plain_harms(results.findings),
        "explained": msgspec.to_builtins(list(judged.explained)),
        "tried": list(judged.tried),
        "to_try": None if judged.to_try is None else judged.to_try.command,
        "power": power_rows(judged.power),
        "anomalies": msgspec.to_builtins(list(results.broken), str_keys=True),
        "measured_anomalies": msgspec.to_builtins(list(results.measured), str_keys=True),
        "counterexamples": [c.to_json() for c in judged.counterexamples],
        "recoveries": msgspec.to_builtins(list(judged.recoveries)),
        "stretches": msgspec.to_builtins(results.stretches),
        "faults": msgspec.to_builtins(faults(judged.stored.history), str_keys=True),
        "left": judged.stored.config.get(LEFT),
        "repeat": judged.repeat,
        "commit": judged.commit,
        "report": None if judged.report is None else str(judged.report),
    }


def first_row(row: Row) -> dict[str, Any]:
    """A row of the first screen as plain values, with its words."""
    return {**msgspec.to_builtins(row), "when": row.when, "cause": row.cause, "text": row.text()}


def show_recoveries(judged: Shown) -> None:
    """Show how long it took after each fault until a send succeeded again, and what it cost."""
    found = judged.recoveries
    if not found:
        return
    costs = charged(judged.results.findings)
    echo(f"\nrecovery: {len(found)} faults{_failed_over(found)}; until a send was ok")
    for r in found:
        unseen = f"not in the {r.sent_ns / 1e9:.2f} s until the last send"
        after = unseen if r.after_ns is None else f"{r.after_ns / 1e9:.2f} s"
        text = "  by another master" if r.failed_over else ""
        cost = costs.pop(r.act, 0)
        text += f"  {cost:,} messages lost" if cost else ""
        part = f" ({r.part})" if r.part else ""
        echo(one_line(f"  {r.at_ns / 1e9:7.2f} s  {r.f} {r.node}{part}: {after}{text}"))
    if rest := sum(costs.values()):
        echo(f"  {rest:,} messages lost by nothing that was done")


def _failed_over(found: Sequence[Recovery]) -> str:
    over = sum(r.failed_over for r in found)
    return f"; after {over} of them another master took the next send" if over else ""


def show_findings(judged: Shown) -> None:
    """Show each harm once: what it was, what it is blamed on, how it shows; and one anomaly."""
    found = judged.results.findings
    if not found:
        return
    brokers = brokers_by_address(judged.stored.history)
    known = {row.number: row.known for row in judged.rows}
    echo(f"\nfindings: {len(found)}")
    for number, harm in enumerate(found, start=1):
        if number > SHOWN_MAX:
            echo(f"\n  ... and {len(found) - SHOWN_MAX} more, in results.json and the report")
            break
        measured = "" if harm.broken else " (measured; not promised)"
        echo(wrapped(f"\n  {number}. {harm.title}{measured}", indent=5))
        echo(_indented(named(harm.story, brokers)))
        symptoms = ", ".join(f"{n} {name}" for name, n in harm.seen_as)
        echo(_indented(f"Seen as: {symptoms}.") if symptoms else "")
        for text in known.get(number, ()):
            echo(_indented(f"{text[:1].upper()}{text[1:]}."))


def _indented(text: str) -> str:
    return textwrap.indent(wrapped(text, indent=0), "     ")


def word(valid: object) -> str:
    """A verdict in one word."""
    if isinstance(valid, bool):
        return "valid" if valid else "INVALID"
    return "unknown"


def described(error: BaseException) -> str:
    """An error in a line, for people."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror + (f": {error.filename}" if error.filename else "")
    return str(error) or type(error).__name__
