"""The command line: ``maxq test`` and others, each imported when it is asked for.

Results go to standard output, progress to standard error. Exit codes are Jepsen's: 0 valid, 1
invalid, 2 unknown, 254 bad arguments, 255 our own failure; 141 where the reader has gone, and 128
and the signal's number where a signal cut it off.
"""

import io
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click

from maxq.harness.cli.given.lazy import CLOSED, Commands, Place, silence
from maxq.harness.contracts.terminal import echo, pasted
from maxq.harness.run.process.signals import as_interrupts

EXIT_USAGE = 254
COMPLETE, COMPLETED = "_MAXQ_COMPLETE", "_complete"  # click's; its script for a shell sets it
HERE = "maxq.harness.cli"
SECTIONS: Mapping[str, Mapping[str, Place]] = {
    "One run": {
        "test": Place(f"{HERE}.testing", "test",
                      "Run workloads under faults and judge what was recorded."),
        "check": Place(f"{HERE}.stored_runs", "check",
                       "Judge a stored run again, or a history that another tool recorded."),
        "replay": Place(f"{HERE}.schedules", "replay",
                        "Repeat a run, or what a schedule says."),
        "shrink": Place(f"{HERE}.schedules", "shrink",
                        "Make the schedule of a failing run as small as can be."),
        "export": Place(f"{HERE}.stored_runs", "export",
                        "Write a history as EDN (for Jepsen), JSON lines or Parquet."),
        "generate-history": Place(f"{HERE}.histories.generating", "generate_history",
                                  "Generate a history, with the anomalies you ask for."),
    },
    "Many runs": {
        "compact": Place(f"{HERE}.histories.compacting", "compact_command",
                         "Put many runs into one dataset, which is judged at once."),
        "runs": Place(f"{HERE}.runs", "runs",
                      "List stored runs, newest first; or put two of them beside each other."),
        "serve": Place(f"{HERE}.runs", "serve",
                       "Serve the list and the reports on the loopback, read-only."),
        "trends": Place(f"{HERE}.trends", "trends",
                        "Say what changed between the newest night and those before it."),
        "losses": Place(f"{HERE}.losses", "losses",
                        "Show what a cluster with your settings loses, fault by fault."),
        "campaign": Place(f"{HERE}.campaigns", "campaign_command",
                          "Run a campaign: a TOML file of runs."),
        "simulate": Place(f"{HERE}.schedules", "simulate",
                          "Run many seeds in the simulator, each with a draw of its own."),
        "explore": Place(f"{HERE}.schedules", "explore",
                         "Run the same random schedules on real machines, one by one."),
    },
    "A cluster that runs already": {
        "cluster": Place(f"{HERE}.clusters.watching", "cluster",
                         "Find its nodes, by questions that change nothing."),
        "watch": Place(f"{HERE}.clusters.watching", "watch",
                       "Watch it, and judge what is seen; no load, no faults."),
    },
    "Releases of Apache RocketMQ": {
        "scorecard": Place(f"{HERE}.scorecard", "scorecard",
                           "Run one battery on several releases, and compare what each keeps."),
        "hunt": Place(f"{HERE}.hunt", "hunt",
                      "Look for bugs of a release with random schedules."),
        "scenario": Place(f"{HERE}.scenarios", "scenario_command",
                          "Show a known bug of one release, and its absence in another."),
        "bisect": Place(f"{HERE}.scenarios", "bisect_command",
                        "Find between which two releases a scenario begins to be bad."),
        "upgrade": Place(f"{HERE}.upgrade", "upgrade_command",
                         "Try clusters of two releases, and the way from one to the other."),
    },
    "This machine": {
        "list": Place(f"{HERE}.listing", "list_command",
                      "List the kinds of things there are, or one kind, a line each."),
        "schema": Place(f"{HERE}.histories.schemas", "schema_command",
                        "Print the JSON schema of results, schedules or campaigns."),
        "doctor": Place(f"{HERE}.machine", "doctor_command",
                        "Try which environments work here, and say how to fix the others."),
        "up": Place(f"{HERE}.machine", "up",
                    "Start a cluster without faults, and keep it until interrupted."),
        "spark": Place(f"{HERE}.clusters.spark_cluster", "spark",
                       "Run a cluster of Spark on this machine, which judges histories."),
        "clean": Place(f"{HERE}.machine", "clean",
                       "Remove what runs that died have left behind."),
    },
}  # fmt: skip
EPILOG = """
\b
Examples:
  maxq test                                      60 s of faults, where this machine can
  maxq test --env simulated --profile default    in the simulator, under RocketMQ's defaults
  maxq test --target rocketmq:5.5.0              against Apache RocketMQ
  maxq check runs/latest                         judges the newest run again
  maxq COMMAND --help                            what a command takes

\b
Exit codes: 0 valid, 1 invalid, 2 not all judged, 254 bad arguments, 255 a failure of Max-Q,
130 or 143 cut off by Control-C or SIGTERM.
"""

# What one reads who has just installed it: a wheel can print nothing when it is installed.
FIRST = "Max-Q tests whether a RocketMQ 5 cluster keeps the messages that it acknowledged."
NEXT = (
    ("maxq test", "test our reference implementation for a minute"),
    ("maxq test --target rocketmq:5.5.0", "test Apache RocketMQ; needs Java and Maven"),
    ("maxq losses --broker-conf broker.conf", "show what your settings lose"),
    ("maxq doctor", "say which environments work on this machine"),
    ("maxq --help", "list all commands"),
)


def first_screen() -> str:
    """What Max-Q is, and the commands to go on with, as they can be pasted here."""
    commands = [pasted(command) for command, _ in NEXT]
    width = max(map(len, commands))
    rows = zip(commands, NEXT, strict=True)
    lines = [f"  {command:{width}}  {about}" for command, (_, about) in rows]
    return "\n".join([FIRST, "", "Next:", *lines])


@click.group(
    cls=Commands,
    sections=SECTIONS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="maxq")
def cli() -> None:
    """Prove what a RocketMQ cluster keeps and loses under faults."""


def main() -> None:
    """The entry point; maps every way to end to its exit code."""
    as_interrupts()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a terminal that lacks a letter is no reason to fail
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = completed() if COMPLETED in os.environ.get(COMPLETE, "") else run_cli(sys.argv[1:])
    except (BrokenPipeError, SystemExit) as error:  # also of a complaint, or of rich
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        silence()
        code = CLOSED
    sys.exit(code)


def completed() -> int:
    """Answer a shell that asks what may stand where."""
    from maxq.harness.cli.given.completion import answer

    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    answer(
        cli,
        cli.list_commands(click.Context(cli)),
        home / "maxq" / "completion",
        os.environ[COMPLETE].removesuffix(COMPLETED),
    )
    return 0


def run_cli(argv: list[str]) -> int:
    """Run a command line; returns its exit code."""
    if not argv:
        echo(first_screen(), err=True)
        return EXIT_USAGE
    try:
        code = cli.main(args=argv, prog_name="maxq", standalone_mode=False)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        echo(shown.getvalue().rstrip("\n"), err=True)
        return EXIT_USAGE
    except (Exception, KeyboardInterrupt) as error:
        from maxq.harness.cli.given.failures import reported

        return reported(error, argv)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
