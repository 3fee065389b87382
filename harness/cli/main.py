"""The command line: ``maxq test`` and others; stored histories: `maxq.harness.cli.stored_runs`.

Results go to standard output, progress to standard error. Exit codes are Jepsen's: 0 valid, 1
invalid, 2 unknown, 254 bad arguments, 255 our own failure.
"""

import io
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import msgspec

from maxq.checkers.core.claims import CLAIMS
from maxq.harness.cli import hunt, runs, scenarios, schedules, scorecard, stored_runs, upgrade
from maxq.harness.cli.param_types import (
    EXPLAIN_OPTION,
    FAIL_ON_OPTION,
    RELEASE_OPTION,
    VERBOSE_OPTION,
    Alias,
    Commands,
    Duration,
    Faults,
    Name,
    Names,
    Rate,
    Setting,
    Target,
    usage,
)
from maxq.harness.cli.show import described, show
from maxq.harness.cli.stored_runs import explained
from maxq.harness.cluster.deployment import SetupFailed
from maxq.harness.contracts.environment import (
    EnvironmentLost,
    EnvironmentUnavailable,
    MissingCapability,
)
from maxq.harness.contracts.terminal import echo
from maxq.harness.environments import leaks
from maxq.harness.environments.choose import AUTO, ENVIRONMENTS, SIMULATED
from maxq.harness.experiments import campaign, scenario
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.shrink import NotRepeated
from maxq.harness.run import doctor, stored_run
from maxq.harness.run.judging import every_checker
from maxq.harness.run.process.signals import as_interrupts
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.run_plan import MAKERS as WORKLOADS
from maxq.harness.schedule.format import RATE_MAX, SEED_MAX, THREADS_MAX, ScheduleError
from maxq.harness.schedule.options import PROFILES, TOGETHER, Options
from maxq.harness.targets.rocketmq.releases import REFERENCE
from maxq.histories.op import HistoryError
from maxq.nemeses.catalogue import fault_names
from maxq.reference import mutants

EXIT_USAGE, EXIT_CRASH = 254, 255
MUTANTS = Path("mutants")
LISTED: dict[str, Callable[[], Sequence[str]]] = {
    "workloads": lambda: tuple(WORKLOADS),
    "nemeses": fault_names,
    "checkers": lambda: [c.name for c in every_checker()],
    "claims": lambda: [f"{c.id}: {c.promise}" for c in CLAIMS],
    "mutants": mutants.names,
    "scenarios": scenario.names,
    "upgrades": upgrade.names,
    "environments": lambda: ENVIRONMENTS,
    "profiles": lambda: tuple(PROFILES),
}


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="maxq")
def cli() -> None:
    """Prove what a RocketMQ cluster keeps and loses under faults."""


ENVIRONMENT = click.option(
    "--env",
    "--environment",
    "environment",
    type=Name(ENVIRONMENTS),
    default=AUTO,
    show_default=True,
    help="where the nodes run; auto: the first of these that can do what is asked, here and now",
)
CLUSTER = (
    click.option(
        "--target",
        type=Target(),
        default=REFERENCE,
        show_default=True,
        help="what runs: our reference, or rocketmq:RELEASE such as rocketmq:5.5.0",
    ),
    RELEASE_OPTION,
    click.option(
        "--profile",
        type=Alias(PROFILES),
        default="safe",
        show_default=True,
        help=f"what the brokers promise: {', '.join(PROFILES)}",
    ),
    click.option("--timing", type=Name(["fast", "stock"]), default="fast", show_default=True),
    click.option("--controllers", type=click.IntRange(1, 9), default=3, show_default=True),
    click.option("--namesrvs", type=click.IntRange(1, 9), default=1, show_default=True),
    click.option(
        "--embedded-controllers",
        "embedded",
        is_flag=True,
        help="controllers run in the name servers (enableControllerInNamesrv=true), of which there "
        "are then as many at least",
    ),
    click.option("--broker-sets", type=click.IntRange(1, 50), default=1, show_default=True),
    click.option(
        "--replicas",
        type=click.IntRange(1, 9),
        default=3,
        show_default=True,
        help="of each broker set",
    ),
    click.option(
        "--learners",
        type=click.IntRange(0, 8),
        default=0,
        show_default=True,
        help="of the replicas of each set, fewer than all: they copy and join no SyncStateSet",
    ),
    click.option(
        "--mutant",
        type=Name(mutants.names()),
        default=None,
        help="run a seeded bug, to see the checkers catch it",
    ),
    click.option(
        "--base-image",
        default="",
        help="an image of the docker engine to build on, instead of the public one",
    ),
    click.option(
        "--store",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path("runs"),
        show_default=True,
        help="where run folders go",
    ),
)
LOAD = (
    click.option(
        "--workload",
        type=Names(WORKLOADS),
        multiple=True,
        default=TOGETHER,
        show_default=True,
        help="what clients do; may be repeated",
    ),
    click.option(
        "--nemesis",
        type=Faults([*fault_names(), "all"]),
        multiple=True,
        default=("kill", "partition", "change-address"),
        show_default=True,
        help="faults, joined by commas or repeated; partition-then-kill strikes in that order",
    ),
    click.option(
        "--time-limit",
        type=Duration(),
        default="60s",
        show_default=True,
        help="how long clients and faults run",
    ),
    click.option(
        "--lull",
        type=Duration(),
        default=None,
        help="clients and the nemesis do nothing for so long, after each 15 s",
    ),
    click.option(
        "--rate",
        type=Rate(min=0.1, max=RATE_MAX),
        default=50.0,
        show_default=True,
        help="operations a second of each workload",
    ),
    click.option(
        "--concurrency",
        type=click.IntRange(2, THREADS_MAX),
        default=10,
        show_default=True,
        help="client threads of the workload queue",
    ),
    click.option(
        "--seed", type=click.IntRange(0, SEED_MAX), default=None, help="default: a random one"
    ),
    click.option(
        "--pinned",
        type=click.IntRange(0, THREADS_MAX),
        default=0,
        show_default=True,
        help="client threads of the workload queue that stay with one broker, whatever routes say",
    ),
    click.option(
        "--constant-latency",
        "--calm",
        "constant_latency",
        is_flag=True,
        help="simulated: every packet takes the same time",
    ),
    click.option(
        "--set",
        "keys",
        type=Setting(),
        multiple=True,
        help="one more setting of RocketMQ, such as broker:flushDiskType=SYNC_FLUSH",
    ),
    click.option(
        "--topic-attributes",
        default="",
        help="of the workloads' topics, such as +message.type=NORMAL",
    ),
    click.option(
        "--ending",
        type=Name(["current", "each-replica"]),
        default="current",
        show_default=True,
        help="read every queue from the master that there is at the end, or make each replica "
        "master in turn",
    ),
)


def with_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give a command these options, in this order."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@cli.command()
@with_options(ENVIRONMENT, *CLUSTER, *LOAD)
@click.option("--keep", is_flag=True, help="leave a cluster up whose run was not valid")
@click.option("--plan", is_flag=True, help="say what would be run, and run nothing")
@FAIL_ON_OPTION
@EXPLAIN_OPTION
@VERBOSE_OPTION
@click.option("--json", "as_json", is_flag=True, help="print the verdict as JSON")
def test(**given: Any) -> int:
    """Run workloads under faults and judge what was recorded."""
    store, as_json, plan = (given.pop(k) for k in ("store", "as_json", "plan"))
    verbose = given.pop("verbose")
    fail_on, explain = given.pop("fail_on") or "", given.pop("explain")
    context = RunContext(keep=given.pop("keep"), base_image=given.pop("base_image"))
    options = resolved(given, doctor.Place(base_image=context.base_image, store=store))
    if explain and options.environment != "simulated":
        raise click.UsageError("--explain needs --env simulated, where a run can be repeated")
    if plan:
        echo(msgspec.json.format(msgspec.json.encode(options), indent=2).decode())
        echo(options.command())
        return 0
    judged = stored_run.run_test(options, store, quiet=as_json, verbose=verbose, context=context)
    judged = msgspec.structs.replace(judged, fail_on=fail_on)
    judged = explained(judged) if explain else judged
    show(judged, as_json=as_json, verbose=verbose)
    runs.index_anew(store)
    if judged.trouble is not None:
        report(judged.trouble)
    return judged.exit_code


@cli.command()
@with_options(ENVIRONMENT, *CLUSTER)
def up(**given: Any) -> int:
    """Start a cluster, say how to reach it, and keep it up until interrupted. No faults."""
    place = doctor.Place(base_image=given.pop("base_image"), store=given.pop("store"))
    given |= {"workload": ("queue",), "nemesis": ("none",), "time_limit": 1, "seed": 0}
    options = resolved({**given, "rate": 1.0, "concurrency": 2}, place, lasting=True)
    if options.environment == SIMULATED:
        raise click.UsageError("up needs --env docker or local: nothing is simulated but runs")
    stored_run.run_up(options, place.store, RunContext(keep=False, base_image=place.base_image))
    return 0


def resolved(given: dict[str, Any], place: doctor.Place, *, lasting: bool = False) -> Options:
    """Options as asked for, with stand-ins for what the environment cannot do; or a usage error."""
    with usage():
        options = stored_run.options_from(given, place, lasting=lasting)
    return doctor.with_stand_ins(options, place, doctor.aloud)


@cli.command("campaign")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="where the campaign's folder goes",
)
@click.option("--fresh", is_flag=True, help="forget what was done before, and begin anew")
@click.option("--budget", type=Duration(), default=None, help="begin no run after this long")
def campaign_command(file: Path, store: Path, fresh: bool, budget: int | None) -> int:
    """Run a campaign: a TOML file of cells, or one that comes with Max-Q, such as acceptance;
    `mutants` runs every seeded bug in the simulator until it is caught.

    The same command again goes on where the last one was cut off.
    """
    if file == MUTANTS:
        return schedules.run_mutants(store, fresh=fresh, budget_ns=budget)
    try:
        found = campaign.read_campaign(file)
        planned = Duration().convert(found.budget, None, None) if found.budget else None
    except campaign.CampaignError as error:
        raise click.UsageError(str(error)) from None
    limit = budget if budget is not None else planned
    folder = store.resolve() / "campaigns" / found.name
    if fresh and folder.exists():
        (folder / JOURNAL).unlink(missing_ok=True)
    done = campaign.run_campaign(found, folder, budget_ns=limit, say=echo)
    echo(campaign.table(done))
    echo(f"JUnit:   {folder / campaign.JUNIT}")
    whole = len(done) == len(campaign.jobs_of(found))
    return 1 if any(not d.passed for d in done) else 0 if whole else 2


@cli.command("list")
@click.argument("kind", type=Name(LISTED))
def list_command(kind: str) -> int:
    """List what there is of a kind, a line each: workloads, nemeses, checkers and so on."""
    for line in LISTED[kind]():
        echo(line)
    return 0


@cli.command()
def clean() -> int:
    """Remove what runs that died have left behind: in the docker engine, and disks.

    Exit code 1 if something could not be removed.
    """
    done = leaks.clean()
    for what in done.removed:
        echo(f"removed {what}")
    for what in done.kept:
        echo(f"could not remove {what}")
    for what in done.unseen:
        echo(f"not looked at: {what}")
    if done.removed or done.kept:
        echo(f"{len(done.removed)} left-overs removed, {len(done.kept)} not")
    else:
        echo("nothing was left behind")
    return 1 if done.kept else 0


cli.add_command(stored_runs.check)
cli.add_command(stored_runs.export)
cli.add_command(schedules.replay)
cli.add_command(schedules.simulate)
cli.add_command(schedules.shrink)
cli.add_command(schedules.explore)
cli.add_command(scenarios.scenario_command)
cli.add_command(scenarios.bisect_command)
cli.add_command(scorecard.scorecard)
cli.add_command(hunt.hunt)
cli.add_command(upgrade.upgrade_command)
cli.add_command(runs.runs)
cli.add_command(runs.serve)


@cli.command("doctor")
@with_options(*CLUSTER, *LOAD)
def doctor_command(**given: Any) -> int:
    """Say what this machine can host of `maxq test` with these options, by trying it."""
    place = doctor.Place(base_image=given.pop("base_image"), store=given.pop("store"))
    with usage():
        wanted = stored_run.asked_from({**given, "environment": AUTO})
    echo("\n".join(doctor.diagnosis(wanted, place, doctor.aloud)))
    why = stored_runs.spark_missing()
    echo(f"{'no ' if why else 'yes'} spark: {why or '`maxq check --engine spark` works'}")
    return 0


def report(error: BaseException, text: str = "") -> None:
    """Say on standard error what went wrong, and where the run is."""
    echo(text or f"error: {described(error)}", err=True)
    for note in getattr(cause(error), "__notes__", ()):
        echo(note, err=True)


def cause(error: BaseException) -> BaseException:
    """What happened, without click's own wrapping of an interrupt."""
    wrapped = error.__cause__ if isinstance(error, click.Abort) else None
    return wrapped or error


def main() -> None:
    """The entry point; maps every way to end to its exit code."""
    as_interrupts()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a terminal that lacks a letter is no reason to fail
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run_cli(sys.argv[1:]))


def run_cli(argv: list[str]) -> int:
    """Run a command line; returns its exit code."""
    try:
        code = cli.main(args=argv, prog_name="maxq", standalone_mode=False)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)
        echo(shown.getvalue().rstrip("\n"), err=True)
        return EXIT_USAGE
    except (HistoryError, MissingCapability, ScheduleError, NotRepeated) as error:
        report(error)
        return EXIT_USAGE
    except (EnvironmentUnavailable, EnvironmentLost, SetupFailed, OSError) as error:
        report(error)
        return EXIT_CRASH
    except (KeyboardInterrupt, click.Abort) as error:
        by = "".join(f" by {name}" for name in cause(error).args)
        report(error, f"interrupted{by}; what was recorded can be judged by `maxq check`")
        return EXIT_CRASH
    except Exception as error:
        echo(traceback.format_exc(), err=True)
        report(error, "error: a failure of Max-Q itself, not of the cluster; please report it")
        return EXIT_CRASH
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
