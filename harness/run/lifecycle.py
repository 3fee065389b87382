"""One run, from nothing to a verdict: set up, run, heal, recover, read everything, collect.

The whole run is one generator (`maxq.harness.run.run_plan.steps`). Whatever a verdict needs to know
is an operation in the history, so a stored run is judged as it was the first time. The history's
time 0 is the creation of the run folder.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from maxq.harness.client.session import RouteBook
from maxq.harness.client.trial import TOPIC as TRIAL_TOPIC
from maxq.harness.client.trial import Homes, Trial
from maxq.harness.cluster.deployment import Deployment, until
from maxq.harness.contracts.cluster import Electing
from maxq.harness.contracts.environment import Capability, Environment, Role
from maxq.harness.contracts.outcome import Ok, Outcome
from maxq.harness.contracts.target import Target, spoken
from maxq.harness.run import interpreter
from maxq.harness.run.grounds import grounds_of
from maxq.harness.run.process.first_loss import FirstLoss
from maxq.harness.run.process.lateness import Lateness
from maxq.harness.run.process.room import Room
from maxq.harness.run.run_context import ENDED_FOR, LASTED, RunContext
from maxq.harness.run.run_plan import Composed, Making, make_workloads, places_of, steps
from maxq.harness.schedule.format import Schedule
from maxq.harness.schedule.options import Options
from maxq.harness.schedule.perform import First
from maxq.histories.fault_facts import (
    AWAIT_RECOVERY,
    BUILT_IN,
    CHANGE_LEADER,
    ELECT_MASTER,
    INSPECT,
    KNOW_TOPICS,
    LAST_LOOK,
    TRIAL,
)
from maxq.histories.grounds import conclusion, declaration
from maxq.histories.jsonl import JournalWriter
from maxq.histories.observed import LATE_MS
from maxq.histories.op import NEMESIS, Op
from maxq.histories.store import Run
from maxq.nemeses.catalogue import facts_of, needs_of
from maxq.nemeses.feasibility import check, possible
from maxq.nemeses.scripted import Scripted
from maxq.nemeses.stage import told
from maxq.reference.records import some

ANSWER_S_MAX = 60  # beyond every time-out of a client
ZERO_WALL_MS = "zero_wall_ms"  # of the configuration: the wall clock at time 0 of the history
PAGE = 4096  # collected log files keep this much beyond their last byte that is not zero
ZEROS = bytes(PAGE)

Progress = Callable[[int, Op | None], None]


def no_alarm(op: Op) -> str:
    """Nothing that an operation shows ends a run."""
    return ""


class JournalRecorder:
    """Gives each operation its index and writes it to the run's journal.

    Args:
        journal: of the run.
        progress: shows each operation.
        alarm: says of an operation why the run shall end; empty: it goes on.
    """

    def __init__(
        self, journal: JournalWriter, progress: Progress, alarm: Callable[[Op], str]
    ) -> None:
        self._journal = journal
        self._progress = progress
        self._alarm = alarm
        self._alarmed = ""
        self.room = Room(journal.path)

    def short(self) -> str:
        """Why the run ends before its time; empty: it does not."""
        return self._alarmed or self.room.short()

    def append(self, op: Op) -> Op:
        op = msgspec.structs.replace(op, index=self._journal.count)
        self._journal.append(op)
        self._alarmed = self._alarmed or self._alarm(op)
        self._progress(op.time, op)
        return op

    def tick(self, now_ns: int) -> None:
        self._journal.tick(now_ns)
        self._progress(now_ns, None)


class Nemesis:
    """Whatever is done to a cluster, and asked of it as a whole."""

    def __init__(
        self, script: Schedule, cluster: Deployment, options: Options, lateness: Lateness
    ) -> None:
        self._lateness = lateness
        self._acts = Scripted(cluster, f"{script.header.seed}/act", places_of(cluster, options))
        # Whatever the schedule says, at the end it is said who shall lead.
        self._ending = Scripted(cluster, f"{options.seed}/ending")
        self._cluster = cluster
        self._recovery_s = options.recovery_s
        self._mutant = options.mutant

    async def open(self) -> None:
        """Nothing to prepare."""

    async def invoke(self, op: Op) -> Outcome:
        if op.f == INSPECT:
            return await self._inspect()
        if op.f == AWAIT_RECOVERY:
            return await self._recover()
        if op.f == LAST_LOOK:
            return Ok({"cluster": {"holds": True, **await self._cluster.look()}})
        if op.f == CHANGE_LEADER:
            return Ok({"controllers": told(await self._cluster.offers(Electing).change_leader())})
        ends = op.f == ELECT_MASTER
        return await (self._ending if ends else self._acts).invoke(op)

    async def _inspect(self) -> Outcome:
        """Ask the nodes what they are: a run of what was not asked for proves nothing."""
        mutants, other = await self._cluster.mutants(), await self._cluster.otherwise()
        found: dict[str, dict[str, Any]] = {
            node: {"holds": mutant == self._mutant, "mutant": mutant, "wanted": self._mutant}
            for node, mutant in mutants.items()
        }
        for node, settings in other.items():
            found[node] = {**found.get(node, {}), "holds": False, "otherwise": settings}
        return Ok(found)

    async def _recover(self) -> Outcome:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        recovered = await until(self._cluster.recovered, self._recovery_s)
        after_ms = round((loop.time() - begun) * 1000)
        look = await self._cluster.look()
        holds = recovered and not look["crashed"]
        seen = {"holds": holds, "after_ms": after_ms, **look}
        late = self._lateness.told()
        return Ok({"cluster": seen}, ext={LATE_MS: late} if late else None)

    async def close(self) -> None:
        """Nothing is held."""


async def perform(
    options: Options,
    environment: Environment,
    target: Target,
    run: Run,
    context: RunContext,
    cluster: Deployment | None = None,
) -> None:
    """Perform a run in an environment: everything but the verdict.

    Args:
        options: what to do.
        environment: where; it is brought down in any case.
        target: what to run.
        run: the run's folder, with its configuration saved.
        context: of the run; its `script` is there.
        cluster: that runs already; None: one is set up.

    Raises:
        SetupFailed, EnvironmentUnavailable, MissingCapability: there was no run to judge.
        EnvironmentLost: it ended too early; so did the history.
        OSError: the history cannot be written any more.
    """
    zero, progress = asyncio.get_running_loop().time(), context.progress
    script = some(context.script, "it was drawn")
    if context.real:  # nodes stamp their logs by the wall clock
        run.add_config({ZERO_WALL_MS: context.wall_ms()})
    cluster = cluster or Deployment(environment, target, options.settings())
    begun = f"starting {spoken(cluster.nodes)} in {environment.name}"
    if options.existing is not None:
        begun = f"testing {spoken(cluster.nodes)} of cluster {options.existing.cluster}"
    try:
        for name in () if options.scripted else options.nemesis:
            possible(environment, needs_of([name]), f"--nemesis {name}")
        check(script, cluster, environment)
        progress.say(begun)
        await cluster.up()
        with run.open_journal() as journal:
            recorder = JournalRecorder(journal, progress.update, _alarm(options))
            async with asyncio.TaskGroup() as group:
                guard = group.create_task(environment.lost())
                await _drive(options, cluster, recorder, context, zero, environment.capabilities)
                guard.cancel()
        if context.stop.heeded_ns:
            run.add_config({LASTED: context.stop.heeded_ns, ENDED_FOR: context.stop.short})
        await context.before_end(cluster)
        if options.existing is None:
            progress.say("stopping the nodes, collecting logs and stores")
        for node in await cluster.stop_all():
            progress.say(f"{node} did not stop when asked to and was killed")
        if context.collect:
            await _save_nodes(run, cluster)
    except Exception as error:
        with suppress(Exception):  # the first failure is the one to tell
            await _save_nodes(run, cluster)
        raise first_cause(error) from None
    finally:
        await environment.down()


def _alarm(options: Options) -> Callable[[Op], str]:
    """What ends a run early: in a cluster that is somebody's, the first sign of a loss."""
    if options.existing is None or options.keep_going:
        return no_alarm
    return FirstLoss().take


def first_cause(error: Exception) -> Exception:
    """What went wrong, without the task groups that it went through."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _drive(
    options: Options,
    cluster: Deployment,
    recorder: JournalRecorder,
    context: RunContext,
    zero: float,
    capabilities: frozenset[Capability],
) -> None:
    """Run workloads and faults on a cluster that is up; `zero` is time 0 of the history (s)."""
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as group:
        routes = RouteBook(cluster.namesrvs, cluster.dial, group, options.routes_s)
        making = Making(
            options=options,
            cluster=cluster,
            routes=routes,
            group=group,
            capabilities=capabilities,
            cluster_name=options.settings().cluster,
            wall_ms=context.wall_ms,
        )
        composed = Composed(make_workloads(making))
        refused, lacking = await _made_and_tried(making, cluster, composed, context)
        lateness = Lateness()
        tasks = [group.create_task(routes.run())]
        if context.real:
            tasks.append(group.create_task(lateness.watch()))
        context.progress.say(
            f"running {', '.join(options.workload)} with {', '.join(options.nemesis)}"
        )
        context.stop.possible = True
        script = some(context.script, "it was drawn")
        facts = facts_of(script.acts, by_wall_clock=options.by_wall_clock)

        def stopped() -> bool:
            now_ns = round((loop.time() - zero) * 1e9)
            return bool(refused) or _over(context, recorder, now_ns)

        for op in (declaration(grounds_of(options), facts), *_lacking(lacking)):
            recorder.append(at(op, loop.time() - zero))
        _note_refusal(refused, recorder, context, loop.time() - zero)
        try:
            await interpreter.run(
                steps(options, composed, script, BUILT_IN.with_(facts), stopped=stopped),
                concurrency=composed.concurrency,
                client=composed.client,
                nemesis=Nemesis(script, cluster, options, lateness),
                recorder=recorder,
                rng=First(),
                now_ns=lambda: round((loop.time() - zero) * 1e9),
                say=context.progress.say,
                answer_ns_max=ANSWER_S_MAX * 1_000_000_000,
            )
            end = conclusion(stopped=context.stop.asked)
            recorder.append(at(end, loop.time() - zero))
        finally:
            context.stop.possible = False
            for task in tasks:
                task.cancel()
            routes.close()


async def _made_and_tried(
    making: Making, cluster: Deployment, composed: Composed, context: RunContext
) -> tuple[str, dict[str, Any]]:
    """Make what clients need. What they are refused all the same, empty: nothing; and which slaves
    lack what was made (`Topics.create`)."""
    routes = making.routes
    context.progress.say("making topics and consumer groups, and trying them")
    # A log that holds nothing yet is what some schedules are about, and the simulator's exactly so.
    by_sending = making.options.topics_made == "by-sending"
    # Of a cluster that runs already another run may have left messages in such a topic.
    fresh = context.real and making.options.existing is None
    sends = by_sending or (fresh and not making.options.scripted)
    queues = max(composed.topics.values(), default=1)
    topics = ({TRIAL_TOPIC: queues} if sends else {}) | composed.topics
    made = composed.topics if by_sending else topics
    lacking = await cluster.create_topics(made, composed.alone, composed.groups)
    watched = partial(routes.watch, by_sending=by_sending)
    if cluster.settings.alone:  # what does not serve yet
        watched(composed.topics | composed.late)
        await routes.refresh()
        return "", lacking
    watched(topics)
    await routes.refresh()
    sets = sorted({n.broker_set for n in cluster.by_role(Role.BROKER) if not n.spare})
    places = {t: Homes(n, sets[:1] if t in composed.alone else sets) for t, n in topics.items()}
    trial = Trial(routes, cluster.dial, making.group, born_ms=context.wall_ms())
    refused = await trial.refused(places, composed.groups, composed.needs)
    watched(composed.topics | composed.late)
    return refused, lacking


def _note_refusal(
    refused: str, recorder: JournalRecorder, context: RunContext, after_s: float
) -> None:
    """Record what clients were refused before the run, where they were."""
    if refused:
        context.progress.say(f"the run ends at once: {refused}")
        for value in (None, {"cluster": {"holds": False, "refused": refused}}):
            recorder.append(at(Op("info", NEMESIS, TRIAL, value), after_s))


def _lacking(topics: dict[str, Any]) -> Iterator[Op]:
    """What is noted of slaves that lack topics (A12); the run goes on, to show what comes of it."""
    for value in (None, topics) if topics else ():
        yield Op("info", NEMESIS, KNOW_TOPICS, value)


def _over(context: RunContext, recorder: JournalRecorder, now_ns: int) -> bool:
    """Whether clients end now: somebody asked, or the store has only room left for the end."""
    stop = context.stop
    if not stop.asked and (why := recorder.short()):
        stop.short = why
        context.progress.say(f"{why}: healing, reading everything, judging")
    return stop.heard(now_ns)


def at(op: Op, after_s: float) -> Op:
    """An operation at a time, in seconds since the start of the history."""
    return msgspec.structs.replace(op, time=round(after_s * 1e9))


async def _save_nodes(run: Run, cluster: Deployment) -> None:
    """Write each node's files into the run's folder; log files are cut to their end."""
    async for node, path, data in cluster.collect():
        kept = cut(data) if "/commitlog/" in f"/{path}" else data
        target = run.node_dir(node) / path
        if len(kept) != len(data) or not target.exists():  # in `local` they are there already
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(kept)  # not synced: a run is whole only once its results are


def cut(data: bytes) -> bytes:
    """A log file without the zeros that it was grown by.

    The last record may itself end with zeros (an empty property string), so whole pages are kept.
    """
    pages = -(-len(data) // PAGE)
    while pages and ZEROS.startswith(data[(pages - 1) * PAGE : pages * PAGE]):
        pages -= 1
    return data[: pages * PAGE]
