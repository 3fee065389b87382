"""``maxq test --cluster``: a run on a cluster that Max-Q did not start.

Such a cluster may be in use. So the page that says what would be done comes first, and nothing is
done without its name as consent.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from maxq.harness.cli.given.asked import SEED_BITS, flat
from maxq.harness.cli.given.param_types import usage
from maxq.harness.cli.given.sections import section
from maxq.harness.contracts.environment import Capability
from maxq.harness.contracts.existing import Existing, read
from maxq.harness.contracts.terminal import echo, pasted
from maxq.harness.environments.attached.attached_containers import network_of, standings
from maxq.harness.environments.attached.attached_hosts import looked_at
from maxq.harness.environments.attached.foreign_machine import OF_NETWORKS
from maxq.harness.environments.engine.client import connect
from maxq.harness.run.attached.watching import asked_of, said_of
from maxq.harness.run.execute import planned
from maxq.harness.schedule.format import seconds
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.outlook import in_order, whom
from maxq.nemeses.catalogue import NO_FAULT, needs_of

FAULTS = ("kill", "stop", "restart", "pause", "partition", "loss", NO_FAULT)
USUAL = ("kill", "partition")
# What may be said beside --cluster: all else is the cluster's own.
OPTIONS = frozenset((
    "existing", "consent", "max_unavailable", "only", "keep_going",
    "nemesis", "workload", "time_limit", "interval", "rate", "concurrency", "seed",
    "store", "base_image", "plan", "as_json", "verbose", "fail_on", "accept_partial", "plugins",
))  # fmt: skip
OF_CLUSTERS = section(
    "A cluster that runs already",
    click.option(
        "--cluster", "existing", metavar="FILE", default=None,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="test this cluster, in containers of this machine or on hosts reached over ssh: a "
        "file of `maxq cluster find`",
    ),
    click.option(
        "--yes", "consent", metavar="NAME", default="",
        help="do to the cluster of this name what the page says that is printed without it",
    ),
    click.option(
        "--max-unavailable", type=click.IntRange(1, 9), default=1, show_default=True,
        help="how many nodes faults take away at a time",
    ),
    click.option(
        "--only", metavar="NODE,...", default="",
        help="strike these nodes alone, by their names in the file",
    ),
    click.option(
        "--keep-going", is_flag=True,
        help="inject faults also after a sign that an acknowledged message was lost",
    ),
)  # fmt: skip


def options_for(given: Mapping[str, Any]) -> tuple[Options, tuple[str, ...]]:
    """The options of a run on such a cluster, by what its nodes answer, and that in lines.

    Raises:
        UsageError: an option is not for it, or the file describes no cluster that can be
            tested.
    """
    context = click.get_current_context()
    said = {
        name for name in given
        if context.get_parameter_source(name) not in (ParameterSource.DEFAULT, None)
    }  # fmt: skip
    if wrong := sorted(said - OPTIONS):
        option = f"--{wrong[0].replace('_', '-')}"
        raise click.UsageError(f"{option} is not for --cluster: that cluster is as it is")
    nemesis = tuple(dict.fromkeys(flat(given["nemesis"]))) if "nemesis" in said else USUAL
    if strange := [name for name in nemesis if name not in FAULTS]:
        raise click.UsageError(
            f"--nemesis {strange[0]} is not for --cluster, which can have {', '.join(FAULTS)}"
        )
    if "workload" in said and flat(given["workload"]) != ["queue"]:
        raise click.UsageError("--cluster has --workload queue alone")
    with usage():
        existing = read(given["existing"])
        reached = seen_where_they_are(existing, needs_of(nemesis))
        options, release = asyncio.run(asked_of(existing, given["time_limit"]))
    if not release:
        raise click.UsageError(f"no broker of {existing.file} answers")
    only = tuple(name for name in given["only"].split(",") if name)
    if unknown := [name for name in only if name not in existing.addresses]:
        known = ", ".join(existing.addresses)
        raise click.UsageError(f"--only {unknown[0]}: no such node in {existing.file}: {known}")
    if only and "loss" in nemesis:
        raise click.UsageError("--only is not for --nemesis loss, which both ends of a link take")
    seed = given["seed"]
    options = msgspec.structs.replace(
        options,
        workload=("queue",),
        nemesis=nemesis,
        rate=given["rate"],
        concurrency=given["concurrency"],
        interval_ns=given["interval"] or 0,
        seed=secrets.randbits(SEED_BITS) if seed is None else seed,
        max_unavailable=given["max_unavailable"],
        only=only,
        keep_going=given["keep_going"],
        # What was sent to a topic that was deleted may come back with another one of its name.
        topic=f"maxq-{secrets.token_hex(4)}-queue",
    )
    return options, (*said_of(options, release), *reached)


def seen_where_they_are(existing: Existing, needs: frozenset[Capability]) -> Sequence[str]:
    """Find all nodes in containers or on hosts; what somebody should know of these.

    Raises:
        MissingCapability: they cannot be tested there.
    """
    if existing.on_hosts:
        return asyncio.run(looked_at(existing, needs))
    with contextlib.closing(connect()) as engine:
        found = standings(engine, existing)
    if needs & OF_NETWORKS:
        network_of(found, existing)
    return ()


def consented(options: Options, existing: Existing, said: Sequence[str], consent: str) -> bool:
    """Whether somebody has agreed to what a run does; if not, says what that is.

    Raises:
        UsageError: to something else.
    """
    if consent == existing.cluster:
        return True
    for line in page(options, existing, said):
        echo(line)
    if consent:
        raise click.UsageError(
            f"nothing was done: --yes {consent}, and this is cluster {existing.cluster}"
        )
    echo(f"\nNothing was done. To do it: {pasted(options.command())}")
    return False


def page(options: Options, existing: Existing, said: Sequence[str]) -> Iterator[str]:
    """What would be done to whom, in lines."""
    length = seconds(options.time_limit_ns)
    yield f"cluster {existing.cluster}, {options.running}, by {existing.file}:"
    width = max(len(member.name) for member in existing.members)
    for member in existing.members:
        yield f"  {member.name:{width}}  {member.address}  {member.place}"
    yield from said
    acts = in_order(planned(options).acts)
    whose = f", to no other node than {', '.join(options.only)}" if options.only else ""
    count = "1 node" if options.max_unavailable == 1 else f"{options.max_unavailable} nodes"
    yield (
        f"faults, one after the other, each undone before the next ({count} at a time, cuts leave "
        f"a majority){whose}:"
    )
    for at, act in acts:
        yield f"  {at:7.2f} s  {act.f:18}  {whom(act)}".rstrip()
    if not acts:
        yield "  none"
    if acts and not options.keep_going:
        yield "no more faults once another message has the place of an acknowledged one"
    yield (
        f"clients: {options.rate:g} operations a second for {length:g} s, in topics of the names "
        "maxq-..., which are made first and deleted at the end"
    )
    if existing.on_hosts:
        yield (
            "on each host: an agent of Max-Q as root, until the run ends; its file stays in "
            "~/.cache/maxq"
        )
    yield (
        "left behind: the messages in commit logs, until brokers delete them by age; who leads and "
        "who is in sync may have changed"
    )
    yield (
        "never done: orders to elect, permissions, settings, addresses, clocks; nothing is read or "
        "written on disks of nodes"
    )
