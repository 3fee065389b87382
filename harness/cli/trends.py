"""The command ``maxq trends``: what changed between the newest night and those before it."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from maxq.harness.cli.given.param_types import Name
from maxq.harness.contracts.terminal import echo, one_line
from maxq.harness.experiments.nights.changes import Change, changes
from maxq.harness.experiments.nights.nights import nights_of
from maxq.harness.experiments.nights.trends_page import page, preface
from maxq.histories.store import write_whole

PAGE = "trends.html"
WORSE, NOTHING = "worse", "nothing"
NOT_ALL = 2  # the exit code
EPILOG = """
\b
Examples:
  maxq trends runs/campaigns/nightly
  maxq trends nights
  maxq trends night-1 night-2 night-3 --page trends.html

\b
Exit codes: 0 nothing got worse, 1 something did, 2 nothing that was compared did, but not all
could be.
"""


@click.command(epilog=EPILOG)
@click.argument(
    "folders",
    metavar="FOLDER...",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option(
    "--fail-on",
    type=Name((WORSE, NOTHING)),
    default=WORSE,
    show_default=True,
    help="when the exit code is not 0",
)
@click.option(
    "--page",
    "to",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    show_default=f"{PAGE} in the first folder",
    help="where the page goes",
)
@click.option("--json", "as_json", is_flag=True, help="print the changes as JSON")
def trends(folders: Sequence[Path], fail_on: str, to: Path | None, as_json: bool) -> int:
    """Say what changed between the newest night of campaigns and the nights before it.

    FOLDER is a campaign's folder or a store, in which a pause of four hours ends a night, or holds
    a folder for each night. Of several each is a night. Stored verdicts are compared as they are.
    """
    nights = nights_of(folders)
    if not nights:
        raise click.UsageError(f"there is no run in {', '.join(map(str, folders))}")
    found = changes(nights)
    to = folders[0] / PAGE if to is None else to
    try:
        write_whole(to, page(nights, found).encode())
    except OSError as error:
        raise click.UsageError(f"--page: {to}: {error.strerror}") from None
    if as_json:
        echo(
            msgspec.json.format(
                msgspec.json.encode([c._asdict() for c in found]), indent=2
            ).decode()
        )
    else:
        _show(preface(nights, found), found)
        echo(f"page:    {to}")
    if fail_on == NOTHING:
        return 0
    kinds = {change.kind for change in found}
    return 1 if "worse" in kinds else NOT_ALL if "not compared" in kinds or len(nights) < 2 else 0


def _show(said: Sequence[str], found: Sequence[Change]) -> None:
    for line in said:
        echo(one_line(line))
    for change in found:
        echo(one_line(f"{change.kind}: {change.what}"))
        echo(one_line(f"  {change.settings}{f'; {change.run}' if change.run else ''}"))
