"""How a command fails: what is said of an error, and the exit code. Imported when one does."""

import traceback

import click

from maxq.harness.cli.given.ticker import GO_ON
from maxq.harness.cli.show import described
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import (
    EnvironmentLost,
    EnvironmentUnavailable,
    MissingCapability,
)
from maxq.harness.contracts.terminal import echo
from maxq.harness.experiments.shrink import NotRepeated
from maxq.harness.schedule.format import ScheduleError
from maxq.histories.op import HistoryError

EXIT_USAGE, EXIT_CRASH = 254, 255


def report(error: BaseException, text: str = "") -> None:
    """Say on standard error what went wrong, and where the run is."""
    echo(text or f"error: {described(error)}", err=True)
    for note in getattr(_cause(error), "__notes__", ()):
        echo(note, err=True)


def reported(error: BaseException) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(error, HistoryError | MissingCapability | ScheduleError | NotRepeated):
        report(error)
        return EXIT_USAGE
    if isinstance(error, EnvironmentUnavailable | EnvironmentLost | SetupFailed | OSError):
        report(error)
        return EXIT_CRASH
    if isinstance(error, KeyboardInterrupt | click.Abort):
        by = "".join(f" by {name}" for name in _cause(error).args)
        resumed = any(note.startswith(GO_ON) for note in getattr(_cause(error), "__notes__", ()))
        more = "" if resumed else "; what was recorded can be judged by `maxq check`"
        report(error, f"interrupted{by}{more}")
        return EXIT_CRASH
    echo("".join(traceback.format_exception(error)), err=True)
    report(error, "error: a failure of Max-Q itself, not of the cluster; please report it")
    return EXIT_CRASH


def _cause(error: BaseException) -> BaseException:
    """What happened, without click's own wrapping of an interrupt."""
    wrapped = error.__cause__ if isinstance(error, click.Abort) else None
    return wrapped or error
