"""Which checkers judge a run: those of its workloads, of its faults, and of its replicas."""

from collections.abc import Sequence

import msgspec

from maxq.checkers.availability.answers import Answers
from maxq.checkers.availability.availability import Availability
from maxq.checkers.availability.processes import Processes
from maxq.checkers.availability.service import Service
from maxq.checkers.core.api import Checker, Context, Verdict
from maxq.checkers.core.claims import CLAIMS, Claim
from maxq.checkers.core.promises import NOT_STRICT, STRICT, unfulfilled
from maxq.checkers.core.stats import Stats
from maxq.checkers.counterexample.looked_at import firsts
from maxq.checkers.counterexample.of_anomaly import Counterexample, Searching
from maxq.checkers.judgement.fault_proof import FaultProof
from maxq.checkers.judgement.runner import Results, check_all
from maxq.checkers.locks.lock_service import LockService
from maxq.checkers.locks.locks import Locks
from maxq.checkers.locks.ordered import Ordered
from maxq.checkers.messages.consumer_offsets import Offsets
from maxq.checkers.messages.delayed import Delayed
from maxq.checkers.messages.durability import Durability
from maxq.checkers.messages.half_messages import HalfMessages
from maxq.checkers.messages.retention import Retention
from maxq.checkers.messages.shares import Shares
from maxq.checkers.replication.broker_ids import BrokerIds
from maxq.checkers.replication.epochs import Epochs
from maxq.checkers.replication.idle_log_growth import Idle
from maxq.checkers.replication.pairs.acting import Acting
from maxq.checkers.replication.pairs.acting_service import ActingService
from maxq.checkers.replication.pairs.copies import Copies
from maxq.checkers.replication.pairs.delay_progress import DelayProgress
from maxq.checkers.replication.pairs.failovers import Failovers
from maxq.checkers.replication.pairs.pair_offsets import PairOffsets
from maxq.checkers.replication.pairs.pre_online import PreOnline
from maxq.checkers.replication.pairs.rejoining import Rejoining
from maxq.checkers.replication.pairs.slave_topics import SlaveTopics
from maxq.checkers.replication.replicas import Replicas
from maxq.checkers.routing.acting_routes import ActingRoutes
from maxq.checkers.routing.container_answers import Containers
from maxq.checkers.routing.late_topics import LateTopics
from maxq.checkers.routing.listings import Listings
from maxq.checkers.routing.routes import Routes
from maxq.checkers.routing.shared_processes import SharedProcesses
from maxq.checkers.routing.silent_brokers import SilentBrokers
from maxq.harness.contracts.plugins import current
from maxq.harness.run.grounds import grounds_of, older
from maxq.harness.schedule.options import Options
from maxq.harness.targets.reference import effective
from maxq.harness.targets.rocketmq.releases import REFERENCE
from maxq.histories.history import History
from maxq.histories.jsonl import ReadReport
from maxq.histories.store import StoredRun

BY_WORKLOAD: dict[str, Sequence[Checker]] = {
    "queue": (Durability(), Retention()),
    "lock": (Locks(), LockService()),
    "registration": (BrokerIds(),),
    "offsets": (Offsets(),),
    "delayed": (Delayed(),),
    "ordered": (Locks(), LockService(), Ordered()),
    "transactions": (HalfMessages(),),
    "containers": (Containers(),),
    "flood": (Shares(),),
}
REPLICATED: Sequence[Checker] = (
    BrokerIds(),
    Epochs(),
    Replicas(),
    Idle(),
    Availability(),
    Routes(),
    ActingRoutes(),
    SilentBrokers(),
    Listings(),
)
IN_A_PAIR: Sequence[Checker] = (
    Copies(),
    Acting(),
    ActingService(),
    Rejoining(),
    SlaveTopics(),
    PreOnline(),
    PairOffsets(),
    DelayProgress(),
    Failovers(),
)
ALWAYS: Sequence[Checker] = (Service(), Processes(), FaultProof(), Answers(), Stats())
# What no answer of a target without ids shows, by checker (of offsets: who was elected when); and
# what only our reference reports.
BY_IDS = frozenset(c.name for c in (BrokerIds(), Epochs(), Replicas(), Idle(), Routes(), Offsets()))
# The claims that mean something of brokers without controllers.
IN_PAIRS = frozenset(c.id for c in CLAIMS if c.in_pairs is not None)
EXAMPLES_MAX = 8
# RocketMQ does not publish its confirmOffset, and waits for silent brokers longer than its clients.
OURS_ALONE = ("S9b", "S10b", "L6")
# Nor does it say whether a master without controllers is isolated, or whether a slave copies.
SAID_BY_OURS = ("P1", "P2", "P3", "P8")


# Of a cluster that runs already: what shows in stores.
UNREAD = {"S8", "S8b", "S9", "S11b"}
# Of one that is watched also what shows in processes, and what needs a time in which nothing was
# done to its nodes. Others may do anything to them.
UNSEEN_FROM_OUTSIDE = {
    *UNREAD,
    "S13",
    "S15",
    *(c.id for c in CLAIMS if c.undisturbed),
}


def every_checker() -> list[Checker]:
    """All checkers that some run is judged by, each once."""
    each = [*(c for found in BY_WORKLOAD.values() for c in found), *REPLICATED, *IN_A_PAIR, *ALWAYS]
    each += [SharedProcesses(), *(kind.checker for kind in current().checkers.values())]
    return list({c.name: c for c in each}.values())


def judges_of(workload: str) -> list[Checker]:
    """The checkers of what one workload's clients did."""
    return [*BY_WORKLOAD.get(workload, ()), *current().judges_of(workload)]


def checkers_of(options: Options) -> list[Checker]:
    """The checkers of a run. A broker that is alone in its set has no replica to disagree with."""
    chosen = [c for name in options.workload if options.busy(name) for c in judges_of(name)]
    chosen += [LateTopics()] if options.topics_made != "before" else []
    chosen += REPLICATED if options.replicas > 1 else ()
    chosen += [SharedProcesses()] if options.layout else []
    if options.pair:
        chosen += IN_A_PAIR if options.replicas > 1 else ()
        chosen = [c for c in chosen if set(c.claims) & IN_PAIRS or not c.claims]
    if options.lacks_ids:
        chosen = [c for c in chosen if c.name not in BY_IDS]
    every = [*chosen, *current().judges_of_all, *ALWAYS]
    return list({c.name: c for c in every}.values())


def absent(options: Options) -> list[str]:
    """The claims that cannot be judged of a run, by its target or its settings: n/a, never kept."""
    strict = not unfulfilled((STRICT,), effective(options.settings()))
    ours: set[str] = set() if options.targets == (REFERENCE,) else {*OURS_ALONE}
    if options.pair and REFERENCE not in options.targets:
        ours |= {*SAID_BY_OURS}
    if options.existing is not None:
        ours |= UNSEEN_FROM_OUTSIDE if options.watched else UNREAD

    def unseen(c: Claim) -> bool:
        if options.lacks_ids:
            return c.checker in BY_IDS
        return c.id in ours or (options.pair and c.id not in IN_PAIRS)

    return [c.id for c in CLAIMS if unseen(c) or (strict and NOT_STRICT in c.needs)]


def context_of(options: Options, *, ended: bool | None = None, damage: str = "") -> Context:
    """What the checkers know of a run beside its history.

    Args:
        options: how it was set up.
        ended: whether the journal is whole, for a history that does not say so itself.
        damage: why it is judged no further.
    """
    return msgspec.structs.replace(
        options.context(),
        absent=tuple(absent(options)),
        grounds=older(grounds_of(options)),
        ended=ended,
        damage=damage,
    )


def counterexamples_of(
    history: History, results: Results, checkers: Sequence[Checker], context: Context
) -> tuple[Counterexample, ...]:
    """The smallest part of a judged history that shows it, of the first anomaly of each name; none
    of a run that is not invalid."""
    if results.valid is not False:
        return ()
    search = searching_in(history, results, checkers, context)
    found = map(search.of, firsts(results.verdicts)[:EXAMPLES_MAX])
    return tuple(each for each in found if each is not None)


def searching_in(
    history: History, results: Results, checkers: Sequence[Checker], context: Context
) -> Searching:
    """A search for counterexamples in a judged history."""
    by_name = {checker.name: checker for checker in checkers}

    def judge(part: History, name: str) -> Sequence[Verdict]:
        return check_all(part, [by_name[name]], context).verdicts

    return Searching(history, results.verdicts, judge)


def judge(options: Options, history: History) -> Results:
    """Judge a run by what it recorded, at once or years later."""
    return check_all(history, checkers_of(options), context_of(options))


def judge_stored(options: Options, stored: StoredRun) -> Results:
    """Judge a run as it was found on disk."""
    return check_all(stored.history, checkers_of(options), context_as_found(options, stored.report))


def context_as_found(options: Options, report: ReadReport) -> Context:
    """What the checkers know of a run whose history was found so."""
    return context_of(options, ended=report.complete, damage=report.damage)
