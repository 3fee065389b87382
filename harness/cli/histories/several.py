"""``maxq check`` of several runs: a line for each, and what is said and stored of any run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from maxq.checkers.judgement import summary
from maxq.harness.cli.given.ticker import Steps, Ticker
from maxq.harness.cli.show import described, document, show, word
from maxq.harness.contracts.terminal import echo, one_line
from maxq.harness.experiments.nights.verdict_table import write_tables
from maxq.harness.experiments.overview.entries import Entry, entry_judged, state_of
from maxq.harness.run import rejudge, stored_run
from maxq.harness.run.process.passes import Passes
from maxq.harness.run.several.given import given_by, runs_in
from maxq.harness.run.several.judging import (
    Stored,
    Together,
    Verdict,
    judged_each,
    runs_in_folders,
    runs_of_dataset,
)
from maxq.harness.run.stored_run import Judged
from maxq.histories.datasets.manifest import is_dataset
from maxq.histories.jsonl import ReadReport
from maxq.histories.store import StoredRun

FIRST_S = 3.0  # from then on a judgement says how far it is
UNKNOWN = 2  # the exit code
ALONE = ("minimal", "power", "explain", "tries")  # options that are of one run


class How(NamedTuple):
    """Who judges, so many runs at a time, for the length of a block."""

    judge: AbstractContextManager[Together]
    at_a_time: int


def is_several(path: Path) -> bool:
    """Whether a path stands for several runs."""
    return is_dataset(path) or bool(runs_in(path))


def check_several(path: Path, how: How, named: Sequence[str], given: dict[str, Any]) -> int:
    """Judge the runs of a dataset, or of a campaign's or a store's folder; the worst exit code."""
    if wrong := [name for name in ALONE if given[name]]:
        option = {"tries": "try-fix"}.get(wrong[0], wrong[0])
        raise click.UsageError(f"--{option} is for one run, and {path} has several")
    passes = Passes()
    runs = _runs_of(path, named, passes, allow_truncated=given["allow_truncated"])
    if named:
        say_assumed()
    steps, codes, words = Steps("runs", 0), list[int](), Counter[str]()
    entries = list[Entry]()
    with (
        how.judge as together,
        Ticker(lambda: steps.line(len(codes), len(runs), passes.line()), first_s=FIRST_S) as ticker,
    ):
        for run, verdict in judged_each(runs, together, how.at_a_time):
            if verdict is not None:
                verdict = msgspec.structs.replace(verdict, fail_on=given["fail_on"] or "")
            codes.append(UNKNOWN if verdict is None else verdict.exit_code)
            words[word(None if verdict is None else verdict.results.valid)] += 1
            if given["verdicts"]:
                entries.append(_entry(run, verdict))
            for line in _lines(run, verdict, given):
                ticker.say(line, err=False)
            if verdict is not None and given["verbose"] and not given["as_json"]:
                show(verdict, as_json=False, verbose=True)
    if given["verdicts"]:
        write_tables(entries, given["verdicts"])
    if not given["as_json"]:
        counted = ", ".join(f"{n:,} {said}" for said, n in sorted(words.items()))
        echo(f"{len(runs):,} run{'' if len(runs) == 1 else 's'}: {counted}")
    return 1 if 1 in codes else max(codes, default=UNKNOWN)


def _entry(run: Stored, verdict: Verdict | None) -> Entry:
    """A run as the tables of verdicts have it."""
    if isinstance(verdict, Judged):
        return entry_judged(run.id, verdict)
    if verdict is None:
        return Entry(name=run.id, state="damaged", said=run.lost)
    claims: dict[str, str] = {c: found.status for c, found in verdict.results.claims.items()}
    return Entry(name=run.id, state=state_of(verdict.results.valid), said="", claims=claims)


def _runs_of(
    path: Path, named: Sequence[str], passes: Passes, *, allow_truncated: bool
) -> list[Stored]:
    if is_dataset(path):
        return runs_of_dataset(path, named, passes, allow_truncated=allow_truncated)
    if named:
        raise click.UsageError("--workload is for files: a run's folder says what it was")
    return runs_in_folders(given_by([path]), passes, kept, allow_truncated=allow_truncated)


def _lines(run: Stored, verdict: Verdict | None, given: dict[str, Any]) -> Iterator[str]:
    """A run's verdict in a line."""
    if given["as_json"]:
        lost = {"run": str(run.path), "valid": "unknown", "verdict": f"unknown: {run.lost}"}
        yield msgspec.json.encode(lost if verdict is None else document(verdict)).decode()
        return
    if verdict is None:
        yield one_line(f"{run.id}: unknown: {run.lost}")
        return
    said = summary.headline(verdict.results, verdict.context)
    changed = run.before is not None and run.before != verdict.results.valid
    before = f" (was {word(run.before)})" if changed else ""
    if missing := stored_run.missing_plugins(verdict.stored.config):
        echo(f"{run.id}: judged without what the run had: {'; '.join(missing)}", err=True)
    yield one_line(f"{run.id}: {said}{before}{_state(verdict.stored.report)}")


def _state(report: ReadReport) -> str:
    """What must be known of a history with the verdict on it."""
    if report.damage:
        return f" (damaged, and judged to event {report.count:,}: {report.damage})"
    return "" if report.complete else " (judged as far as it is recorded)"


def say_state(stored: StoredRun, *, ended: bool = True) -> None:
    """Say how the history of the only run was found, and whether the run has `ended`."""
    found = stored.report
    if missing := stored_run.missing_plugins(stored.config):
        echo(f"judged without what the run had: {'; '.join(missing)}", err=True)
    if found.damage:
        judged = f"judged are the first {found.count:,} events"
        echo(f"the history is damaged: {found.damage}; {judged}", err=True)
    if found.dropped_bytes:
        echo(f"dropped an incomplete last line of {found.dropped_bytes} bytes", err=True)
    if found.unchecked:
        echo(
            f"{found.unchecked} of {found.count} operations have no digest: whether they are as "
            "they were recorded is not known",
            err=True,
        )
    if not ended:
        echo("the run still goes on; judged as far as it is recorded", err=True)


def say_assumed(clients: int | None = None) -> None:
    """Say what is assumed of a file, of which so many clients are known."""
    at_a_time = "" if clients is None else f", {clients} clients at a time"
    echo(
        "no config: assumed are settings that promise everything, "
        f"{rejudge.CONTEXT.timing} timing, a target of which nothing is known{at_a_time}",
        err=True,
    )


def kept(judged: Judged, ended: bool) -> Judged:
    """Store the verdict on a run that has ended, and write its report; of a damaged history not."""
    if not ended or judged.stored.report.damage:
        return judged
    try:
        judged.save(whole=False)
    except OSError as error:
        echo(f"the verdict is not stored: {described(error)}", err=True)
    return judged.with_report()
