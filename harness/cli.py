"""The command line: ``maxq test``, ``maxq check``, ``maxq doctor``.

Results go to standard output, progress to standard error. Exit codes are Jepsen's: 0 valid, 1
invalid, 2 unknown, 254 bad arguments, 255 our own failure.
"""

import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from checkers.api import Anomaly
from checkers.faults import faults
from checkers.runner import Results
from harness import doctor, runs
from harness.deployment import SetupFailed
from harness.environments.api import EnvironmentUnavailable, MissingCapability
from harness.lifecycle import FAULTS, WORKLOADS, Options, judge_stored
from histories.op import HistoryError
from histories.store import open_run
from reference import mutants

EXIT_USAGE, EXIT_CRASH = 254, 255
SHOWN_MAX = 3  # findings of one name that are told on the terminal
_UNITS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


class Duration(click.ParamType[int]):
    """A duration with its unit, such as ``60s``; in ns."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = _DURATION.fullmatch(str(value))
        if found is None or float(found[1]) == 0:
            self.fail(f"{value!r} is no duration; write a number and a unit: 500ms, 30s, 2m", param)
        return round(float(found[1]) * _UNITS[found[2]])


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="maxq")
def cli() -> None:
    """Prove what a RocketMQ cluster keeps and loses under faults."""


@cli.command()
@click.option(
    "--environment",
    type=click.Choice(["auto", "simulated", "local"]),
    default="auto",
    show_default=True,
    help="where the nodes run; auto: local if it can, else simulated",
)
@click.option("--workload", type=click.Choice(WORKLOADS), default="queue", show_default=True)
@click.option(
    "--nemesis",
    "nemesis",
    type=click.Choice([*FAULTS, "all"]),
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
    type=click.FloatRange(min=0.1, max=100_000),
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
@click.option("--broker-sets", type=click.IntRange(1, 50), default=3, show_default=True)
@click.option(
    "--replicas",
    type=click.IntRange(1, 1),
    default=1,
    show_default=True,
    help="of each broker set; replication comes later",
)
@click.option(
    "--profile",
    default="P-ALL",
    show_default=True,
    type=click.Choice(["P-SAFE", "P-ALL", "P-NUM", "P-DEFAULT", "P-UNCLEAN"]),
)
@click.option("--timing", type=click.Choice(["fast", "stock"]), default="fast", show_default=True)
@click.option(
    "--mutant",
    type=click.Choice(mutants.names()),
    default=None,
    help="run a seeded bug, to see the checkers catch it",
)
@click.option("--seed", type=click.IntRange(min=0), default=None, help="default: a random one")
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
    options = runs.options_from(given)
    run, results = runs.run_test(options, store, quiet=as_json)
    show(run.path, results, options, as_json=as_json)
    return results.exit_code


@cli.command()
@click.argument("run", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--allow-truncated", is_flag=True, help="judge the readable part of a damaged history"
)
@click.option("--json", "as_json", is_flag=True, help="print the verdict as JSON")
def check(run: Path, allow_truncated: bool, as_json: bool) -> int:
    """Judge a stored run (its folder) again, also one whose harness was killed."""
    results, options, ended = judge_stored(run, allow_truncated=allow_truncated)
    if not ended:
        click.echo("the run did not end properly; judged as far as it was recorded", err=True)
    show(run.resolve(), results, options, as_json=as_json)
    return results.exit_code


@cli.command("doctor")
def doctor_command() -> int:
    """Say what this machine can host, by trying it."""
    findings = doctor.examine()
    for finding in findings:
        click.echo(f"{'yes' if finding.works else 'no ':3} {finding.environment}: {finding.text}")
    return 0


def show(path: Path, results: Results, options: Options, *, as_json: bool) -> None:
    """Print a verdict: for people, or the JSON of the design's section 5."""
    plain = results.to_json()
    anomalies = [a for v in results.verdicts for a in v.anomalies]
    if as_json:
        document = {
            "run": str(path),
            "valid": results.valid,
            "claims": plain["claims"],
            "verdicts": plain["verdicts"],
            "anomalies": [msgspec.to_builtins(a, str_keys=True) for a in anomalies],
            "faults": msgspec.to_builtins(faults(open_run(path).history), str_keys=True),
            "repeat": options.command(),
        }
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    for verdict in results.verdicts:
        counts = ", ".join(f"{k} {v}" for k, v in verdict.counts.items())
        click.echo(f"{verdict.checker}: {word(verdict.valid)}  {counts}")
        if verdict.reason:
            click.echo(f"  {verdict.reason}")
    show_anomalies(anomalies)
    click.echo(f"\nverdict: {word(results.valid)}")
    click.echo(f"run:     {path}")
    click.echo(f"repeat:  {options.command()}")


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
            click.echo(f"\n… and {len(found) - SHOWN_MAX} more {name}, in results.json")


def word(valid: object) -> str:
    """A verdict in one word."""
    return {True: "valid", False: "INVALID"}.get(valid, "unknown")  # type: ignore[call-overload, no-any-return]


def main() -> None:
    """The entry point; maps every way to end to its exit code."""
    sys.exit(run_cli(sys.argv[1:]))


def run_cli(argv: list[str]) -> int:
    """Run a command line; returns its exit code."""
    try:
        code = cli.main(args=argv, standalone_mode=False)
    except click.UsageError as error:
        error.show(sys.stderr)
        return EXIT_USAGE
    except click.exceptions.Exit as error:
        return error.exit_code
    except (HistoryError, MissingCapability) as error:
        click.echo(f"error: {error}", err=True)
        return EXIT_USAGE
    except (EnvironmentUnavailable, SetupFailed) as error:
        click.echo(f"error: {error}", err=True)
        return EXIT_CRASH
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; what was recorded can be judged by `maxq check`", err=True)
        return EXIT_CRASH
    except OSError as error:
        click.echo(f"error: {error}; what was recorded can be judged by `maxq check`", err=True)
        return EXIT_CRASH
    except Exception:
        traceback.print_exc()
        click.echo(
            "error: a failure of Max-Q itself, not of the cluster; please report it", err=True
        )
        return EXIT_CRASH
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
