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
    EnvironmentName,
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
from maxq.harness.contracts.plugins import layouts
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
    type=EnvironmentName(ENVIRONMENTS),
    default=AUTO,
    show_default=True,
    help="where the nodes run; auto: the first of these that works here",
)
TARGET = (
    click.option(
        "--target",
        type=Target(),
        default=REFERENCE,
        show_default=True,
        help="what to test: our reference, a release such as rocketmq:5.5.0, or rocketmq:DIR with "
        "your own build",
    ),
    RELEASE_OPTION,
    click.option(
        "--mutant",
        type=Name(mutants.names, "NAME"),
        default=None,
        help="a seeded bug of the reference, for the checkers to catch (`maxq list mutants`)",
    ),
    PLUGIN_OPTION,
)
SETTINGS = (
    click.option(
        "--profile",
        type=Alias(PROFILES),
        default=None,
        show_default="safe, sync in --mode pair; shipped with files of settings",
        help="a set of settings by what they promise (`maxq list profiles`)",
    ),
    click.option(
        "--broker-conf",
        type=SettingsFiles(Role.BROKER),
        multiple=True,
        metavar="PATH",
        help="your broker.conf, one for all brokers or one each; or a folder with the files of all "
        "nodes. Mode, roles and counts follow from it",
    ),
    click.option(
        "--controller-conf",
        type=SettingsFiles(Role.CONTROLLER),
        multiple=True,
        metavar="PATH",
        help="your controller.conf, one for all controllers or one each",
    ),
    click.option(
        "--namesrv-conf",
        type=SettingsFiles(Role.NAMESRV),
        multiple=True,
        metavar="PATH",
        help="your namesrv.conf, one for all name servers or one each",
    ),
    click.option(
        "--by-address",
        is_flag=True,
        help="nodes know name servers and controllers by address, so these keep theirs; a file's "
        "namesrvAddr decides it too",
    ),
    click.option(
        "--set",
        "keys",
        type=Setting(),
        multiple=True,
        help="one setting of RocketMQ, such as broker:flushDiskType=SYNC_FLUSH; can be repeated",
    ),
    click.option(
        "--timing",
        type=Name(["fast", "stock"]),
        default="fast",
        show_default=True,
        help="fast: periods and time-outs of 1 to 3 s, so that more happens; stock: RocketMQ's "
        "own. A file or --set overrides both",
    ),
    click.option(
        "--topic-attributes",
        default="",
        help="attributes of the workloads' topics, such as +message.type=NORMAL",
    ),
)
LAYOUT_OPTION = click.option(
    "--layout",
    type=Name(layouts),
    default=None,
    help="which brokers share a process, a container of RIP-31; `maxq list layouts`",
)
TOPOLOGY = (
    click.option(
        "--mode",
        type=Name(list(MODES)),
        default=None,
        show_default="controllers, or what files of settings say",
        help="who decides which broker is master: controllers, or in a pair the broker's own "
        "settings",
    ),
    click.option(
        "--controllers",
        type=click.IntRange(1, 9),
        default=None,
        show_default="3, none in --mode pair",
        help="how many controllers",
    ),
    click.option(
        "--namesrvs",
        type=click.IntRange(1, 9),
        default=None,
        show_default="1",
        help="how many name servers",
    ),
    click.option(
        "--embedded-controllers",
        "embedded",
        is_flag=True,
        help="controllers run in the name servers (enableControllerInNamesrv=true)",
    ),
    click.option(
        "--broker-sets",
        type=click.IntRange(1, 50),
        default=None,
        show_default="1, 2 in --mode pair",
        help="how many broker sets",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(1, 9),
        default=None,
        show_default="3, 2 in --mode pair",
        help="how many brokers each set has",
    ),
    click.option(
        "--learners",
        type=click.IntRange(0, 8),
        default=None,
        show_default="0",
        help="how many replicas of each set only copy, and join no SyncStateSet",
    ),
    LAYOUT_OPTION,
)
PLACES = (
    click.option(
        "--base-image",
        default="",
        help="a Docker image to build on, instead of the public one",
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
        help="about how long from the end of a fault to the next of its kind",
    ),
    click.option(
        "--quiet-period",
        "--lull",
        "lull",
        type=Duration(),
        default=None,
        help="how long clients and faults rest after each 15 s",
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
        help="client threads of the workload queue that stay with one broker",
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
        help="how often senders try another broker set, as retryTimesWhenSendFailed; each try is "
        "one operation",
    ),
    click.option(
        "--send-timeout",
        "send_timeout_ns",
        type=Duration(),
        default=None,
        help="how long senders wait for an answer, as sendMsgTimeout  [default: 6s]",
    ),
    click.option(
        "--latency-fault-tolerance",
        is_flag=True,
        help="senders avoid a broker set that failed or was slow, as sendLatencyFaultEnable",
    ),
    click.option(
        "--poll-routes",
        "poll_routes_ns",
        type=Duration(),
        default=None,
        help="how often clients read routes, as pollNameServerInterval. By default each second, "
        "and at once after a bad answer.",
    ),
    click.option(
        "--constant-latency",
        "--calm",
        "constant_latency",
        is_flag=True,
        help="in the simulator every packet takes the same time",
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
        "--seed",
        type=click.IntRange(0, SEED_MAX),
        default=None,
        help="draws the schedule and the load; by default a random one",
    ),
    click.option(
        "--ending",
        type=Name(["current", "each-replica"]),
        default="current",
        show_default=True,
        help="at the end read every queue from its master, or from each replica made master in "
        "turn",
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
        help="faults, joined by commas (`maxq list nemeses`); all; none; partition-then-kill comes "
        "in that order",
    )
    clients = click.option(
        "--workload",
        type=Names(workloads, "NAME,..."),
        multiple=True,
        default=workload,
        show_default=",".join(workload),
        help="what clients do, joined by commas (`maxq list workloads`)",
    )

    def decorate(command: Any) -> Any:
        for title, options in (
            ("Run", RUN), ("Clients", (clients, *CLIENTS)), ("Faults", (faults, *FAULTS)),
        ):  # fmt: skip
            command = section(title, *options)(command)
        return command

    return decorate
