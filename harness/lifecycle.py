"""One run, from nothing to a verdict: set up, run, heal, recover, read everything, collect, judge.

The whole run is one generator: what the brokers say they are, then clients and nemesis until the
time limit, then the heal, then the wait for recovery, then the final reads. Whatever a verdict
needs to know is an operation in the history, so a stored run is judged as it was the first time.
The history's time 0 is the creation of the run folder.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random

import msgspec

from checkers.api import Checker, Context
from checkers.durability import Durability
from checkers.faults import FaultProof
from checkers.runner import Results, check_all
from checkers.stats import Stats
from harness import interpreter
from harness.client.outcome import Fail, Ok, Outcome
from harness.client.session import RouteBook
from harness.cluster import FaultPackage, Part, Workload
from harness.deployment import Deployment, until
from harness.environments.api import Capability, Environment, MissingCapability
from harness.generators import Source, any_of, clients, nemesis, once, phases, time_limit
from harness.targets.api import Profile, Settings, Target, Timing, Topology
from histories.history import History
from histories.jsonl import JournalWriter
from histories.op import Op
from histories.store import Run, write_whole
from nemeses.fault import Fault, crowded, package
from nemeses.partition import partition_fault
from nemeses.power import power_fault
from nemeses.process import kill_fault, pause_fault, stop_fault
from nemeses.readdress import readdress_fault
from workloads.queue import queue_workload

RECOVERY_S: dict[str, float] = {"fast": 20.0, "stock": 60.0}
DRAIN_S = 60.0
ANSWER_S_MAX = 60  # beyond every time-out of a client
OK_SHARE_MIN = 0.1  # of the scheduled operations that must be ok before silence means anything
INSPECT, AWAIT_RECOVERY = "inspect", "await-recovery"
PAGE = 4096  # collected log files keep this much beyond their last byte that is not zero

WORKLOADS = ("queue",)
FAULTS = ("kill", "stop", "pause", "power", "partition", "readdress", "none")
# What `kill` and `stop` may hit; masters most of all, since it is their death that can lose
# messages.
KILLED: tuple[Part, ...] = (
    *("master", "master", "master", "slave", "sync-state-set-slave"),
    *("controller-leader", "namesrv"),
)
PAUSED: tuple[Part, ...] = ("master", "master", "sync-state-set-slave", "controller-leader")
# What `power` may strike.
STRUCK: tuple[Part, ...] = ("master", "master", "slave", "controller-leader", "controller")
# What `readdress` may move, and what else where nodes know each other by name.
MOVED: tuple[Part, ...] = ("master", "master", "slave", "sync-state-set-slave")
MOVED_BY_NAME: tuple[Part, ...] = ("controller-leader", "controller", "namesrv")


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
    controllers: int = 1
    broker_sets: int = 3
    replicas: int = 1
    profile: Profile = "P-ALL"
    timing: Timing = "fast"
    mutant: str = ""

    def settings(self) -> Settings:
        topology = Topology(
            controllers=self.controllers, broker_sets=self.broker_sets, replicas=self.replicas
        )
        return Settings(
            topology=topology,
            profile=self.profile,
            timing=self.timing,
            seed=self.seed,
            mutant=self.mutant,
            sync_flush="power" in self.nemesis,
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
            f"--time-limit {decimal(self.time_limit_ns)}s",
            f"--rate {self.rate!r}".removesuffix(".0"),
            f"--concurrency {self.concurrency}",
            f"--controllers {self.controllers}",
            f"--broker-sets {self.broker_sets}",
            f"--replicas {self.replicas}",
            f"--profile {self.profile}",
            f"--timing {self.timing}",
            f"--seed {self.seed}",
        ]
        if self.mutant:
            words.append(f"--mutant {self.mutant}")
        return " ".join(words)


def decimal(time_ns: int) -> str:
    """Seconds, exactly: 1500000000 is ``1.5``."""
    whole, rest = divmod(time_ns, 1_000_000_000)
    return f"{whole}.{rest:09}".rstrip("0").removesuffix(".")


CHECKERS: dict[str, Sequence[Checker]] = {"queue": (Durability(), FaultProof(), Stats())}


def judge(options: Options, history: History) -> Results:
    """Judge a run by what it recorded, at once or years later."""
    return check_all(history, CHECKERS[options.workload], options.context())


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
    """All fault packages of a run, and what else is asked of the whole cluster, as one nemesis."""

    def __init__(
        self, packages: Sequence[FaultPackage], cluster: Deployment, options: Options
    ) -> None:
        self._by_f = {f: p.nemesis for p in packages for f in p.fs}
        self._cluster = cluster
        self._recovery_s = RECOVERY_S[options.timing]
        self._mutant = options.mutant

    async def open(self) -> None:
        for client in dict.fromkeys(self._by_f.values()):
            await client.open()

    async def invoke(self, op: Op) -> Outcome:
        if op.f == INSPECT:
            return await self._inspect()
        if op.f == AWAIT_RECOVERY:
            return await self._recover()
        nemesis = self._by_f.get(op.f)
        if nemesis is None:
            return Fail(["no-such-fault", op.f])
        return await nemesis.invoke(op)

    async def _inspect(self) -> Outcome:
        """Ask the brokers what they are: a run of what was not asked for proves nothing."""
        found = await self._cluster.mutants()
        return Ok(
            {
                node: {"holds": mutant == self._mutant, "mutant": mutant, "wanted": self._mutant}
                for node, mutant in found.items()
            }
        )

    async def _recover(self) -> Outcome:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        recovered = await until(self._cluster.recovered, self._recovery_s)
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

    def rng(name: str) -> Random:
        return Random(f"{seed}/nemesis/{name}")

    moved = MOVED + MOVED_BY_NAME if cluster.settings.by_name else MOVED
    # In the order of the final heals: first whoever runs is let go and hears the others again.
    makers: dict[str, Callable[[], Fault]] = {
        "partition": lambda: partition_fault(cluster, rng("partition")),
        "pause": lambda: pause_fault(cluster, rng("pause"), PAUSED),
        "readdress": lambda: readdress_fault(cluster, rng("readdress"), moved),
        "kill": lambda: kill_fault(cluster, rng("kill"), KILLED),
        "stop": lambda: stop_fault(cluster, rng("stop"), KILLED),
        "power": lambda: power_fault(cluster, rng("power"), STRUCK),
    }
    faults = [make() for name, make in makers.items() if name in names]
    quiet_ns = crowded(len(faults))
    for fault in faults:
        missing: set[Capability] = set(fault.needs - environment.capabilities)
        if missing:
            lacks = ", ".join(sorted(c.value for c in missing))
            raise MissingCapability(f"{environment.name} cannot do {lacks}, which "
                                    f"--nemesis {fault.name} needs")  # fmt: skip
    return [package(fault, quiet_ns=quiet_ns) for fault in faults]


async def perform(
    options: Options,
    environment: Environment,
    target: Target,
    run: Run,
    *,
    say: Callable[[str], None],
    progress: Progress,
    wall_ms: Callable[[], int],
) -> None:
    """Perform a run in an environment: everything but the verdict.

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
        EnvironmentLost: it ended too early; so did the history.
        OSError: the history cannot be written any more.
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
            async with asyncio.TaskGroup() as group:
                guard = group.create_task(environment.lost())
                await _drive(options, cluster, packages, recorder, now_ns, say=say, wall_ms=wall_ms)
                if options.replicas > 1:  # stores are collected to be compared
                    await until(cluster.level, RECOVERY_S[options.timing])
                guard.cancel()
        say("stopping the nodes, collecting logs and stores")
        for node in await cluster.stop_all():
            say(f"{node} did not stop when asked to and was killed")
        await _save_nodes(run, cluster)
    except Exception as error:
        with suppress(Exception):  # the first failure is the one to tell
            await _save_nodes(run, cluster)
        raise first_cause(error) from None
    finally:
        await environment.down()


def first_cause(error: Exception) -> Exception:
    """What went wrong, without the task groups that it went through."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _drive(
    options: Options,
    cluster: Deployment,
    packages: Sequence[FaultPackage],
    recorder: JournalRecorder,
    now_ns: Callable[[], int],
    *,
    say: Callable[[str], None],
    wall_ms: Callable[[], int],
) -> None:
    """Run workload and faults on a cluster that is up."""
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
        await routes.refresh()
        keeping = group.create_task(routes.run())
        say(f"running {options.workload} with {', '.join(options.nemesis)}")
        try:
            await interpreter.run(
                _schedule(options, workload, packages),
                concurrency=options.concurrency,
                client=workload.client,
                nemesis=Nemeses(packages, cluster, options),
                recorder=recorder,
                rng=Random(f"{options.seed}/generator"),
                now_ns=now_ns,
                say=say,
                answer_ns_max=ANSWER_S_MAX * 1_000_000_000,
            )
        finally:
            keeping.cancel()
            routes.close()


def _schedule(options: Options, workload: Workload, packages: Sequence[FaultPackage]) -> Source:
    faults = [p.generator for p in packages]
    main = clients(workload.generator, any_of(*faults) if faults else None)
    return phases(
        nemesis(once({"f": INSPECT, "value": None})),
        time_limit(options.time_limit_ns, main),
        nemesis([p.final_generator for p in packages]),
        nemesis(once({"f": AWAIT_RECOVERY, "value": None})),
        clients(workload.final_generator),
    )


async def _save_nodes(run: Run, cluster: Deployment) -> None:
    """Write each node's files into the run's folder; log files are cut to their end."""
    async for node, path, data in cluster.collect():
        kept = cut(data) if "/commitlog/" in f"/{path}" else data
        target = run.node_dir(node) / path
        if len(kept) != len(data) or not target.exists():  # in `local` they are there already
            target.parent.mkdir(parents=True, exist_ok=True)
            write_whole(target, kept)


def cut(data: bytes) -> bytes:
    """A log file without the zeros that it was grown by.

    The last record may itself end with zeros (an empty property string), so whole pages are kept.
    """
    pages = -(-len(data.rstrip(b"\0")) // PAGE)
    return data[: pages * PAGE]
