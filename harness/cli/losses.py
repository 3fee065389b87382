"""The command ``maxq losses``."""

from typing import Any

import click
import msgspec

from maxq.checkers.core.promises import DEFAULTS, SYNCED
from maxq.checkers.judgement import runner
from maxq.harness.cli.given.asked import ALL, flat
from maxq.harness.cli.given.options import ENVIRONMENT, cluster, load
from maxq.harness.cli.given.param_types import TRIES_MAX
from maxq.harness.cli.given.sections import Sectioned, section
from maxq.harness.cli.given.ticker import Steps, Ticker
from maxq.harness.cli.testing import resolved, said_of_files
from maxq.harness.contracts.target import SHIPPED
from maxq.harness.contracts.terminal import echo
from maxq.harness.environments.choose import SIMULATED
from maxq.harness.experiments.losses import FOLDER, Losses, table, with_rows_of_their_own
from maxq.harness.run import doctor
from maxq.harness.schedule.options import Options
from maxq.histories.store import write_whole
from maxq.nemeses.catalogue import NO_FAULT

MARKDOWN = "losses.md"
SEED = 1  # where none is asked for: the same command goes on
EPILOG = """
\b
Examples:
  maxq losses --broker-conf broker.conf --env simulated
  maxq losses --broker-conf broker.conf --target rocketmq:5.5.0 --time-limit 60s
"""
FIRST = (
    *("environment", "target", "broker_conf", "controller_conf", "keys", "profile", "mode"),
    *("nemesis", "time_limit", "timing", "seed", "tries"),
)


@click.command(cls=Sectioned, epilog=EPILOG, first=FIRST)
@section("Where", ENVIRONMENT)
@cluster()
@load(workload=("queue",), nemesis=(NO_FAULT,), shown="each that the environment can do")
@section(
    "Advice",
    click.option(
        "--try-fix",
        "tries",
        type=click.IntRange(0, TRIES_MAX),
        default=None,
        show_default="1 in the simulator, else 0",
        help="how often to try each setting that might have kept what was lost",
    ),
)
def losses(**given: Any) -> int:
    """Show what a cluster with your settings loses: one run for each fault, and one table.

    The same command again resumes. The table is printed, and stored beside the runs.
    """
    place = doctor.Place(base_image=given.pop("base_image"), store=given.pop("store"))
    given["seed"] = SEED if given["seed"] is None else given["seed"]
    if flat(given["nemesis"]) == [NO_FAULT]:
        given["nemesis"] = (ALL,)
    tries, every = given.pop("tries"), flat(given["nemesis"]) == [ALL]
    options = resolved(given, place)
    if every:
        options = with_rows_of_their_own(options)
    tries = int(options.environment == SIMULATED) if tries is None else tries
    # Faults with power would have brokers sync, which only they who ask for that do.
    if options.profile != SHIPPED:
        keys = {SYNCED.key: DEFAULTS[SYNCED.key], **options.keys}
        options = msgspec.structs.replace(options, keys=keys)
    folder = place.store.resolve() / FOLDER
    found = Losses(folder, options, base_image=place.base_image, tries=tries)
    for line in said_of_files(options):
        echo(line, err=True)
    steps = Steps("faults", len(found.rows()))

    def progress() -> str:
        rows, left = found.rows(), found.missing()
        worst = max(rows, key=lambda row: row.messages.lost or 0, default=None)
        lost = worst.messages.lost if worst else 0
        most = f"most lost by {worst.fault}: {lost:,}" if worst and lost else ""
        now = f"now: {left[0] if left else found.to_try() or 'done'}"
        return steps.line(len(rows), len(found.faults), most, now)

    def show() -> None:
        text = "\n".join((
            f"{options.running} in {options.environment}, {_settings(options)}; "
            f"{options.timing} timing, {options.time_limit_ns // 1_000_000_000} s a fault", "",
            *table(found.rows()),
            *found.advice(),
        ))  # fmt: skip
        write_whole(place.store.resolve() / FOLDER / MARKDOWN, f"{text}\n".encode())
        echo(text)

    with Ticker(progress, show) as ticker:
        found.run(ticker.say)
    show()
    rows = found.rows()
    return runner.exit_code([r.valid for r in rows], crashed=any(r.error for r in rows))


def _settings(options: Options) -> str:
    """What of the settings is of interest beside a table: those of the command, or the files'."""
    keys = ", ".join(f"{key}={value}" for key, value in sorted(options.keys.items()))
    if options.profile == SHIPPED:
        return f"as shipped, with {keys}"
    return f"{options.profile} with {keys}"
