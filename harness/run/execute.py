"""Where a run takes place: its environment made, its cluster started, its end in good order.

What asks a run to end: `maxq.harness.run.process.signals`. Nothing stays behind in any case.
"""

import asyncio
import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from maxq.harness.cluster.adopted.adopted import Adopted
from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.cluster import Killable
from maxq.harness.contracts.environment import (
    CLIENT_ADDRESS,
    REAL_ONLY,
    SIMULATED_ONLY,
    Capability,
    Environment,
    Lack,
    MissingCapability,
)
from maxq.harness.contracts.plugins import Needed, current
from maxq.harness.contracts.target import Target, spoken
from maxq.harness.environments.attached.attached_containers import AttachedContainers
from maxq.harness.environments.attached.attached_hosts import AttachedHosts
from maxq.harness.environments.disks import node_disk
from maxq.harness.environments.docker import PYTHON, DockerEnvironment
from maxq.harness.environments.local import LocalEnvironment
from maxq.harness.environments.machines import toxiproxy_server, wrong_clock
from maxq.harness.run.lifecycle import perform
from maxq.harness.run.process.signals import interrupted, interruptible
from maxq.harness.run.run_context import LEFT, Progress, RunContext
from maxq.harness.sampling.rounds import schedule_of
from maxq.harness.schedule.format import Schedule
from maxq.harness.schedule.options import Options
from maxq.harness.targets.mixed import MixedTarget
from maxq.harness.targets.reference import ReferenceTarget
from maxq.harness.targets.rocketmq.releases import REFERENCE, parse
from maxq.harness.targets.rocketmq.target import RocketMQTarget
from maxq.histories.store import ORACLE, Run, write_whole
from maxq.nemeses.catalogue import acts, fault_names, needs_of

if TYPE_CHECKING:
    from maxq.harness.simulation.oracle.oracle import Oracle
    from maxq.harness.simulation.world import SimHost, World

NODES = "nodes"  # the folder of a run that holds its machines'
CLOCKS = "clocks"  # of the configuration: how far the clocks of hosts were off (ms)


class Judge(Protocol):
    """Says whether a run is valid, from what is recorded so far."""

    def __call__(self) -> bool: ...


def planned(options: Options) -> Schedule:
    """The schedule of a run for which there is no other.

    Raises:
        ValueError: one of the faults is not known.
    """
    return schedule_of(options, make_target(options).patience)


def run_in_world(options: Options, run: Run, context: RunContext, is_valid: Judge) -> None:
    """Perform a run where its options say.

    Raises:
        KeyboardInterrupt: it was ended at once.
        Exception: as `maxq.harness.run.lifecycle.perform`.
    """
    if context.script is None:
        context = msgspec.structs.replace(context, script=planned(options))
    if options.environment == "simulated":
        _simulated(options, run, context)
    else:
        _real(options, run, context, is_valid)


def _real(options: Options, run: Run, context: RunContext, is_valid: Judge) -> None:
    target = make_target(options)
    components = target.prepare() if options.existing is None else {}
    if components:
        run.add_config({"components": components, "nodes": options.node_releases})
    cluster, environment = _adopted(options, run, context, target) or (
        None,
        make_environment(
            *(options, run.path / NODES, context.base_image, context.progress.say, target),
            script=context.script,
        ),
    )
    if cluster is None and Capability.DELAY in needs_of_run(options, context.script):
        server = toxiproxy_server.ensure(context.progress.say)
        run.add_config({"toxiproxy": toxiproxy_server.described(server)})
    stop = context.stop

    async def keep(cluster: Deployment) -> None:
        if context.keep and not is_valid():
            await _kept(cluster, environment, context.progress)

    async def main() -> None:
        with interruptible(stop, context.progress.say):
            await perform(
                options,
                environment,
                target,
                run,
                msgspec.structs.replace(
                    context,
                    wall_ms=lambda: time.time_ns() // 1_000_000,
                    before_end=keep,
                    real=True,
                ),
                cluster,
            )

    try:
        asyncio.run(main())
    finally:
        if cluster is not None:
            run.add_config({LEFT: cluster.left, **clocks_of(environment)})


def _adopted(
    options: Options, run: Run, context: RunContext, target: Target
) -> tuple[Adopted, Environment] | None:
    """The cluster that runs already, and where; None: a run sets one up."""
    if options.existing is None:
        return None
    if context.consent != options.existing.cluster:
        raise MissingCapability(
            f"nobody has consented to faults in cluster {options.existing.cluster}: "
            f"`{options.command()}` does"
        )
    folder, needs, say = run.path / NODES, needs_of_run(options), context.progress.say
    environment: AttachedHosts | AttachedContainers
    if options.existing.on_hosts:
        environment = AttachedHosts(options.existing, folder, needs=needs, say=say)
    else:
        environment = AttachedContainers(
            options.existing, folder, base_image=context.base_image, needs=needs, say=say
        )
    cluster = Adopted(
        environment, target, options.settings(), only=options.only, pids=environment.pids,
        say=say,
    )  # fmt: skip
    return cluster, environment


def clocks_of(environment: Environment) -> dict[str, object]:
    """How far the clocks of others' hosts are off, for the configuration of a run."""
    return {CLOCKS: environment.clocks} if isinstance(environment, AttachedHosts) else {}


async def _kept(cluster: Deployment, environment: Environment, progress: Progress) -> None:
    progress.say("the cluster stays up until you interrupt (Ctrl-C)")
    for node in cluster.nodes:
        if cluster.offers(Killable).running(node.name):
            progress.say(f"  {node.name} {cluster.address(node.name)}: "
                        f"{environment.entrance(node.name)}")  # fmt: skip
    await interrupted()


def make_environment(
    options: Options,
    folder: Path,
    base_image: str,
    say: Callable[[str], None],
    target: Target,
    *,
    script: Schedule | None = None,
) -> Environment:
    """The real environment that the options name, with what the target needs.

    Args:
        options: what is run.
        folder: where machines' folders go.
        base_image: of the docker engine, to build on; empty: the default.
        say: called with what takes long.
        target: what runs on the machines.
        script: whose acts may need more than the options say; None: none.
    """
    needs = needs_of_run(options, script)
    clocks, proxies = Capability.CLOCK in needs, Capability.DELAY in needs
    if (own := current().environments.get(options.environment)) is not None:
        return own.make(Needed(folder=folder, target=target, needs=needs, say=say))
    if options.environment == "docker":
        return DockerEnvironment(
            folder,
            base_image=base_image or None,
            layer=target.layer,
            shown=target.folders(),
            disks=options.own_disks,
            clocks=clocks,
            proxies=proxies,
            needs=needs,
            say=say,
        )
    return LocalEnvironment(
        folder, disks=options.own_disks, clocks=clocks, proxies=proxies, say=say
    )


def needs_of_run(options: Options, script: Schedule | None = None) -> frozenset[Capability]:
    """What the faults and workloads of a run need of its environment, and the acts of its schedule;
    the options of a schedule name faults by their acts."""
    known = acts()
    named = [name for name in options.nemesis if options.scripted and name in known]
    strange = {*options.nemesis} - {*fault_names()} if options.scripted else set()  # it is refused
    needs = needs_of(name for name in options.nemesis if name not in {*named, *strange})
    moves = {Capability.CHANGE_ADDRESS} if "registration" in options.workload else ()
    named += [act.f for act in (script.acts if script else ()) if act.f in known]
    return needs.union(moves, *(known[name].needs for name in named))


def capabilities_of(environment: str) -> frozenset[Capability]:
    """What an environment can do where nothing is missing on its machine; of what disks and clocks
    of their own can do, whether it can here."""
    if (own := current().environments.get(environment)) is not None:
        return own.could
    every = frozenset(Capability)
    if environment == "simulated":
        return every - REAL_ONLY
    return every - SIMULATED_ONLY - lacking_here().keys()


def drawn_in(environment: str) -> frozenset[Capability]:
    """What random schedules may need of an environment. On real machines wrong clocks and slow ways
    are for those alone who ask by name: nodes are started with a library for the first, and behind
    proxies for the others."""
    can = capabilities_of(environment)
    return can if environment == "simulated" else can - {Capability.CLOCK, Capability.DELAY}


def lacking_here() -> dict[Capability, Lack]:
    """What no real environment can do on this machine, for want of root, of a library or of a
    program."""
    every = (
        (node_disk.NEEDED_BY, node_disk.lacking()),
        ((Capability.CLOCK,), wrong_clock.lacking()),
        (toxiproxy_server.NEEDED_BY, toxiproxy_server.lacking()),
    )
    return {capability: lack for needing, lack in every if lack for capability in needing}


def make_target(options: Options) -> Target:
    """What runs there."""
    targets = {name: _target(name, options) for name in options.targets}
    if len(targets) == 1 and not options.replaces:
        return next(iter(targets.values()))
    return MixedTarget(targets, options.node_releases)


def _target(name: str, options: Options) -> Target:
    """A target by its name; inside a container another interpreter runs."""
    inside = options.environment == "docker"
    own = current().targets.get(name)
    if own is not None:
        return own.make(inside)
    if name != REFERENCE:
        return RocketMQTarget(parse(name), here=not inside, contained=bool(options.layout))
    return ReferenceTarget(PYTHON) if inside else ReferenceTarget()


def _simulated(options: Options, run: Run, context: RunContext) -> None:
    """Perform a run in a world of its own. Garbage is collected when it is over and not before:
    what earlier runs of this process left must not end in the middle of this one."""
    from maxq.harness.simulation.world import World  # with all nodes: it takes its time

    gc.freeze()
    try:
        _in_world(
            World(options.seed, steps=context.steps, constant_latency=options.constant_latency),
            options,
            run,
            context,
        )
    finally:
        gc.collect()
        gc.unfreeze()


def _in_world(world: "World", options: Options, run: Run, context: RunContext) -> None:
    from maxq.harness.environments.simulated import SimulatedEnvironment
    from maxq.harness.simulation.oracle.oracle import Oracle

    stop = context.stop
    oracle = Oracle(world)

    async def main(host: "SimHost") -> None:
        with interruptible(stop, context.progress.say):
            await perform(
                options,
                SimulatedEnvironment(world, mutant=options.mutant, oracle=oracle),
                make_target(options),
                run,
                msgspec.structs.replace(
                    context,
                    wall_ms=host.wall_ms,
                ),
            )

    try:
        world.run(world.add_machine("client", CLIENT_ADDRESS), main)
    finally:
        world.close()
        _save_findings(oracle, run, context.progress)


def _save_findings(oracle: "Oracle", run: Run, progress: Progress) -> None:
    """Store what the oracle saw, apart from all verdicts; an empty file if it saw nothing."""
    lines = [msgspec.json.encode(anomaly) + b"\n" for anomaly in oracle.anomalies]
    write_whole(run.path / ORACLE, b"".join(lines))
    if lines:
        first = oracle.anomalies[0]
        progress.say(f"oracle: {len(lines)} broken invariants, the first is {first.invariant} at "
                    f"{first.time_ns / 1e9:.3f} s: {first.detail} (see {ORACLE})")  # fmt: skip


def run_up(options: Options, run: Run, context: RunContext) -> None:
    """Start a cluster, say how to reach its nodes, and end it when interrupted."""
    target = make_target(options)
    target.prepare()
    environment = make_environment(
        options, run.path / NODES, context.base_image, context.progress.say, target
    )
    cluster = Deployment(environment, target, options.settings())

    async def main() -> None:
        try:
            context.progress.say(f"starting {spoken(cluster.nodes)} in {environment.name}")
            await cluster.up()
            await _kept(cluster, environment, context.progress)
            context.progress.say("stopping")
            await cluster.stop_all()
        finally:
            await environment.down()

    asyncio.run(main())
