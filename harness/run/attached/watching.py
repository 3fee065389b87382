"""A cluster that runs already, watched: its nodes are asked, and nothing is done to it.

What observers see is recorded as in any run, and judged by the same checkers. There is no load and
no fault, so that claims about messages are not covered.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from maxq.checkers.core.promises import DEFAULTS
from maxq.harness.client.node_settings import settings_of
from maxq.harness.client.probes import probing, runtime_info, until
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.existing import Existing
from maxq.harness.contracts.outcome import Ok, Outcome
from maxq.harness.contracts.target import SHIPPED, Node
from maxq.harness.generators import clients, nemesis, once, phases, time_limit
from maxq.harness.generators.lift import lift
from maxq.harness.run import interpreter
from maxq.harness.run.attached.changes import Changes
from maxq.harness.run.attached.cluster import Attached
from maxq.harness.run.grounds import grounds_of
from maxq.harness.run.lifecycle import JournalRecorder, at, no_alarm
from maxq.harness.run.process.signals import Stop, interruptible
from maxq.harness.run.run_context import LASTED
from maxq.harness.run.run_plan import Until
from maxq.harness.run.stored_run import Judged, config_of, held, judge_stored
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.perform import First
from maxq.harness.targets.reference import PERIODS, REGISTRATION
from maxq.harness.targets.rocketmq.releases import LATEST, PREFIX, REFERENCE, parse
from maxq.histories.fault_facts import AWAIT_RECOVERY, BUILT_IN
from maxq.histories.grounds import conclusion, declaration
from maxq.histories.op import Op
from maxq.histories.store import Run, RunStore
from maxq.nemeses.catalogue import NO_FAULT
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Dial, loop_dial
from maxq.workloads.observe import observe_workload

ATTACHED = "attached"  # as an environment: the nodes are wherever they are
ANSWER_S_MAX, AGREE_S = 10, 5.0
RELEASE = "brokerVersionDesc"
OF_PAIRS = "broker:brokerRole"  # which the masters of pairs have, each for itself
# The settings that decide what is promised, and when.
READ = {*DEFAULTS, f"broker:{REGISTRATION}"} | {
    f"{role.value}:{key}" for role, keys in PERIODS.items() for key in keys
}


async def asked_of(
    existing: Existing, limit_ns: int, dial: Dial = loop_dial
) -> tuple[Options, str]:
    """How a cluster is set up, by its nodes' own answers, as the options of a run; and of which
    release the first broker that answers says it is."""
    keys: dict[str, str] = {}
    release = ""
    async with probing(dial) as pool:
        for node in existing.topology.nodes:
            at = existing.addresses[node.name]
            found = await settings_of(pool, at, node.role) or {}
            keys |= _keys(node, found, pair=not existing.controller)
            if node.role is Role.BROKER and not release:
                try:
                    info = await runtime_info(pool, at)
                except (OSError, RemoteProtocolError):
                    continue
                release = REFERENCE if "maxq.role" in info else info.get(RELEASE, "")
    topology = existing.topology
    options = Options(
        environment=ATTACHED, seed=0, target=_target(release), workload=(), nemesis=(NO_FAULT,),
        time_limit_ns=limit_ns, rate=0, concurrency=0, namesrvs=topology.namesrvs,
        controllers=topology.controllers, broker_sets=topology.broker_sets,
        replicas=topology.replicas, profile=SHIPPED, timing="stock", keys=keys, existing=existing,
    )  # fmt: skip
    return options, release


def _keys(node: Node, found: Mapping[str, str], *, pair: bool) -> dict[str, str]:
    """The settings of a node that count, by its name."""
    own = {}
    for key, value in found.items():
        full = f"{node.role.value}:{key}"
        if full in READ and not (full == OF_PAIRS and (node.replica or not pair)):
            own[f"{node.name}:{key}"] = value
    return own


def _target(release: str) -> str:
    """The target that a release's name (``V5_5_0``) is, or the newest there is."""
    if release == REFERENCE:
        return REFERENCE
    return PREFIX + (_spelled(release) if _is_known(release) else LATEST)


def _spelled(release: str) -> str:
    return release.removeprefix("V").replace("_", ".")


def _is_known(release: str) -> bool:
    if release == REFERENCE:
        return True
    try:
        parse(PREFIX + _spelled(release))
    except ValueError:
        return False
    return True


class Patience:
    """Waits for a moment at the end until all agree who leads; what is going on then may be seen.

    Args:
        cluster: who is asked.
    """

    def __init__(self, cluster: Attached) -> None:
        self._cluster = cluster

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        begun = asyncio.get_running_loop().time()
        holds = await until(self._cluster.queries.recovered, AGREE_S)
        after_ms = round((asyncio.get_running_loop().time() - begun) * 1000)
        return Ok({"cluster": {"holds": holds, "after_ms": after_ms, "crashed": {}}})

    async def close(self) -> None:
        """Nothing is held."""


async def watched(
    options: Options, existing: Existing, run: Run, stop: Stop, say: Callable[[str], None],
    dial: Dial = loop_dial,
) -> None:  # fmt: skip
    """Watch a cluster until the time limit, or until somebody asks for an end.

    Args:
        options: of `asked_of`.
        existing: the cluster.
        run: the run's folder.
        stop: a request to end.
        say: hears what changes, and when (s).
        dial: how nodes are reached.
    """
    loop = asyncio.get_running_loop()
    zero, changes, cluster = loop.time(), Changes(), Attached(existing, dial)

    def heard(now_ns: int, op: Op | None) -> None:
        for line in changes.take(op) if op is not None else ():
            say(f"{now_ns / 1e9:7.2f} s  {line}")

    def now_ns() -> int:
        return round((loop.time() - zero) * 1e9)

    with run.open_journal() as journal:
        recorder = JournalRecorder(journal, heard, no_alarm)
        recorder.append(at(declaration(grounds_of(options), BUILT_IN.facts), loop.time() - zero))
        async with asyncio.TaskGroup() as group:
            observers = observe_workload(
                cluster, group, keys=(), topics=(), decode=lambda key, body: None,
                level_s=options.recovery_s, shares={}, stores=False,
            )  # fmt: skip
            stop.possible = True
            try:
                asks = lift(observers.generator)
                await interpreter.run(
                    phases(
                        time_limit(
                            options.time_limit_ns,
                            clients(Until(asks, lambda: stop.heard(now_ns()))),
                        ),
                        nemesis(once({"f": AWAIT_RECOVERY, "value": None})),
                        clients(observers.final_generator),
                    ),
                    concurrency=observers.threads, client=observers.client,
                    nemesis=Patience(cluster),
                    recorder=recorder, rng=First(), now_ns=now_ns, say=say,
                    answer_ns_max=ANSWER_S_MAX * 1_000_000_000,
                )  # fmt: skip
            finally:
                stop.possible = False
        recorder.append(at(conclusion(stopped=stop.asked), loop.time() - zero))
    if stop.heeded_ns:
        run.add_config({LASTED: stop.heeded_ns})


def watch(
    existing: Existing, limit_ns: int, root: Path, say: Callable[[str], None], stop: Stop
) -> Judged:
    """Watch a cluster, and judge what was seen, in a folder of its own."""
    run = RunStore(root.resolve()).create("watch", datetime.now(UTC))

    async def main() -> None:
        options, release = await asked_of(existing, limit_ns)
        run.save_config(config_of(options))
        nodes = len(options.topology.nodes)
        mode = "masters and slaves by their settings" if options.pair else "with controllers"
        say(f"watching {nodes} nodes of {options.running}, {mode}; nothing is sent but questions")
        for line in said_of(options, release):
            say(line)
        with interruptible(stop, say):
            await watched(options, existing, run, stop, say)

    with held(run.path):
        asyncio.run(main())
        judged = judge_stored(run.path).with_counterexamples()
        judged.save(whole=True)
        return judged.with_report()


def said_of(options: Options, release: str) -> Iterator[str]:
    """What nodes say they are, and are set to, as far as it decides what is promised."""
    if not _is_known(release):
        said = release or "a release that they do not name"
        yield f"they run {said}, which Max-Q does not know: read as if it were {LATEST}"
    effective = options.context().settings or {}
    own = [f"{key.partition(':')[2]}={value}" for key, value in sorted(effective.items())
           if value != DEFAULTS.get(key, value) and (options.pair or key != OF_PAIRS)]  # fmt: skip
    yield f"set beside RocketMQ's defaults: {', '.join(own) or 'nothing that a claim depends on'}"
