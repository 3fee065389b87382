"""Commands on scenarios: ``maxq scenario``, ``maxq bisect``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from maxq.checkers.core.titles import titled
from maxq.harness.cli.given.param_types import Duration, EnvironmentName, Target
from maxq.harness.cli.given.ticker import Steps, Ticker
from maxq.harness.cli.schedules import STORE
from maxq.harness.cli.show import show
from maxq.harness.contracts.terminal import echo
from maxq.harness.environments.choose import DOCKER, LOCAL
from maxq.harness.experiments.scenarios import kept_scenario, scenario
from maxq.harness.experiments.scenarios.bisect import Bisection, between
from maxq.harness.experiments.scenarios.kept_scenario import (
    KeptScenario,
    gaps,
    kept_scenario_of,
    misses,
    run_kept,
)
from maxq.harness.experiments.scenarios.scenario import (
    HEAD,
    TRIALS_MAX,
    Shown,
    Trials,
    ahead,
    scenario_of,
    show_scenario,
    so_far,
)

PREFIX = "rocketmq:"
ENVIRONMENT = click.option(
    "--env",
    "environment",
    type=EnvironmentName((DOCKER, LOCAL)),
    default="local",
    show_default=True,
    help="where the nodes run",
)
BUDGET = click.option(
    "--budget", type=Duration(), default=None, help="begin no run after this long"
)
RESUME = click.option(
    "--resume/--fresh",
    default=True,
    show_default=True,
    help="resume, or discard what is stored",
)
BASE_IMAGE = click.option("--base-image", default="", help="a Docker image to build on")


class Release(Target):
    """A release, by itself or as a target."""

    name = "release"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        return super().convert(text if text.startswith(PREFIX) else f"{PREFIX}{text}", param, ctx)


def scenario_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Those that come with Max-Q, for a shell."""
    known = (*kept_scenario.names(), *scenario.names())
    return [name for name in known if name.startswith(incomplete)]


@click.command("scenario")
@click.argument("scenarios", nargs=-1, required=True, shell_complete=scenario_names)
@ENVIRONMENT
@click.option(
    "--times",
    type=click.IntRange(1, TRIALS_MAX),
    default=TRIALS_MAX,
    show_default=True,
    help="trials of a known bug at most, of which three must be bad",
)
@BASE_IMAGE
@STORE
def scenario_command(
    scenarios: tuple[str, ...], environment: str, times: int, base_image: str, store: Path
) -> int:
    """Show that a release of RocketMQ has a known bug and another has not, or what a cluster keeps.

    `maxq list scenarios` names those that come with Max-Q. A schedule's file works too, if its
    header says what it shows. A known bug is tried on both releases; what is kept takes one run.
    The same command again resumes.
    """
    kept = [found for name in scenarios if (found := kept_scenario_of(name)) is not None]
    codes = [_show_kept(one, store, environment, base_image) for one in kept]
    known = [name for name in scenarios if kept_scenario_of(name) is None]
    if known:
        codes.append(_show_known(known, store, environment, base_image, times))
    return max(codes)


def _show_kept(one: KeptScenario, store: Path, environment: str, base_image: str) -> int:
    folder = store.resolve() / "scenarios" / one.name
    judged = run_kept(one, folder, environment=environment, base_image=base_image)
    show(judged, as_json=False, verbose=False)
    for line in gaps(one.keeps, judged.results):
        echo(f"{one.name}: {line}")
    missing = [*misses(one.keeps, judged.results)]
    for text in missing:
        echo(f"{one.name}: {text}")
    if missing:
        echo(f"{one.name}: not shown")
        return 1 if judged.results.valid is False else 2
    times = ", ".join(f"{name} {judged.results.counts[name]:,}" for name in one.keeps.counts)
    echo(f"{one.name}: kept: {titled(one.keeps.claims, len(one.keeps.claims))}; counted {times}")
    return 0


def _show_known(
    names: Sequence[str], store: Path, environment: str, base_image: str, times: int
) -> int:
    rows: list[Shown] = []
    of_all = [trials_of(name, store, environment, base_image) for name in names]

    def far() -> tuple[int, int]:
        counts = [ahead(trials, times=times) for trials in of_all]
        return sum(done for done, _ in counts), sum(most for _, most in counts)

    steps = Steps("trials", far()[0], at_most=True)

    def line() -> str:
        return steps.line(*far(), so_far(of_all[min(len(rows), len(of_all) - 1)]))

    with Ticker(line) as ticker:
        for trials in of_all:
            trials.say = ticker.say
            rows.append(show_scenario(trials, times=times))
    for text in (*HEAD, *(row.said for row in rows)):
        echo(text)
    return 0 if all(row.holds for row in rows) else 2


@click.command("bisect")
@click.argument("scenario", shell_complete=scenario_names)
@click.option("--good", type=Release(), required=True, help="such as 5.3.1, older or newer")
@click.option("--bad", type=Release(), required=True, help="such as 5.5.0")
@ENVIRONMENT
@BASE_IMAGE
@STORE
def bisect_command(
    scenario: str, good: str, bad: str, environment: str, base_image: str, store: Path
) -> int:
    """Find between which two releases a scenario begins to be bad, or ends.

    The same command again resumes.
    """
    try:
        targets = between(good, bad)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    trials = trials_of(scenario, store, environment, base_image)
    bisection, steps = Bisection(trials, targets), Steps("releases", at_most=True)

    def line() -> str:
        return steps.line(bisection.judged, bisection.most, bisection.so_far())

    with Ticker(line) as ticker:
        trials.say = ticker.say
        found = bisection.find(ticker.say)
    if found.open:
        echo(f"not found: {found.open}")
        return 2
    echo(f"{found.good} is good, {found.bad} is bad")
    return 0


def trials_of(name: str, store: Path, environment: str, base_image: str) -> Trials:
    """The trials of a scenario that a store has."""
    scenario = scenario_of(name)
    return Trials(
        scenario,
        store.resolve() / "scenarios" / scenario.name,
        environment=environment,
        base_image=base_image,
    )
