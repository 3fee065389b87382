"""A run's workloads side by side: whose thread is whose, and the schedule of the whole run.

The workload queue comes first where it is there, the observers last. The schedule: what the brokers
say they are; clients and faults until the time limit; the heal; the wait for recovery, and probes;
for consumers a long time without any disturbance, and a fail-over; the final reads; the observers'
last look, once replicas are level; a look at all processes.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from maxq.checkers.locks.ordered import settling_ns
from maxq.harness.client.session import SEND_TIMEOUT_S, RouteBook
from maxq.harness.contracts.cluster import Cluster, Need, Workload
from maxq.harness.contracts.environment import Capability
from maxq.harness.contracts.generator import Context, Generator, Step
from maxq.harness.contracts.outcome import Client
from maxq.harness.contracts.plugins import WorkloadKind, current
from maxq.harness.generators import (
    SECOND_NS,
    Source,
    any_of,
    clients,
    nemesis,
    on_threads,
    once,
    phases,
    reserve,
    sleep,
    time_limit,
)
from maxq.harness.generators.lift import lift
from maxq.harness.schedule.format import Schedule
from maxq.harness.schedule.options import APPLICANTS, COMMITTERS, LOCK_LEASE_MS, LOCKERS, Options
from maxq.harness.schedule.perform import Aware, Started, acts, queue_calls, turns
from maxq.histories.fault_facts import (
    AWAIT_RECOVERY,
    CHANGE_LEADER,
    ELECT_MASTER,
    INSPECT,
    LAST_LOOK,
    Kinds,
)
from maxq.histories.observed import AWAIT_LEVEL, COPIED_NS
from maxq.histories.op import Op
from maxq.nemeses.heals import final_heals
from maxq.workloads import payload
from maxq.workloads.containers import containers_workload
from maxq.workloads.delayed import delayed_workload
from maxq.workloads.delayed_alone import delayed_alone_workload
from maxq.workloads.flood import flood_workload
from maxq.workloads.late_topics import TOPIC, Topics
from maxq.workloads.lock import lock_workload
from maxq.workloads.observe import observe_workload
from maxq.workloads.offsets import offsets_workload
from maxq.workloads.ordered import ordered_workload
from maxq.workloads.probe import probe_workload
from maxq.workloads.queue import queue_keys, queue_workload
from maxq.workloads.registration import registration_workload
from maxq.workloads.transactions import transactions_workload

OTHER = "other"  # as a replica: one that does not lead
TOPICS_SEEN = 4  # of each workload, whose routes observers ask for
DRAIN_NS = 60_000_000_000  # the longest that a final read may take
WATCH_NS = 3_000_000_000  # of each controller that leads at the end
MAJORITY_OF = 3  # so many controllers at least go on without one


class Making(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload may be made of. `wall_ms` is the wall clock of messages."""

    options: Options
    cluster: Cluster
    routes: RouteBook
    group: asyncio.TaskGroup
    capabilities: frozenset[Capability]
    cluster_name: str
    wall_ms: Callable[[], int]


def topics_of(o: Options) -> Topics:
    """The topics of a run's workload queue."""
    return Topics(o.topics, o.topics_made, o.topic_attributes, o.topic or TOPIC)


def _queue(m: Making) -> Workload:
    return queue_workload(
        m.cluster,
        m.routes,
        m.group,
        concurrency=m.options.concurrency,
        drain_ns_max=DRAIN_NS,
        wall_ms=m.wall_ms,
        topics=topics_of(m.options),
        pinned=m.options.pinned,
        retries=m.options.client_retries,
        avoids=m.options.latency_fault_tolerance,
        send_timeout_s=m.options.send_timeout_ns / 1e9 or SEND_TIMEOUT_S,
        hold_ms=m.options.hold_ns // 1_000_000,
    )


def _lock(m: Making) -> Workload:
    return lock_workload(
        m.cluster, m.group, clients=LOCKERS, seed=m.options.seed, lease_ms=LOCK_LEASE_MS
    )


def _registration(m: Making) -> Workload:
    return registration_workload(
        m.cluster,
        m.group,
        cluster_name=m.cluster_name,
        applicants=APPLICANTS,
        capabilities=m.capabilities,
    )


def _offsets(m: Making) -> Workload:
    return offsets_workload(m.cluster, m.routes, m.group, clients=COMMITTERS)


def _delayed(m: Making) -> Workload:
    return delayed_workload(m.cluster, m.routes, m.group, wall_ms=m.wall_ms)


def _delayed_alone(m: Making) -> Workload:
    return delayed_alone_workload(m.cluster, m.routes, m.group, wall_ms=m.wall_ms)


def _ordered(m: Making) -> Workload:
    return ordered_workload(
        m.cluster,
        m.group,
        lease_ms=LOCK_LEASE_MS,
        settling_ns=settling_ns(m.options.context()),
        wall_ms=m.wall_ms,
    )


def _transactions(m: Making) -> Workload:
    final_ns = m.options.settle_ns
    return transactions_workload(m.cluster, m.routes, m.group, wall_ms=m.wall_ms, final_ns=final_ns)


def _containers(m: Making) -> Workload:
    return containers_workload(m.cluster)


def _flood(m: Making) -> Workload:
    return flood_workload(m.cluster, m.routes, m.group, wall_ms=m.wall_ms)


# In the order of their threads; the queue's readers are told apart by theirs, so it is the first.
BUILT_IN: dict[str, WorkloadKind] = {
    kind.name: kind
    for kind in (
        WorkloadKind(name="queue", make=_queue, about="unique messages to every queue, and readers "
                     "that follow; at the end all is read again"),
        WorkloadKind(name="lock", make=_lock, about="clients compete for the locks of ordered "
                     "queues, asked of any replica"),
        WorkloadKind(name="registration", make=_registration, about="brokers come and go, with "
                     "other addresses and wiped stores; applicants race for ids"),
        WorkloadKind(name="offsets", make=_offsets, about="consumer groups commit how far they "
                     "are, and ask again after a fail-over"),
        WorkloadKind(name="delayed", make=_delayed, about="messages that are to come after a "
                     "while, and readers of all queues of all broker sets"),
        WorkloadKind(name="delayed-alone", make=_delayed_alone, about="delayed messages of a topic "
                     "that one broker set has alone: they wait, and must hold up nothing"),
        WorkloadKind(name="ordered", make=_ordered, about="consumers of one group that read a "
                     "queue while they hold its lock, and hand it over"),
        WorkloadKind(name="transactions", make=_transactions, about="half messages whose producers "
                     "commit, roll back, lie late, fall silent or die, and readers of all sets"),
        WorkloadKind(name="containers", make=_containers, about="brokers are added to running "
                     "containers and removed, also twice, and with ports that are taken"),
        WorkloadKind(name="flood", make=_flood, about="one broker set is written to as fast as can "
                     "be, beside quiet ones: each keeps to its share of the disk"),
    )
}  # fmt: skip


def workloads() -> dict[str, WorkloadKind]:
    """All that a run can be asked for, in the order of their threads: plug-ins' come last."""
    return {**BUILT_IN, **current().workloads}


def places_of(cluster: Cluster, options: Options) -> list[tuple[str, str, int]]:
    """The queues of a run: topic, broker set and queue id of each; a key is an index."""
    queues = queue_keys(cluster, options.topics, options.topic or TOPIC)
    return [(q.topic, q.broker_set, q.queue_id) for q in queues]


def make_workloads(making: Making) -> list[Workload]:
    """Make what a run's clients do, in the order of their threads, the probes that every run has,
    and the observers."""
    cluster, options = making.cluster, making.options
    made = [_made(k, making) for k in workloads().values() if k.name in options.workload]
    probes = probe_workload(
        cluster,
        making.routes,
        making.group,
        bound_ns=round(options.recovery_s * SECOND_NS),
        wall_ms=making.wall_ms,
        topics=topics_of(options),
        elects=options.elects,
    )
    observers = observe_workload(
        cluster,
        making.group,
        keys=places_of(cluster, options),
        topics=sorted({topic for w in (*made, probes) for topic in [*w.topics][:TOPICS_SEEN]}),
        decode=payload.decode,
        level_s=options.recovery_s,
        shares=options.shares,
        stores=options.existing is None,
    )
    return [*made, probes, observers]


def _made(kind: WorkloadKind, making: Making) -> Workload:
    workload: Workload = kind.make(making)
    if workload.name != kind.name or (kind.threads and workload.threads != kind.threads):
        raise ValueError(f"workload {kind.name!r} with {kind.threads} threads makes one that is "
                         f"{workload.name!r} with {workload.threads}")  # fmt: skip
    return workload


class Composed:
    """Several workloads on one range of threads."""

    def __init__(self, workloads: Sequence[Workload]) -> None:
        self._workloads = tuple(workloads)
        ends: list[int] = []
        for workload in self._workloads:
            ends.append((ends[-1] if ends else 0) + workload.threads)
        self._ends = ends
        self.concurrency = ends[-1]

    def client(self, thread: int) -> Client:
        """A fresh client of the workload that owns the thread."""
        for workload, end in zip(self._workloads, self._ends, strict=True):
            if thread < end:
                return workload.client(thread - (end - workload.threads))
        raise ValueError(f"no workload has thread {thread}, there are {self.concurrency}")

    def scripted(self, script: Schedule) -> Source:
        """What a schedule has each workload do; observers go on as ever."""
        parts: list[tuple[int, Source]] = []
        first = 0
        for workload in self._workloads:
            parts.append((workload.threads, _scripted(workload, script, first)))
            first += workload.threads
        return reserve(*parts)

    def finals(self, names: Sequence[str]) -> list[Source]:
        """The final generators of these workloads, each on its own threads."""
        return [
            on_threads(range(end - w.threads, end), w.final_generator)
            for w, end in zip(self._workloads, self._ends, strict=True)
            if w.name in names and w.final_generator is not None
        ]

    def watch(self, for_ns: int) -> Source:
        """What observers ask, for so long."""
        return [
            on_threads(range(end - w.threads, end), time_limit(for_ns, w.generator))
            for w, end in zip(self._workloads, self._ends, strict=True)
            if w.name == "observe"
        ]

    def settling(self) -> Source:
        """What clients do last before a fail-over that nothing disturbs."""
        return [
            on_threads(range(end - w.threads, end), w.settling)
            for w, end in zip(self._workloads, self._ends, strict=True)
            if w.settling is not None
        ]

    def level(self) -> Source:
        """A wait until every replica has the same log and is in its SyncStateSet."""
        return [
            on_threads(range(end - 1, end), once({"f": AWAIT_LEVEL, "value": None}))
            for w, end in zip(self._workloads, self._ends, strict=True)
            if w.name == "observe"
        ]

    def looks(self) -> Source:
        """A look at who leads, by everybody who can."""
        return [
            on_threads(range(end - w.threads, end), w.look)
            for w, end in zip(self._workloads, self._ends, strict=True)
            if w.look is not None
        ]

    @property
    def topics(self) -> dict[str, int]:
        """Each with its number of queues."""
        of_all = {topic: count for w in self._workloads for topic, count in w.topics.items()}
        return of_all | self.alone

    @property
    def needs(self) -> tuple[Need, ...]:
        """What clients do beside sending and reading plain messages."""
        return tuple(dict.fromkeys(need for w in self._workloads for need in w.needs))

    @property
    def late(self) -> dict[str, int]:
        """Those that come into being during the run."""
        return {topic: count for w in self._workloads for topic, count in w.late.items()}

    @property
    def groups(self) -> tuple[str, ...]:
        """The consumer groups of all clients."""
        return tuple(dict.fromkeys(group for w in self._workloads for group in w.groups))

    @property
    def alone(self) -> dict[str, int]:
        """Those that only the first broker set has."""
        return {topic: count for w in self._workloads for topic, count in w.alone.items()}


def _scripted(workload: Workload, script: Schedule, first: int) -> Source:
    if workload.name in ("observe", "probe"):
        return workload.generator
    if workload.name == "queue":
        calls = queue_calls(
            script, workload.threads, workload.shares, workload.retries, workload.instead
        )
        return Started(calls)
    return Started(turns(script, workload.name, workload.generator, first, workload.threads))


class Until(msgspec.Struct, frozen=True):
    """`gen`, until a stop is asked for from outside."""

    gen: Generator
    stopped: Callable[[], bool]

    def op(self, ctx: Context) -> Step | None:
        step = None if self.stopped() else self.gen.op(ctx)
        return None if step is None else (step[0], Until(step[1], self.stopped))

    def update(self, ctx: Context, event: Op) -> Generator:
        after = self.gen.update(ctx, event)
        return self if after is self.gen else Until(after, self.stopped)


def steps(
    options: Options,
    composed: Composed,
    script: Schedule,
    kinds: Kinds,
    *,
    stopped: Callable[[], bool],
) -> Source:
    """Everything that happens in a run, as one generator.

    Args:
        options: of the run.
        composed: its clients.
        script: its main part.
        kinds: the facts of all acts.
        stopped: ends the main part early.
    """
    faults = Aware(Started(acts(script, options.replicas, kinds)))
    busy = any_of(clients(composed.scripted(script)), faults)
    heal = nemesis([once({"f": f, "value": f"end/{f}"}) for f in final_heals(script.acts, kinds)])
    return _whole(options, composed, busy, heal, stopped)


def _whole(
    options: Options,
    composed: Composed,
    busy: Source,
    heal: Source,
    stopped: Callable[[], bool],
) -> Source:
    each = options.ending == "each-replica"
    awaited = nemesis(once({"f": AWAIT_RECOVERY, "value": None}))
    return phases(
        nemesis(once({"f": INSPECT, "value": None})),
        time_limit(options.time_limit_ns, Until(lift(busy), stopped)),
        heal,
        any_of(awaited, *composed.finals(["probe"])),
        *(_quiet_failover(composed) if "offsets" in options.workload and options.elects else ()),
        any_of(*composed.finals(options.workload)),
        *(_last_election(composed) if options.elects and not each else ()),
        *((composed.level(), composed.looks()) if options.existing is not None else ()),
        composed.finals(["observe"]),
        *(
            part
            for replica in range(options.replicas - options.learners if each else 0)
            for part in _reign(composed, replica)
        ),
        *(_leaders(options, composed) if each and options.controllers >= MAJORITY_OF else ()),
        nemesis(once({"f": LAST_LOOK, "value": None})),
    )


def _last_election(composed: Composed) -> Iterator[Source]:
    """Once clients have read all, an election from a set that was seen just before. Faults that
    take a broker away in good order are answered by a new set and an election in one moment, so
    that nobody sees whom a master was elected from."""
    yield composed.level()
    yield composed.looks()
    yield nemesis(once(elect(OTHER)))
    yield composed.looks()


def _quiet_failover(composed: Composed) -> Iterator[Source]:
    """Consumers commit, nothing happens for longer than every replica needs to copy that, another
    replica is made master; what consumers ask then is judged. Observers, who are idle then, look
    at who leads before all that and around the election: that it was the only one must be seen."""
    yield composed.looks()
    yield composed.settling()
    yield nemesis(sleep(COPIED_NS + SECOND_NS))
    yield composed.looks()
    yield nemesis(once(elect(OTHER)))
    yield composed.looks()


def _leaders(options: Options, composed: Composed) -> Iterator[Source]:
    """Controllers lead in turn, and observers ask each what it holds. Before, everybody had time to
    tell whoever leads where he is: what the others do not know then was never in their log."""
    yield composed.watch(round(options.recovery_s * SECOND_NS) + WATCH_NS)
    for turn in range(options.controllers):
        change = once({"f": CHANGE_LEADER, "value": f"end/{turn}"})
        yield any_of(nemesis(change), composed.watch(WATCH_NS))


def _reign(composed: Composed, replica: int) -> Iterator[Source]:
    """A replica of each set is made master, and every queue read from it. From whom it was elected
    is seen only just before."""
    yield composed.looks()
    yield nemesis(once(elect(replica)))
    yield composed.looks()
    yield composed.finals(["queue"])


def elect(replica: int | str) -> dict[str, Any]:
    """The operation that makes a replica of each set master; where any `OTHER` will do, to be
    refused is no failure."""
    more = {"refusable": True} if replica == OTHER else {}
    return {"f": ELECT_MASTER, "value": f"end/{replica}", "args": {"replica": replica, **more}}
