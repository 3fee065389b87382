"""A verdict as it is printed: for people, or as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec

from checkers.api import Anomaly
from checkers.faults import faults
from checkers.recovery import Recovery
from checkers.runner import Results
from histories.store import StoredRun

SHOWN_MAX = 3  # findings of one name that are told on the terminal


class Shown(Protocol):
    """What can be shown: a run and its verdict, or a file's."""

    @property
    def stored(self) -> StoredRun: ...

    @property
    def results(self) -> Results: ...

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


def show(judged: Shown, *, as_json: bool) -> None:
    """Print a verdict: for people, or the JSON of the design's section 5."""
    results = judged.results
    anomalies = [a for v in results.verdicts for a in v.anomalies]
    if judged.unreported is not None:
        click.echo(f"the report is not written: {described(judged.unreported)}", err=True)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(document(judged)), indent=2).decode())
        return
    for verdict in results.verdicts:
        counts = ", ".join(f"{k} {v}" for k, v in verdict.counts.items())
        click.echo(f"{verdict.checker}: {word(verdict.valid)}  {counts}".rstrip())
        if verdict.reason:
            click.echo(f"  {verdict.reason}")
    if judged.absent:
        click.echo(f"n/a on this target: {', '.join(judged.absent)}")
    show_recoveries(judged.recoveries)
    show_anomalies(anomalies)
    click.echo(f"\nverdict: {word(results.valid)}")
    click.echo(f"run:     {judged.stored.path}")
    click.echo(f"repeat:  {judged.repeat}")
    click.echo(f"commit:  {judged.commit}")
    if judged.report is not None:
        click.echo(f"report:  {judged.report}")


def document(judged: Shown) -> dict[str, Any]:
    """What ``--json`` prints."""
    plain = judged.results.to_json()
    return {
        "run": str(judged.stored.path),
        "valid": judged.results.valid,
        "claims": [{"claim": claim, "valid": valid} for claim, valid in plain["claims"].items()],
        "absent": list(judged.absent),
        "verdicts": plain["verdicts"],
        "anomalies": [a for v in plain["verdicts"] for a in v["anomalies"]],
        "recoveries": msgspec.to_builtins(list(judged.recoveries)),
        "faults": msgspec.to_builtins(faults(judged.stored.history), str_keys=True),
        "repeat": judged.repeat,
        "commit": judged.commit,
        "report": None if judged.report is None else str(judged.report),
    }


def show_recoveries(found: Sequence[Recovery]) -> None:
    """Tell how long it took after each fault until messages were taken again."""
    if not found:
        return
    over = sum(r.failed_over for r in found)
    click.echo(f"\nrecovery: {len(found)} faults, {over} fail-overs")
    for r in found:
        unseen = f"not in the {r.sent_ns / 1e9:.2f} s until the last send"
        after = unseen if r.after_ns is None else f"{r.after_ns / 1e9:.2f} s"
        told = "  fail-over" if r.failed_over else ""
        click.echo(f"  {r.at_ns / 1e9:7.2f} s  {r.f} {r.node} ({r.part}): {after}{told}")


def show_anomalies(anomalies: Sequence[Anomaly]) -> None:
    """Tell the first few findings of each name, worst names first."""
    by_name: dict[str, list[Anomaly]] = {}
    for anomaly in anomalies:
        by_name.setdefault(anomaly.name, []).append(anomaly)
    for name, found in sorted(by_name.items(), key=lambda e: (not e[0].startswith("lost"), e[0])):
        for anomaly in found[:SHOWN_MAX]:
            ops = ", ".join(map(str, anomaly.ops))
            click.echo(f"\n{anomaly.claim} {name} (operations {ops})\n  {anomaly.story}")
        if len(found) > SHOWN_MAX:
            click.echo(f"\n... and {len(found) - SHOWN_MAX} more {name}, in results.json")


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
