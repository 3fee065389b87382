"""How a command fails: what is said of an error, and the exit code. Imported when one does."""

import shlex
import traceback
from collections.abc import Sequence

import click

from maxq.harness.cli.show import described
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import (
    EnvironmentLost,
    EnvironmentUnavailable,
    MissingCapability,
)
from maxq.harness.contracts.terminal import NAME, echo, pasted
from maxq.harness.run.process.signals import ORDERS
from maxq.harness.run.replay import NotRepeated
from maxq.harness.schedule.format import ScheduleError
from maxq.histories.op import HistoryError
from maxq.spark_checkers.jvm import SparkMissing
from maxq.spark_checkers.session import SparkFailed

EXIT_USAGE, EXIT_CRASH = 254, 255
DEBUG = "--debug"  # of `maxq check`: all that there is about a failure
FRESH = "--fresh"  # forget what is stored
# Commands of many runs: the same command again goes on with what is stored.
RESUMED = frozenset(
    ("bisect", "campaign", "explore", "hunt", "losses", "scenario", "scorecard", "shrink",
     "simulate", "upgrade")
)  # fmt: skip
AFRESH = frozenset(("compact",))  # the same command again starts over


def report(error: BaseException, text: str = "") -> None:
    """Say on standard error what went wrong, and where the run is."""
    echo(text or f"error: {described(error)}", err=True)
    for note in getattr(_cause(error), "__notes__", ()):
        echo(note, err=True)


def reported(error: BaseException, argv: Sequence[str]) -> int:
    """Say what went wrong with a command line; the exit code."""
    if isinstance(error, SparkMissing | SparkFailed) and DEBUG in argv:
        echo("".join(traceback.format_exception(error)), err=True)
    if isinstance(
        error, HistoryError | MissingCapability | ScheduleError | NotRepeated | SparkMissing
    ):
        report(error)
        return EXIT_USAGE
    if isinstance(
        error, EnvironmentUnavailable | EnvironmentLost | SetupFailed | SparkFailed | OSError
    ):
        report(error)
        return EXIT_CRASH
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return _interrupted(error, argv)
    echo("".join(traceback.format_exception(error)), err=True)
    report(error, "error: a failure of Max-Q itself, not of the cluster; please report it")
    return EXIT_CRASH


def _interrupted(error: BaseException, argv: Sequence[str]) -> int:
    """Say that a signal cut the command off, and what to do; the exit code, of that signal."""
    by = f"interrupted by {ORDERS.signal.name}"
    if (RESUMED | AFRESH).isdisjoint(argv[:1]):
        report(error, f"{by}; what was recorded can be judged by `maxq check`")
    else:
        again = pasted(shlex.join([NAME, *(word for word in argv if word != FRESH)]))
        echo(f"{by}\ngo on:   {again}", err=True)
    return ORDERS.exit_code


def _cause(error: BaseException) -> BaseException:
    """What happened, without click's own wrapping of an interrupt."""
    wrapped = error.__cause__ if isinstance(error, click.Abort) else None
    return wrapped or error
