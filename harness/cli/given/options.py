"""What commands that start clusters take: where, what, under which load."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from maxq.harness.cli.param_types import (
    RELEASE_OPTION,
    Alias,
    Duration,
    Faults,
    Name,
    Names,
    Rate,
    Setting,
    Target,
)
from maxq.harness.environments.choose import AUTO, ENVIRONMENTS
from maxq.harness.run.run_plan import MAKERS as WORKLOADS
from maxq.harness.schedule.format import RATE_MAX, SEED_MAX, THREADS_MAX
from maxq.harness.schedule.options import PROFILES, TOGETHER
from maxq.harness.targets.rocketmq.releases import REFERENCE
from maxq.nemeses.catalogue import fault_names
from maxq.reference import mutants

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
