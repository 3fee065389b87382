"""What was asked of a run: stored with it, and enough to repeat it and to judge it."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from maxq.checkers.core.api import Context
from maxq.harness.contracts.cluster import Made
from maxq.harness.contracts.existing import Existing
from maxq.harness.contracts.plugins import current, layout_named
from maxq.harness.contracts.target import (
    SHIPPED,
    Node,
    Profile,
    Settings,
    Timing,
    Topology,
    containers,
    plan,
)
from maxq.harness.schedule.format import RATE_MAX, READ, SECONDS_MAX, SEND, THREADS_MAX, Seed
from maxq.harness.schedule.shares import FILL_KEYS, FLOOD, keys_of_flood, shares_of
from maxq.harness.targets import known_keys
from maxq.harness.targets.reference import effective, eviction_ms, registration_ms, slower_ms
from maxq.harness.targets.rocketmq.releases import (
    NODE_COMPONENTS,
    PREFIX,
    REFERENCE,
    catch_up_s,
    lacks_ids,
)
from maxq.histories.aliases import THEN
from maxq.histories.fault_facts import (
    CHANGE_ADDRESS,
    FAIL_STORE,
    FILL_DISK,
    POWER_LOSS,
    REMOVE_BROKER,
    REPLACE_RELEASE,
    TRIM,
)
from maxq.histories.observed import ROUTE_NS, Share

RECOVERY_S: dict[str, float] = {"fast": 20.0, "stock": 60.0}
SHRINK_S: dict[str, float] = {"fast": 8.0, "stock": 30.0}  # catch-up limit, check, and a margin
# RocketMQ's brokers look each 3 s for name servers that answer, and register with those they found.
RESCAN_MS = 3000
EVICTION_MARGIN_MS = 2000  # for the delivery of the last heartbeat, and for a machine under load
CHECK_S = 5.0  # the check and the margin alone, with fast timing
OK_SHARE_OF_SCRIPT_MIN = 0.03  # of a schedule's, which may be full of faults from end to end
OK_SHARE_MIN = 0.1  # of the scheduled operations that must be ok before silence means anything
FLUSH = "broker:flushDiskType"
LOCK_LEASE_MS, CLIENT_LEASE_MS = 10_000, 5_000  # of which RocketMQ has 60 s and 30 s
LOCKERS, APPLICANTS = 4, 2  # threads of the workloads lock and registration
COMMITTERS = 4  # of the workload offsets
DELAYED = 3  # of the workload delayed, one of which reads
DELAYED_ALONE = 1  # of the workload delayed-alone
ORDERED = 4  # of the workload ordered, three of which consume
TRANSACTIONS = 4  # of the workload transactions, one of which reads
SPARES = 2  # brokers that the registration workload owns
# Where logs get old: small files, and a broker that looks for old ones at once, at any hour.
RETENTION_KEYS: dict[str, str] = {
    "broker:cleanResourceInterval": "1000",
    "broker:deleteWhen": ";".join(f"{hour:02d}" for hour in range(24)),
    "broker:mappedFileSizeCommitLog": "65536",  # the largest message of a drawn run just fits
    "broker:mappedFileSizeConsumeQueue": "6000",
}
# Profiles by what the command line calls them.
PROFILES: dict[str, Profile] = {
    "safe": "P-SAFE", "all": "P-ALL", "num": "P-NUM", "default": "P-DEFAULT",
    "unclean": "P-UNCLEAN",
    "sync": "P-SYNC", "auto": "P-AUTO", "async": "P-ASYNC", "shipped": SHIPPED,
}  # fmt: skip
MODES = (
    "controllers",
    "pair",
)  # who says which broker is master: controllers, or its settings
# The profiles of pairs, and the faults and workloads that such a run can have.
PAIR_PROFILES: tuple[Profile, ...] = ("P-SYNC", "P-AUTO", "P-ASYNC")
PAIR_NEMESES = (
    "kill", "stop", "restart", "pause", "partition", "partition-any", "change-address",
    "slaves-away-kill", "slaves-away-power", "power", "clock", "delay", "loss",
    "reset-connections", "write-permission", REMOVE_BROKER, FAIL_STORE, FILL_DISK,
    "none",
)  # fmt: skip
# The faults in which machines lose their power.
POWER_FAULTS = frozenset(("power", "slaves-away-power"))
PAIR_WORKLOADS = (
    "queue", "lock", "delayed", "offsets", "ordered", "transactions", "containers", FLOOD,
)  # fmt: skip
TOGETHER = ("queue", "lock", "registration")  # what runs where nothing else is asked for
# The claims that a run is there for: of all runs, and of those of each workload.
PURPOSE: dict[str, tuple[str, ...]] = {
    "": ("S13",),
    "queue": ("S6", "S11", "S12"),
    "lock": ("L1",),
    "registration": ("S1",),
    "offsets": ("O1",),
    "delayed": ("E1",),
    "ordered": ("L10",),
    "transactions": ("E6", "E8"),
    "containers": ("B3",),  # the others need a chance that a run may not have
    FLOOD: ("B9", "B10"),
}
SETTLE_NS, SETTLE_SOON_NS = 150_000_000_000, 40_000_000_000


def purpose_of(workload: str) -> tuple[str, ...]:
    """The claims that a run with a workload is there for."""
    own = current().workloads.get(workload)
    return PURPOSE.get(workload, ()) if own is None else own.purpose


Ending = Literal["current", "each-replica"]
LATE_TOPICS, LATE_TOPICS_MAX = 5, 64  # of a run whose topics are made later: by default, at most
BY_SENDING_KEYS = {"broker:autoCreateTopicEnable": "true"}
# What the command line takes; a stored run and a schedule's header may say no more.
LastsNs = Annotated[int, Meta(ge=0, le=SECONDS_MAX * 1_000_000_000)]
Nodes = Annotated[int, Meta(ge=1, le=9)]
Controllers = Annotated[int, Meta(ge=0, le=9)]  # 0: brokers are pairs
Learners = Annotated[int, Meta(ge=0, le=8)]
BrokerSets = Annotated[int, Meta(ge=1, le=50)]
Threads = Annotated[int, Meta(ge=0, le=THREADS_MAX)]
OpsRate = Annotated[float, Meta(ge=0, le=RATE_MAX)]
Topics = Annotated[int, Meta(ge=1, le=5000)]
Tries = Annotated[int, Meta(ge=0, le=9)]
Ops = Annotated[int, Meta(ge=0)]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for.

    `time_limit_ns` is how long clients and faults run; `rate` is operations a second of each
    workload; `concurrency` are the client threads of the workload queue. At the `ending` every
    queue is read from the master that there is, or from ``each-replica``, made master in turn.
    `releases` are the targets of nodes that do not run `target`, by component (``broker``) or by
    name of a node, which comes first; `later` those that acts of the schedule start nodes as, and
    `changed` the settings that such acts give nodes, as ``broker:flushDiskType``.
    """

    environment: str
    seed: Seed
    target: str = REFERENCE
    workload: tuple[str, ...] = TOGETHER
    nemesis: tuple[str, ...] = ("kill", "partition", "change-address")
    time_limit_ns: LastsNs = 60_000_000_000
    lull_ns: LastsNs = 0  # of each quiet period; 0: there are none
    interval_ns: LastsNs = 0  # between two faults of a kind, about; 0: as many faults allow
    rate: OpsRate = 50.0
    concurrency: Threads = 10
    namesrvs: Nodes = 1
    controllers: Controllers = 3
    broker_sets: BrokerSets = 1
    replicas: Nodes = 3
    embedded: bool = False  # controllers run in the name servers
    learners: Learners = 0  # of the replicas of each broker set
    layout: str = ""  # of brokers in containers, by name
    profile: Profile = "P-SAFE"
    timing: Timing = "fast"
    mutant: str = ""
    pinned: Threads = 0  # threads of the workload queue that stay with one broker for the whole run
    topics: Topics = 1  # of the workload queue
    topic: str = ""  # the name of the first of them; empty: the usual one
    topics_made: Made = "before"  # those but the first
    client_retries: Tries = 0  # of the queue's sends; each try is an operation
    send_timeout_ns: LastsNs = 0  # of the queue's sends; 0: as long as any answer may take
    hold_ns: LastsNs = 0  # how long a broker may hold a poll of the queue that finds nothing
    latency_fault_tolerance: bool = False  # of the queue's senders
    poll_routes_ns: LastsNs = 0  # between two looks at routes; 0: each second, and where in doubt
    constant_latency: bool = False  # in the simulator every packet takes the same time
    scripted: bool = False  # driven by a schedule, the run's own ``schedule.jsonl``
    scheduled: dict[str, Ops] = {}  # how many operations of each kind, and workload, that has
    keys: dict[str, str] = {}  # more settings, as ``broker:flushDiskType``
    ending: Ending = "current"
    stand_ins: dict[str, str] = {}  # faults asked for, and which of `nemesis` took their place
    files: tuple[str, ...] = ()  # what became of settings files, in sentences
    by_address: bool = False  # nodes know name servers and controllers by address, not by name
    topic_attributes: str = ""  # of the workloads' topics, as ``+message.type=NORMAL``
    releases: dict[str, str] = {}
    later: tuple[str, ...] = ()
    changed: tuple[tuple[str, str], ...] = ()
    alone: bool = False  # at first one broker of each set runs, and no controller
    existing: Existing | None = None  # a cluster that runs already
    max_unavailable: Nodes = 1  # of its nodes, that faults may take away at a time
    only: tuple[str, ...] = ()  # its nodes that faults may strike; empty: all
    keep_going: bool = False  # after a sign that it has lost an acknowledged message
    lasted_ns: Ops = 0  # how long clients ran of a run that was asked to end early; 0: all the time
    ended_for: str = ""  # why it ended early of itself

    @property
    def pair(self) -> bool:
        """Whether the brokers are masters and slaves without controllers."""
        return not self.controllers

    @property
    def watched(self) -> bool:
        """Whether it runs already and is only asked: no load, no faults."""
        return self.existing is not None and not self.workload

    @property
    def topology(self) -> Topology:
        if self.existing is not None:
            return self.existing.topology
        return Topology(
            namesrvs=self.namesrvs,
            controllers=self.controllers,
            broker_sets=self.broker_sets,
            replicas=self.replicas,
            spares=SPARES if "registration" in self.workload else 0,
            embedded=self.embedded,
            learners=self.learners,
            layout=layout_named(self.layout),
            guests="containers" in self.workload,
        )

    def target_of(self, node: Node) -> str:
        """What a node begins as."""
        keys = (node.name, *(role.value for role in node.roles))
        return next((self.releases[key] for key in keys if key in self.releases), self.target)

    @property
    def targets(self) -> tuple[str, ...]:
        """All targets that nodes run at some time, each once."""
        return tuple(dict.fromkeys((*self.node_releases.values(), *self.later)))

    @property
    def node_releases(self) -> dict[str, str]:
        """What each node begins as, by its name."""
        return {node.name: self.target_of(node) for node in plan(self.topology)}

    @property
    def components(self) -> tuple[tuple[str, str], ...]:
        """What runs as what: each component with the target that some node of it is at some time;
        what nodes become later any of them may."""
        nodes = plan(self.topology)
        first = [(role.value, self.target_of(node)) for node in nodes for role in node.roles]
        after = [(name, target) for target in self.later for name in NODE_COMPONENTS]
        return tuple(dict.fromkeys((*first, *after)))

    @property
    def replaces(self) -> bool:
        """Whether a node may be started as another target, or as its own in the same way."""
        return bool(self.later) or any(REPLACE_RELEASE in n.split(THEN) for n in self.nemesis)

    @property
    def by_wall_clock(self) -> bool:
        """Whether a node may measure time by its wall clock: ours do not, RocketMQ's all do."""
        return self.targets != (REFERENCE,)

    @property
    def running(self) -> str:
        """What runs, in words: the target, and beside it the nodes that do not run it."""
        if self.targets == (self.target,):
            return self.target
        words = [f"{name} {of.removeprefix(PREFIX)}" for name, of in sorted(self.releases.items())]
        words += [f"later {of.removeprefix(PREFIX)}" for of in self.later]
        return ", ".join([self.target, *words])

    @property
    def lacks_ids(self) -> bool:
        """Whether some broker or controller has no ids of brokers at some time: then nothing can be
        judged by them. Without controllers ids are settings."""
        return not self.pair and any(lacks_ids(target) for target in self.targets)

    @property
    def ignored(self) -> tuple[str, ...]:
        """The keys that were set and that the target does not use."""
        if self.targets != (REFERENCE,):
            return ()
        return tuple(key for key in sorted(self.keys) if known_keys.ignored(key))

    def settings(self) -> Settings:
        return Settings(
            topology=self.topology,
            profile=self.profile,
            timing=self.timing,
            seed=self.seed,
            mutant=self.mutant,
            sync_flush=self.profile != SHIPPED and self._drawn_power,
            by_name=CHANGE_ADDRESS in self.nemesis and not self.by_address,
            lock_lease_ms=LOCK_LEASE_MS,
            keys={
                **(RETENTION_KEYS if self.trims else {}),
                **(BY_SENDING_KEYS if self.topics_made == "by-sending" else {}),
                **(keys_of_flood(self.keys) if FLOOD in self.workload else {}),
                **(FILL_KEYS if self.fills else {}),
                **self.keys,
            },
            topic_attributes=self.topic_attributes,
            alone=self.alone,
        )

    @property
    def shares(self) -> dict[str, Share]:
        """What each broker may take of its partition, where that is observed."""
        ours = self.targets == (REFERENCE,)
        return shares_of(self.settings(), ours=ours) if FLOOD in self.workload else {}

    def context(self) -> Context:
        """What the checkers are told."""
        sets: dict[str, list[str]] = {}
        nodes = plan(self.topology)
        for node in nodes:
            if node.broker_set and not node.spare:
                sets.setdefault(node.broker_set, []).append(node.name)
        return Context(
            settings=effective(self.settings(), self.changed),
            profile=self.profile,
            by_hand=() if self.existing else tuple(sorted(self.keys)),
            ignored=self.ignored,
            files=self.files,
            timing=self.timing,
            target=self.running,
            ok_ops_min=self._ok_ops_min(),
            broker_sets={name: tuple(replicas) for name, replicas in sets.items()},
            containers={each.name: each.brokers for each in containers(nodes)},
            learners=tuple(node.name for node in nodes if node.learner),
            lock_lease_ns=LOCK_LEASE_MS * 1_000_000,
            client_lease_ns=CLIENT_LEASE_MS * 1_000_000,
            recovery_ns=round(self.recovery_s * 1e9),
            shrink_ns=round((self._shrink_s() + self._slower_s) * 1e9),
            eviction_ns=(eviction_ms(self.settings()) + EVICTION_MARGIN_MS) * 1_000_000,
            relisting_ns=(registration_ms(self.settings()) + RESCAN_MS + EVICTION_MARGIN_MS)
            * 1_000_000,
            has_ids=not self.lacks_ids and not self.pair,
            part=self._lasted,
            purpose=() if self.watched else self._purpose,
        )

    @property
    def _purpose(self) -> tuple[str, ...]:
        """The claims that it is there for."""
        of_all = [c for w in ("", *self.workload) if self.busy(w) for c in purpose_of(w)]
        return tuple(dict.fromkeys(of_all))

    @property
    def elects(self) -> bool:
        """Whether another replica can be made master by order at the end."""
        ours = self.existing is None  # nobody else's cluster is given orders
        return self.replicas > 1 and not self.lacks_ids and not self.pair and ours

    @property
    def own_disks(self) -> bool:
        """Whether machines need disks of their own: one may lose its power, by a fault, alone or in
        order with another, or by an act of a schedule, or fill up."""
        power = any(POWER_LOSS in n.split(THEN) for n in self.nemesis)
        return power or self._drawn_power or self.fills

    @property
    def _drawn_power(self) -> bool:
        """Whether a fault that was asked for takes a machine's power."""
        return any(POWER_FAULTS & set(name.split(THEN)) for name in self.nemesis)

    @property
    def trims(self) -> bool:
        """Whether logs get old, by a fault alone or in order with another."""
        return any(TRIM in name.split(THEN) for name in self.nemesis)

    @property
    def fills(self) -> bool:
        """Whether a partition fills up, by a fault alone or in order with another."""
        return any(FILL_DISK in name.split(THEN) for name in self.nemesis)

    @property
    def recovery_s(self) -> float:
        """How long a cluster may take after the last heal until everything is as promised."""
        return RECOVERY_S[self.timing] + self._slower_s + self.routes_s - ROUTE_NS / 1e9

    @property
    def routes_s(self) -> float:
        """How often clients read routes."""
        return max(self.poll_routes_ns, ROUTE_NS) / 1e9

    def _shrink_s(self) -> float:
        """How long a silent member may stay in a SyncStateSet."""
        slowest = max(map(catch_up_s, self.targets))
        return max(SHRINK_S[self.timing], slowest + CHECK_S)

    @property
    def _slower_s(self) -> float:
        return slower_ms(self.settings()) / 1000

    @property
    def topics_probed(self) -> int:
        """How many topics of the workload queue are probed at the end: those made late as well."""
        return 1 if self.topics_made == "before" else self.topics

    @property
    def settle_ns(self) -> int:
        """How long transactions are read at the end: brokers ask about those that are open in that
        time, and ask again. 0: there are none."""
        if "transactions" not in self.workload:
            return 0
        return SETTLE_SOON_NS if self.timing == "fast" else SETTLE_NS

    def busy(self, workload: str) -> bool:
        """Whether a workload's clients have anything to do. The schedule of a run may leave them
        idle; then nothing is to be judged of what they did. The probes of every run always do."""
        return not (workload and self.scripted) or bool(self.scheduled.get(workload))

    @property
    def _part(self) -> float:
        """The part of its time that clients ran."""
        return min(1.0, self.lasted_ns / self.time_limit_ns) if self.lasted_ns else 1.0

    @property
    def _lasted(self) -> str:
        """How much of its time the run lasted; empty: all of it."""
        if not self.lasted_ns:
            return ""
        much = f"{self.lasted_ns / 1e9:.0f} s of {self.time_limit_ns / 1e9:.0f} s were run"
        return f"{much}, since {self.ended_for}" if self.ended_for else much

    def _ok_ops_min(self) -> dict[str, int]:
        if self.scripted:
            # What a client does in a turn is its own affair, so nothing is known of how many.
            known = {f: round(self.scheduled.get(f, 0) * self._part) for f in (SEND, READ)}
            return {f: max(1, int(n * OK_SHARE_OF_SCRIPT_MIN)) for f, n in known.items() if n}
        scheduled = self.rate * self.time_limit_ns * self._part / 1e9
        shares = {"queue": {"send": 2 / 3, "poll": 1 / 3}, "registration": {"apply-id": 1.0}}
        return {
            f: max(1, int(scheduled * share * OK_SHARE_MIN))
            for workload in self.workload
            for f, share in shares.get(workload, {}).items()
        }

    def _released(self) -> str:
        """The nodes' own releases as the command line takes them."""
        own = sorted(self.releases.items())
        return ",".join(f"{name}={of.removeprefix(PREFIX)}" for name, of in own)

    def repeat(self, run: Path | str) -> str:
        """The command line that repeats a run; of one that a schedule drove only its folder knows
        what was done.

        Args:
            run: its folder.
        """
        return f"maxq replay {quote(str(run))}" if self.scripted else self.command()

    def command(self) -> str:
        """The command line that repeats the run."""
        if self.existing is not None:
            asked = f"--cluster {quote(self.existing.file)}"
            limit = f"--time-limit {decimal(self.time_limit_ns)}s"
            if self.watched:
                return f"maxq watch {asked} {limit}"
            words = [f"maxq test {asked} --nemesis {','.join(self.nemesis)} {limit}"]
            words += [f"--interval {decimal(self.interval_ns)}s"] if self.interval_ns else []
            words += [f"--rate {self.rate:g} --concurrency {self.concurrency}"]
            words += [f"--only {','.join(map(quote, self.only))}"] if self.only else []
            words += ["--keep-going"] if self.keep_going else []
            words += [f"--max-unavailable {self.max_unavailable} --seed {self.seed}"]
            return " ".join([*words, f"--yes {quote(self.existing.cluster)}"])
        words = [
            "maxq test",
            f"--env {self.environment}",
            *([f"--target {self.target}"] if self.target != REFERENCE else []),
            *([f"--release {self._released()}"] if self.releases else []),
            f"--workload {','.join(self.workload)}",
            f"--nemesis {','.join(self.nemesis)}",
            f"--profile {self.profile.removeprefix('P-').lower()}",
            f"--timing {self.timing}",
            f"--mode {MODES[1]}" if self.pair else f"--controllers {self.controllers}",
            f"--namesrvs {self.namesrvs}",
            f"--broker-sets {self.broker_sets}",
            f"--replicas {self.replicas}",
            f"--time-limit {decimal(self.time_limit_ns)}s",
            *([f"--quiet-period {decimal(self.lull_ns)}s"] if self.lull_ns else []),
            *([f"--interval {decimal(self.interval_ns)}s"] if self.interval_ns else []),
            f"--rate {self.rate!r}".removesuffix(".0"),
            f"--concurrency {self.concurrency}",
            f"--seed {self.seed}",
        ]
        words += [f"--pinned {self.pinned}"] if self.pinned else []
        words += [f"--topics {self.topics}"] if self.topics > 1 else []
        words += [f"--topics-made {self.topics_made}"] if self.topics_made != "before" else []
        words += [f"--client-retries {self.client_retries}"] if self.client_retries else []
        if self.send_timeout_ns:
            words.append(f"--send-timeout {decimal(self.send_timeout_ns)}s")
        words += ["--latency-fault-tolerance"] if self.latency_fault_tolerance else []
        if self.poll_routes_ns:
            words.append(f"--poll-routes {decimal(self.poll_routes_ns)}s")
        words += ["--embedded-controllers"] if self.embedded else []
        words += ["--by-address"] if self.by_address else []
        words += [f"--learners {self.learners}"] if self.learners else []
        words += [f"--layout {self.layout}"] if self.layout else []
        words += ["--constant-latency"] if self.constant_latency else []
        words += [f"--set {quote(f'{key}={value}')}" for key, value in sorted(self.keys.items())]
        if self.topic_attributes:
            words.append(f"--topic-attributes {quote(self.topic_attributes)}")
        if self.ending != "current":
            words.append(f"--ending {self.ending}")
        if self.mutant:
            words.append(f"--mutant {self.mutant}")
        return " ".join(words)


def decimal(time_ns: int) -> str:
    """Seconds, exactly: 1500000000 is ``1.5``."""
    whole, rest = divmod(time_ns, 1_000_000_000)
    return f"{whole}.{rest:09}".rstrip("0").removesuffix(".")
