"""The command line: ``maxq test``, ``maxq check``, ``maxq doctor``.

Results go to standard output, progress to standard error. Exit codes are Jepsen's: 0 valid, 1
invalid, 2 unknown, 254 bad arguments, 255 our own failure.
"""

import difflib
import math
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import msgspec

from checkers.api import Anomaly
from checkers.faults import faults
from checkers.recovery import Recovery, recoveries
from harness import doctor, runs
from harness.deployment import SetupFailed
from harness.environments.api import EnvironmentLost, EnvironmentUnavailable, MissingCapability
from harness.lifecycle import FAULTS, WORKLOADS
from harness.runs import Judged
from histories.op import HistoryError
from reference import mutants

EXIT_USAGE, EXIT_CRASH = 254, 255
SHOWN_MAX = 3  # findings of one name that are told on the terminal
SEED_MAX = 2**63 - 1
DURATION_NS_MAX = 7 * 24 * 3600 * 10**9
_UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


class Duration(click.ParamType[int]):
    """A duration with its unit, such as ``60s``; in ns."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no duration; write a number and a unit: 500ms, 30s, 2m", param)
        duration_ns = round(Decimal(found[1]) * _UNITS[found[2]])
        if not 0 < duration_ns <= DURATION_NS_MAX:
            self.fail(f"{value!r} is not between 1 ns and 7 days", param)
        return duration_ns


class Rate(click.FloatRange):
    """A number of operations a second."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        rate = super().convert(value, param, ctx)
        if math.isnan(rate):
            self.fail(f"{value!r} is no rate", param)
        return rate


class Name(click.Choice[str]):
    """One of several names; a wrong one is answered with the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            known = ", ".join(self.choices) or "nothing"
            self.fail(f"{value!r} is unknown{nearest(value, self.choices)}; known: {known}", param)
        return str(value)


class Commands(click.Group):
    """A group that answers a wrong command with the nearest."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            known = ", ".join(sorted(self.commands))
            hint = nearest(args[0], self.commands)
            ctx.fail(f"no command {args[0]!r}{hint}; there are: {known}")
        return super().resolve_command(ctx, args)


def nearest(word: str, known: Iterable[str]) -> str:
    """The names that a wrong one may have meant, as the rest of a sentence."""
    close = difflib.get_close_matches(str(word), list(known), n=2, cutoff=0.5)
    return f", did you mean {' or '.join(close)}?" if close else ""


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="maxq")
def cli() -> None:
    """Prove what a RocketMQ cluster keeps and loses under faults."""


@cli.command()
@click.option(
    "--environment",
    type=Name(["auto", "simulated", "local"]),
    default="auto",
    show_default=True,
    help="where the nodes run; auto: local if it can, else simulated",
)
@click.option("--workload", type=Name(WORKLOADS), default="queue", show_default=True)
@click.option(
    "--nemesis",
    "nemesis",
    type=Name([*FAULTS, "all"]),
    multiple=True,
    default=("kill",),
    show_default=True,
    help="faults; may be repeated",
)
@click.option(
    "--time-limit",
    type=Duration(),
    default="30s",
    show_default=True,
    help="how long clients and faults run",
)
@click.option(
    "--rate",
    type=Rate(min=0.1, max=100_000),
    default=100.0,
    show_default=True,
    help="operations a second",
)
@click.option(
    "--concurrency",
    type=click.IntRange(2, 1000),
    default=6,
    show_default=True,
    help="client threads",
)
@click.option("--controllers", type=click.IntRange(1, 9), default=1, show_default=True)
@click.option("--broker-sets", type=click.IntRange(1, 50), default=3, show_default=True)
@click.option(
    "--replicas",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="of each broker set",
)
@click.option(
    "--profile",
    default="P-ALL",
    show_default=True,
    type=Name(["P-SAFE", "P-ALL", "P-NUM", "P-DEFAULT", "P-UNCLEAN"]),
)
@click.option("--timing", type=Name(["fast", "stock"]), default="fast", show_default=True)
@click.option(
    "--mutant",
    type=Name(mutants.names()),
    default=None,
    help="run a seeded bug, to see the checkers catch it",
)
@click.option(
    "--seed", type=click.IntRange(0, SEED_MAX), default=None, help="default: a random one"
)
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="where run folders go",
)
@click.option("--json", "as_json", is_flag=True, help="print the verdict as JSON")
def test(**given: Any) -> int:
    """Run a workload under faults and judge what was recorded."""
    store, as_json = given.pop("store"), given.pop("as_json")
    try:
        options = runs.options_from(given)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    judged = runs.run_test(options, store, quiet=as_json)
    show(judged, as_json=as_json)
    if judged.trouble is not None:
        report(judged.trouble)
    return judged.exit_code


@cli.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--allow-truncated", is_flag=True, help="judge the readable part of a damaged history"
)
@click.option("--json", "as_json", is_flag=True, help="print the verdict as JSON")
def check(run: Path, allow_truncated: bool, as_json: bool) -> int:
    """Judge a stored run (its folder) again, also one whose harness was killed.

    The new verdict replaces the stored one, unless the run still goes on or its history is damaged.
    """
    with runs.held(run.resolve()) as ended:
        judged = runs.judge_stored(run, allow_truncated=allow_truncated)
        found = judged.stored.report
        if found.damage:
            click.echo(f"the history is damaged: {found.damage}; judged what precedes it", err=True)
        if found.dropped_bytes:
            click.echo(f"dropped an incomplete last line of {found.dropped_bytes} bytes", err=True)
        if not ended:
            click.echo("the run still goes on; judged as far as it is recorded", err=True)
        elif not found.complete and not found.damage:
            click.echo("the run did not end properly; judged as far as it was recorded", err=True)
        if ended and not found.damage:
            try:
                judged.save(whole=False)
            except OSError as error:
                click.echo(f"the verdict is not stored: {described(error)}", err=True)
    show(judged, as_json=as_json)
    return judged.exit_code


@cli.command("doctor")
def doctor_command() -> int:
    """Say what this machine can host, by trying it."""
    findings = doctor.examine()
    for finding in findings:
        click.echo(f"{'yes' if finding.works else 'no ':3} {finding.environment}: {finding.text}")
    return 0


def show(judged: Judged, *, as_json: bool) -> None:
    """Print a verdict: for people, or the JSON of the design's section 5."""
    results = judged.results
    anomalies = [a for v in results.verdicts for a in v.anomalies]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(document(judged)), indent=2).decode())
        return
    for verdict in results.verdicts:
        counts = ", ".join(f"{k} {v}" for k, v in verdict.counts.items())
        click.echo(f"{verdict.checker}: {word(verdict.valid)}  {counts}".rstrip())
        if verdict.reason:
            click.echo(f"  {verdict.reason}")
    show_recoveries(recoveries(judged.stored.history))
    show_anomalies(anomalies)
    click.echo(f"\nverdict: {word(results.valid)}")
    click.echo(f"run:     {judged.stored.path}")
    click.echo(f"repeat:  {judged.options.command()}")
    click.echo(f"commit:  {judged.commit}")


def document(judged: Judged) -> dict[str, Any]:
    """What ``--json`` prints."""
    plain = judged.results.to_json()
    return {
        "run": str(judged.stored.path),
        "valid": judged.results.valid,
        "claims": [{"claim": claim, "valid": valid} for claim, valid in plain["claims"].items()],
        "verdicts": plain["verdicts"],
        "anomalies": [a for v in plain["verdicts"] for a in v["anomalies"]],
        "recoveries": msgspec.to_builtins(recoveries(judged.stored.history)),
        "faults": msgspec.to_builtins(faults(judged.stored.history), str_keys=True),
        "repeat": judged.options.command(),
        "commit": judged.commit,
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


def report(error: BaseException, text: str = "") -> None:
    """Say on standard error what went wrong, and where the run is."""
    click.echo(text or f"error: {described(error)}", err=True)
    first = error.__cause__ if isinstance(error, click.Abort) else error  # click's own wrapping
    for note in getattr(first, "__notes__", ()):
        click.echo(note, err=True)


def main() -> None:
    """The entry point; maps every way to end to its exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):  # end as an interrupt does: clean up, then 255
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a terminal that lacks a letter is no reason to fail
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run_cli(sys.argv[1:]))


def run_cli(argv: list[str]) -> int:
    """Run a command line; returns its exit code."""
    try:
        code = cli.main(args=argv, prog_name="maxq", standalone_mode=False)
    except click.ClickException as error:
        error.show(sys.stderr)
        return EXIT_USAGE
    except (HistoryError, MissingCapability) as error:
        report(error)
        return EXIT_USAGE
    except BrokenPipeError:  # nobody reads what we say
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_CRASH
    except (EnvironmentUnavailable, EnvironmentLost, SetupFailed, OSError) as error:
        report(error)
        return EXIT_CRASH
    except (KeyboardInterrupt, click.Abort) as error:
        report(error, "interrupted; what was recorded can be judged by `maxq check`")
        return EXIT_CRASH
    except Exception as error:
        traceback.print_exc()
        report(error, "error: a failure of Max-Q itself, not of the cluster; please report it")
        return EXIT_CRASH
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
