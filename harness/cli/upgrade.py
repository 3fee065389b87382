"""The command ``maxq upgrade``."""

from pathlib import Path

import click

from harness.cli.param_types import usage
from harness.cli.scenarios import BASE_IMAGE, BUDGET, ENVIRONMENT
from harness.cli.schedules import STORE
from harness.contracts.terminal import echo
from harness.experiments.engine import SPENT
from harness.experiments.upgrade import Upgrades, cases, chosen
from harness.experiments.upgrade_page import page


@click.command("upgrade")
@click.argument("names", metavar="CASES...", nargs=-1, required=True)
@click.option("--times", type=click.IntRange(1, 20), default=1, show_default=True,
              help="runs of each case")  # fmt: skip
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="write all that is known of all cases as Markdown",
)
@ENVIRONMENT
@BUDGET
@BASE_IMAGE
@STORE
def upgrade_command(
    names: tuple[str, ...],
    times: int,
    write: Path | None,
    environment: str,
    budget: int | None,
    base_image: str,
    store: Path,
) -> int:
    """Try which releases work with one another, and upgrades between them.

    CASES are names, beginnings of names (`rolling/5.4.0`), or `all`; `maxq list upgrades` has them.
    The same command again goes on where the last one was cut off. Exit code 2: runs are missing.
    """
    with usage():
        wanted = chosen(names)
    folder = store.resolve() / "upgrades" / environment
    upgrades = Upgrades(folder, environment=environment, base_image=base_image, say=echo)
    try:
        whole = upgrades.run(wanted, times=times, budget_ns=budget)
    finally:
        if write is not None:
            write.write_text(page(cases(), upgrades.of))
            echo(f"written: {write}")
    if not whole:
        echo(SPENT)
    return 0 if whole else 2
