"""What commands that start clusters take: where, what, under which load; by sections."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from maxq.harness.cli.given.param_types import (
    PLUGIN_OPTION,
    RELEASE_OPTION,
    Alias,
    Duration,
    Faults,
    Name,
    Names,
    Rate,
    Setting,
    SettingsFiles,
    Target,
)
from maxq.harness.cli.given.sections import section
from maxq.harness.contracts.environment import Role
from maxq.harness.environments.choose import AUTO, ENVIRONMENTS
from maxq.harness.run.run_plan import workloads
from maxq.harness.schedule.format import RATE_MAX, SEED_MAX, THREADS_MAX
from maxq.harness.schedule.options import MODES, PROFILES, TOGETHER
from maxq.harness.targets.rocketmq.releases import REFERENCE
from maxq.nemeses.catalogue import fault_names
from maxq.reference import mutants

KNOWN_PROFILES = {  # by the names of `PROFILES`
    "safe": "an acknowledged message is on every member of the SyncStateSet, two at least "
    "(allAckInSyncStateSet=true, minInSyncReplicas=2)",
    "all": "an acknowledged message is on every member of the SyncStateSet, which may be the "
    "master alone (allAckInSyncStateSet=true)",
    "num": "an acknowledged message is on two replicas, whichever (inSyncReplicas=2)",
    "default": "an acknowledged message is on the master: what RocketMQ ships",
    "unclean": "as `all`, but a replica that lacks messages may become master "
    "(enableElectUncleanMaster=true)",
    "sync": "of --mode pair: an acknowledged message is on master and slave (SYNC_MASTER, "
    "inSyncReplicas=2)",
    "auto": "of --mode pair: as `sync`, but on the master alone while no slave is in sync "
    "(enableAutoInSyncReplicas=true)",
    "async": "of --mode pair: an acknowledged message is on the master (ASYNC_MASTER), and locks "
    "are one broker's",
    "shipped": "of either mode: what files of settings and --set say; all else is as RocketMQ "
    "ships it",
}
ENVIRONMENT = click.option(
    "--env",
    "--environment",
    "environment",
    type=Name(ENVIRONMENTS),
    default=AUTO,
    show_default=True,
    help="where the nodes run; auto: the first of these that can do what is asked, here and now",
)
TARGET = (
    click.option(
        "--target",
        type=Target(),
        default=REFERENCE,
        show_default=True,
        help="what runs: our reference, rocketmq:RELEASE such as rocketmq:5.5.0, or rocketmq:DIR, "
        "an unpacked distribution or a build of your own",
    ),
    RELEASE_OPTION,
    click.option(
        "--mutant",
        type=Name(mutants.names, "NAME"),
        default=None,
        help="a seeded bug of the reference, to see the checkers catch it (`maxq list mutants`)",
    ),
    PLUGIN_OPTION,
)
SETTINGS = (
    click.option(
        "--profile",
        type=Alias(PROFILES),
        default=None,
        show_default="safe, sync in --mode pair; shipped with files of settings",
        help="what the brokers promise (`maxq list profiles`)",
    ),
    click.option(
        "--broker-conf",
        type=SettingsFiles(Role.BROKER),
        multiple=True,
        metavar="PATH",
        help="your broker.conf: of all brokers, or, repeated, of one broker each; or a folder with "
        "files of brokers, controllers and name servers. Mode, roles and counts follow from it; "
        "names, addresses and paths are Max-Q's own",
    ),
    click.option(
        "--controller-conf",
        type=SettingsFiles(Role.CONTROLLER),
        multiple=True,
        metavar="PATH",
        help="your controller.conf, of all controllers or of one each",
    ),
    click.option(
        "--namesrv-conf",
        type=SettingsFiles(Role.NAMESRV),
        multiple=True,
        metavar="PATH",
        help="your namesrv.conf, of all name servers or of one each",
    ),
    click.option(
        "--by-address",
        is_flag=True,
        help="nodes know name servers and controllers by address, so that change-address leaves "
        "these alone; follows from namesrvAddr of a file",
    ),
    click.option(
        "--set",
        "keys",
        type=Setting(),
        multiple=True,
        help="one more setting of RocketMQ, such as broker:flushDiskType=SYNC_FLUSH",
    ),
    click.option(
        "--timing",
        type=Name(["fast", "stock"]),
        default="fast",
        show_default=True,
        help="fast: periods and time-outs of 1 to 3 s, so that more happens in a run; stock: what "
        "RocketMQ ships; what a file or --set says comes before both",
    ),
    click.option(
        "--topic-attributes",
        default="",
        help="of the workloads' topics, such as +message.type=NORMAL",
    ),
)
TOPOLOGY = (
    click.option(
        "--mode",
        type=Name(list(MODES)),
        default=None,
        show_default="controllers, or what files of settings say",
        help="who says which broker is master: controllers, or, in a pair, its settings, for good "
        "(the first replica of each set)",
    ),
    click.option(
        "--controllers",
        type=click.IntRange(1, 9),
        default=None,
        show_default="3, none in --mode pair",
    ),
    click.option("--namesrvs", type=click.IntRange(1, 9), default=None, show_default="1"),
    click.option(
        "--embedded-controllers",
        "embedded",
        is_flag=True,
        help="controllers run in the name servers (enableControllerInNamesrv=true), of which there "
        "are then as many at least",
    ),
    click.option(
        "--broker-sets",
        type=click.IntRange(1, 50),
        default=None,
        show_default="1, 2 in --mode pair",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(1, 9),
        default=None,
        show_default="3, 2 in --mode pair",
        help="of each broker set",
    ),
    click.option(
        "--learners",
        type=click.IntRange(0, 8),
        default=None,
        show_default="0",
        help="of the replicas of each set, fewer than all: they copy and join no SyncStateSet",
    ),
)
PLACES = (
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
FAULTS = (
    click.option(
        "--interval",
        type=Duration(),
        default=None,
        show_default="2s, and 5s more for each other fault",
        help="from the end of a fault to the next one of its kind, about",
    ),
    click.option(
        "--lull",
        type=Duration(),
        default=None,
        help="clients and the nemesis do nothing for so long, after each 15 s",
    ),
)
CLIENTS = (
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
        "--pinned",
        type=click.IntRange(0, THREADS_MAX),
        default=0,
        show_default=True,
        help="client threads of the workload queue that stay with one broker, whatever routes say",
    ),
    click.option(
        "--topics",
        type=click.IntRange(1, 5000),
        default=None,
        show_default="1, 5 with --topics-made",
        help="how many topics the workload queue sends to and reads",
    ),
    click.option(
        "--topics-made",
        type=Name(["before", "by-sending", "during"]),
        default="before",
        show_default=True,
        help="when all but the first are made: before the run; by the first message to each, with "
        "autoCreateTopicEnable=true; or by an operator during the run",
    ),
    click.option(
        "--client-retries",
        type=click.IntRange(0, 9),
        default=0,
        show_default=True,
        help="how often senders of the workload queue try another broker set, as "
        "retryTimesWhenSendFailed; each try is an operation of its own",
    ),
    click.option(
        "--send-timeout",
        "send_timeout_ns",
        type=Duration(),
        default=None,
        help="how long they wait for an answer, as sendMsgTimeout  [default: 6s, longer than "
        "brokers wait for slaves and disks]",
    ),
    click.option(
        "--latency-fault-tolerance",
        is_flag=True,
        help="they keep away for a while from a broker set that failed or was slow, as "
        "sendLatencyFaultEnable",
    ),
    click.option(
        "--poll-routes",
        "poll_routes_ns",
        type=Duration(),
        default=None,
        help="how often clients read routes, as pollNameServerInterval; at once only where none "
        "has a master  [default: 1s, and at once after any answer that is not good]",
    ),
    click.option(
        "--constant-latency",
        "--calm",
        "constant_latency",
        is_flag=True,
        help="simulated: every packet takes the same time",
    ),
)
RUN = (
    click.option(
        "--time-limit",
        type=Duration(),
        default="60s",
        show_default=True,
        help="how long clients and faults run",
    ),
    click.option(
        "--seed", type=click.IntRange(0, SEED_MAX), default=None, help="default: a random one"
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


def cluster() -> Callable[[Any], Any]:
    """The options of a command that starts a cluster."""

    def decorate(command: Any) -> Any:
        for title, options in (
            ("Files", PLACES), ("Topology", TOPOLOGY), ("Settings", SETTINGS),
            ("What runs", TARGET),
        ):  # fmt: skip
            command = section(title, *options)(command)
        return command

    return decorate


def load(
    workload: Sequence[str] = TOGETHER,
    nemesis: Sequence[str] = ("kill", "partition", "change-address"),
    shown: str = "",
) -> Callable[[Any], Any]:
    """The options of a command that has clients and faults at work on it.

    Args:
        workload: what runs where nothing is asked for.
        nemesis: what strikes there.
        shown: that in words; empty: by their names.
    """
    faults = click.option(
        "--nemesis",
        type=Faults(lambda: [*fault_names(), "all"], "FAULT,..."),
        multiple=True,
        default=nemesis,
        show_default=shown or ",".join(nemesis),
        help="faults, joined by commas or repeated (`maxq list nemeses`); all; none; "
        "partition-then-kill strikes in that order",
    )
    clients = click.option(
        "--workload",
        type=Names(workloads, "NAME,..."),
        multiple=True,
        default=workload,
        show_default=",".join(workload),
        help="what clients do, joined by commas or repeated (`maxq list workloads`)",
    )

    def decorate(command: Any) -> Any:
        for title, options in (
            ("Run", RUN), ("Clients", (clients, *CLIENTS)), ("Faults", (faults, *FAULTS)),
        ):  # fmt: skip
            command = section(title, *options)(command)
        return command

    return decorate
