"""The commands ``maxq cluster`` and ``maxq watch``: clusters that run already."""

import asyncio
from pathlib import Path
from typing import Any

import click

from maxq.harness.cli.given.param_types import Duration, usage
from maxq.harness.cli.runs import index_anew
from maxq.harness.cli.show import show
from maxq.harness.client.discovery import discover
from maxq.harness.contracts.existing import read, written
from maxq.harness.contracts.terminal import echo, pasted
from maxq.harness.environments.attached.attached_containers import located
from maxq.harness.run.attached.watching import watch as watch_cluster
from maxq.harness.run.process.signals import Stop
from maxq.reference.rpc import loop_dial


@click.group()
def cluster() -> None:
    """Find the nodes of a cluster that runs already."""


@cluster.command()
@click.argument("namesrvs", metavar="NAMESRV...", nargs=-1, required=True)
@click.option("--name", default="", help="which cluster, where these name servers know several")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="write the file for `maxq watch --cluster`; by default it is printed",
)
def find(namesrvs: tuple[str, ...], name: str, out: Path | None) -> int:
    """Ask name servers (HOST:PORT), and whoever they name, which nodes there are.

    Nothing is changed.
    """
    asked = [at for each in namesrvs for at in each.split(";") if at]
    with usage():
        found = asyncio.run(discover(loop_dial, asked, name))
    described = found.cluster.inside(located())
    width = max(len(node) for node, _ in found.lines)
    for node, said in found.lines:
        echo(f"{node:{width}}  {said}", err=True)
    text = written(described)
    if out is None:
        echo(text.rstrip("\n"))
        return 0
    out.write_text(text)
    echo(f"wrote {out}; watch it: {pasted(f'maxq watch --cluster {out}')}", err=True)
    if all(member.container for member in described.members):
        echo(f"what a test would do to it: {pasted(f'maxq test --cluster {out}')}", err=True)
    else:
        echo("to test it, say of each node where it runs: docs/own-cluster.md", err=True)
    return 0


@click.command()
@click.option(
    "--cluster", "file", required=True, metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="which nodes there are: a file of `maxq cluster find`",
)  # fmt: skip
@click.option(
    "--time-limit", type=Duration(), default="60s", show_default=True,
    help="how long; Control-C ends it earlier",
)  # fmt: skip
@click.option(
    "--store", type=click.Path(file_okay=False, path_type=Path), default="runs",
    metavar="DIRECTORY", show_default=True, help="where run folders go",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="print the verdict as JSON")
def watch(**given: Any) -> int:
    """Watch a cluster that runs already, and judge what is seen.

    Prints who leads, who is in sync and who is listed, and when that changes. Nothing is sent to
    the cluster but questions.

    Exit codes: 0 valid, 1 invalid, 2 not all judged.
    """
    with usage():
        existing = read(given["file"])
    stop = Stop()

    def say(line: str) -> None:
        echo(line, err=True)

    judged = watch_cluster(existing, given["time_limit"], given["store"], say, stop)
    show(judged, as_json=given["as_json"], verbose=False)
    index_anew(given["store"])
    return stop.exit_code(judged.exit_code, accept_partial=True)
