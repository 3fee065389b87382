"""One run, from nothing to a verdict: set up, run, heal, recover, read everything, collect, judge.

The whole run is one generator: clients and nemesis until the time limit, then the heal, then the
wait for recovery (an operation of the nemesis, so it is in the history), then the final reads. The
history's time 0 is the creation of the run folder. Checkers see the recorded file, read back: what
cannot be recorded cannot be judged.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from checkers.api import Checker, Context, Verdict
from checkers.durability import Durability
from checkers.faults import FaultProof
from checkers.runner import Results, check_all
from checkers.stats import Stats
from harness import interpreter
from harness.client.outcome import Fail, Ok, Outcome
from harness.client.session import RouteBook
from harness.cluster import FaultPackage, Workload
from harness.deployment import NODE_LOG, Deployment
from harness.environments.api import Capability, Environment, MissingCapability, Role
from harness.generators import Source, any_of, clients, nemesis, once, phases, time_limit
from harness.targets.api import Profile, Settings, Target, Timing, Topology
from histories.history import History
from histories.jsonl import JournalWriter, read_jsonl
from histories.op import Op
from histories.store import JOURNAL, Run, open_run, write_whole
from nemeses.process import kill_package
from workloads.queue import queue_workload

RECOVERY_S: dict[str, float] = {"fast": 20.0, "stock": 60.0}
DRAIN_S = 60.0
ANSWER_S_MAX = 60  # beyond every time-out of a client
OK_SHARE_MIN = 0.1  # of the scheduled operations that must be ok before silence means anything
AWAIT_RECOVERY = "await-recovery"

WORKLOADS = ("queue",)
FAULTS = ("kill", "none")
# What `kill` may hit; a broker thrice as often as the others.
KILLED_ROLES = (Role.BROKER, Role.BROKER, Role.BROKER, Role.NAMESRV, Role.CONTROLLER)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for; stored with the run, and enough to repeat it.

    `time_limit_ns` is how long clients and faults run; `rate` is operations a second.
    """

    environment: str
    seed: int
    target: str = "reference"
    workload: str = "queue"
    nemesis: tuple[str, ...] = ("kill",)
    time_limit_ns: int = 30_000_000_000
    rate: float = 100.0
    concurrency: int = 6
    broker_sets: int = 3
    replicas: int = 1
    profile: Profile = "P-ALL"
    timing: Timing = "fast"
    mutant: str = ""

    def settings(self) -> Settings:
        topology = Topology(broker_sets=self.broker_sets, replicas=self.replicas)
        return Settings(
            topology=topology,
            profile=self.profile,
            timing=self.timing,
            seed=self.seed,
            mutant=self.mutant,
        )

    def context(self) -> Context:
        """What the checkers are told."""
        scheduled = self.rate * self.time_limit_ns / 1e9 / 2
        least = max(1, int(scheduled * OK_SHARE_MIN))
        return Context(
            profile=self.profile,
            timing=self.timing,
            target=self.target,
            ok_ops_min={"send": least, "poll": least},
        )

    def command(self) -> str:
        """The command line that repeats the run."""
        words = [
            "maxq test",
            f"--environment {self.environment}",
            f"--workload {self.workload}",
            *(f"--nemesis {name}" for name in self.nemesis),
            f"--time-limit {self.time_limit_ns / 1e9:g}s",
            f"--rate {self.rate:g}",
            f"--concurrency {self.concurrency}",
            f"--broker-sets {self.broker_sets}",
            f"--replicas {self.replicas}",
            f"--profile {self.profile}",
            f"--timing {self.timing}",
            f"--seed {self.seed}",
        ]
        if self.mutant:
            words.append(f"--mutant {self.mutant}")
        return " ".join(words)


def checkers_of(workload: str) -> Sequence[Checker]:
    """The checkers that judge a workload."""
    return {"queue": (Durability(), FaultProof(), Stats())}[workload]


Progress = Callable[[int, Op | None], None]


class JournalRecorder:
    """Gives each operation its index and writes it to the run's journal."""

    def __init__(self, journal: JournalWriter, progress: Progress) -> None:
        self._journal = journal
        self._progress = progress

    def append(self, op: Op) -> Op:
        op = msgspec.structs.replace(op, index=self._journal.count)
        self._journal.append(op)
        self._progress(op.time, op)
        return op

    def tick(self, now_ns: int) -> None:
        self._journal.tick(now_ns)
        self._progress(now_ns, None)


class Nemeses:
    """All fault packages of a run, and the wait for recovery, as one nemesis."""

    def __init__(
        self, packages: Sequence[FaultPackage], cluster: Deployment, recovery_s: float
    ) -> None:
        self._by_f = {f: p.nemesis for p in packages for f in p.fs}
        self._cluster = cluster
        self._recovery_s = recovery_s

    async def open(self) -> None:
        for client in dict.fromkeys(self._by_f.values()):
            await client.open()

    async def invoke(self, op: Op) -> Outcome:
        if op.f == AWAIT_RECOVERY:
            return await self._recover()
        nemesis = self._by_f.get(op.f)
        if nemesis is None:
            return Fail(["no-such-fault", op.f])
        return await nemesis.invoke(op)

    async def _recover(self) -> Outcome:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        recovered = False
        while not recovered and loop.time() - begun < self._recovery_s:
            recovered = await self._cluster.recovered()
            if not recovered:
                await asyncio.sleep(0.1)
        crashed = await self._cluster.crashed()
        seen = {
            "holds": recovered and not crashed,
            "after_ms": round((loop.time() - begun) * 1000),
            "crashed": dict(sorted(crashed.items())),
        }
        return Ok({"cluster": seen})

    async def close(self) -> None:
        for client in dict.fromkeys(self._by_f.values()):
            await client.close()


def fault_packages(
    names: Sequence[str], cluster: Deployment, environment: Environment, seed: int
) -> list[FaultPackage]:
    """Make the asked-for faults.

    Raises:
        MissingCapability: the environment cannot do one of them.
    """
    packages = []
    for name in names:
        if name == "kill":
            packages.append(kill_package(cluster, Random(f"{seed}/nemesis/kill"), KILLED_ROLES))
    for package in packages:
        missing: set[Capability] = set(package.needs - environment.capabilities)
        if missing:
            lacks = ", ".join(sorted(c.value for c in missing))
            raise MissingCapability(f"{environment.name} cannot do {lacks}, which "
                                    f"--nemesis {package.name} needs")  # fmt: skip
    return packages


async def perform(
    options: Options,
    environment: Environment,
    target: Target,
    run: Run,
    *,
    say: Callable[[str], None],
    progress: Progress,
    wall_ms: Callable[[], int],
) -> Results:
    """Perform a run in an environment and judge it.

    Args:
        options: what to do.
        environment: where; it is brought down in any case.
        target: what to run.
        run: the run's folder, with its configuration saved.
        say: told what is happening.
        progress: told of every operation, and at least once a second of the time (ns).
        wall_ms: wall clock for message time stamps.

    Raises:
        SetupFailed, EnvironmentUnavailable, MissingCapability: there was no run to judge.
    """
    loop = asyncio.get_running_loop()
    zero = loop.time()

    def now_ns() -> int:
        return round((loop.time() - zero) * 1e9)

    cluster = Deployment(environment, target, options.settings())
    try:
        packages = fault_packages(options.nemesis, cluster, environment, options.seed)
        say(f"starting {len(cluster.nodes)} nodes in {environment.name}")
        await cluster.up()
        with run.open_journal() as journal:
            recorder = JournalRecorder(journal, progress)
            mutants = await _drive(
                options, cluster, packages, recorder, now_ns, say=say, wall_ms=wall_ms
            )
        say("stopping the nodes, collecting logs and stores")
        await cluster.stop_all()
        _save_nodes(run, await cluster.collect())
    finally:
        await environment.down()
    say("checking")
    ops, _ = read_jsonl(run.path / JOURNAL)
    return _judged(options, History(ops), mutants)


async def _drive(
    options: Options,
    cluster: Deployment,
    packages: Sequence[FaultPackage],
    recorder: JournalRecorder,
    now_ns: Callable[[], int],
    *,
    say: Callable[[str], None],
    wall_ms: Callable[[], int],
) -> Mapping[str, str]:
    """Run workload and faults on a cluster that is up; returns the brokers' mutants."""
    async with asyncio.TaskGroup() as group:
        routes = RouteBook(cluster.namesrvs(), cluster.dial, group)
        workload = queue_workload(
            cluster,
            routes,
            group,
            concurrency=options.concurrency,
            rate=options.rate,
            drain_ns_max=round(DRAIN_S * 1e9),
            wall_ms=wall_ms,
        )
        routes.watch(workload.topics)
        await cluster.create_topics(workload.topics)
        mutants = await cluster.mutants()
        await routes.refresh()
        keeping = group.create_task(routes.run())
        say(f"running {options.workload} with {', '.join(options.nemesis)}")
        await interpreter.run(
            _schedule(options, workload, packages),
            concurrency=options.concurrency,
            client=workload.client,
            nemesis=Nemeses(packages, cluster, RECOVERY_S[options.timing]),
            recorder=recorder,
            rng=Random(f"{options.seed}/generator"),
            now_ns=now_ns,
            say=say,
            answer_ns_max=ANSWER_S_MAX * 1_000_000_000,
        )
        keeping.cancel()
        routes.close()
    return mutants


def _schedule(options: Options, workload: Workload, packages: Sequence[FaultPackage]) -> Source:
    faults = [p.generator for p in packages]
    main = clients(workload.generator, any_of(*faults) if faults else None)
    return phases(
        time_limit(options.time_limit_ns, main),
        nemesis([p.final_generator for p in packages]),
        nemesis(once({"f": AWAIT_RECOVERY, "value": None})),
        clients(workload.final_generator),
    )


def _judged(options: Options, history: History, mutants: Mapping[str, str]) -> Results:
    results = check_all(history, checkers_of(options.workload), options.context())
    return _with_mutants(results, options.mutant, mutants)


def _with_mutants(results: Results, wanted: str, found: Mapping[str, str]) -> Results:
    """A run whose brokers are not what was asked for proves nothing."""
    wrong = sorted(node for node, mutant in found.items() if mutant != wanted)
    if not wrong:
        return results
    verdict = Verdict(
        checker="mutant",
        claims=(),
        valid="unknown",
        reason=f"asked for mutant {wanted or 'none'!r}, but {', '.join(wrong)} say otherwise",
    )
    valid = results.valid if results.valid is False else "unknown"
    return msgspec.structs.replace(results, valid=valid, verdicts=(*results.verdicts, verdict))


def _save_nodes(run: Run, nodes: Mapping[str, Mapping[str, bytes]]) -> None:
    """Write each node's files into the run's folder; log files are cut to their end."""
    for node, files in nodes.items():
        folder = run.node_dir(node)
        for path, data in files.items():
            kept = data.rstrip(b"\0") if "/commitlog/" in f"/{path}" else data
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if path != NODE_LOG or not target.exists():
                write_whole(target, kept)


def judge_stored(path: Any, *, allow_truncated: bool = False) -> tuple[Results, Options, bool]:
    """Judge a stored run again, also one whose harness was killed.

    Returns:
        The verdict, the run's options, and whether the run had ended properly.

    Raises:
        HistoryError: the history is unreadable, or the options are.
    """
    stored = open_run(path, allow_truncated=allow_truncated)
    options = msgspec.convert(stored.config.get("options", {}), Options)
    results = check_all(stored.history, checkers_of(options.workload), options.context())
    return results, options, stored.report.complete
