"""Makes a whole history, piece by piece: rounds of clients between a run's begin and its end.

It is made twice with the same random choices: once without texts, to count rows and to find out
whether everything can be planted, and once to be written.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from maxq.histories.grounds import (
    BROKER,
    CONSUMER_OFFSET,
    CONTROLLER,
    FINAL_READ,
    NAMESRV,
    PROBE,
    RECOVERY,
    REPLICA_LOG_READ,
)
from maxq.histories.grounds import LOCK as LOCK_GROUND
from maxq.workloads.generated.asked.kinds import (
    EPOCHS,
    LOCK,
    MESSAGES,
    OFFSETS,
    REGISTRATION,
    REPLICA_LOGS,
)
from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.asked.request import At, Request
from maxq.workloads.generated.clients.locks import TOO_SOON
from maxq.workloads.generated.clients.locks import Draft as LockDraft
from maxq.workloads.generated.clients.offsets import COPIED_NS, REGRESSED
from maxq.workloads.generated.clients.offsets import Draft as OffsetDraft
from maxq.workloads.generated.clients.queue import Draft
from maxq.workloads.generated.clients.queue_plants import AFTER, BEFORE, settled, show_instead
from maxq.workloads.generated.clients.queue_texts import texts_of
from maxq.workloads.generated.clients.registration import PLANTS
from maxq.workloads.generated.clients.registration import Draft as RegistrationDraft
from maxq.workloads.generated.columns.rows import (
    INFO,
    OPEN,
    Act,
    Batch,
    Flags,
    Ints,
    Ops,
    count_rows,
    lay_out,
)
from maxq.workloads.generated.columns.spool import Spool
from maxq.workloads.generated.ends import healing
from maxq.workloads.generated.nodes.cluster import EPOCH_BYTES, Cluster, Ends, declared, inspection
from maxq.workloads.generated.nodes.cluster import NAMESRV as NAME_SERVER
from maxq.workloads.generated.nodes.frame import FAIL_OVERS, LOOK, Frame, Wanted
from maxq.workloads.generated.nodes.state_plants import LATER, STATES, Told, written_by_nobody
from maxq.workloads.generated.world import Piece, Task, World
from maxq.workloads.queue import QUEUES

ROUND_OPS = 1 << 14  # of up to so many broker sets, of all that there are
ROUND_SETS = 4
SMALL_ROUND_OPS = 1 << 11  # where replicas' logs shall have many epochs
EPOCHS_ROUND_OPS = 512  # questions in a round
EPOCHS_CLIENT_OPS = 40  # of such a round
FAIL_OVER_EVERY = 4  # rounds
START_NS = 1_679_014_734
BEGIN, END = -2, -1  # as rounds
BETWEEN_NS = 1_000_000  # from one round to the next


class Maker:
    """Makes one history.

    Args:
        request: what is asked for.
        plan: what to plant in which round, or in `BEGIN` or `END`.
        spool: where messages are kept; None: nothing is written.
    """

    def __init__(
        self, request: Request, plan: Mapping[int, Sequence[Task]], spool: Spool | None
    ) -> None:
        self.world = World(request, spool)
        self._plan = plan
        self._frame = Frame(self.world.cluster)
        self._rounds = rounds_of(request)

    def pieces(self) -> Iterator[Piece]:
        """All rows, in order; each piece must be made before the next is asked for."""
        world, now = self.world, START_NS
        begun = [
            Act(declared(grounds(world.request, world.cluster), now)),
            inspection(world.cluster, now + 1),
        ]
        now += 10_000_000
        marks: dict[int, Mark] = {}
        tasks = list(self._plan.get(BEGIN, ()))
        for again in (False, True):  # before anything is sent
            sweep = world.cluster.sweep(now, world.queues.still)
            for task in tasks if again else ():
                mark = written_by_nobody(Told(world.cluster, sweep))
                if mark is not None:
                    moved = tuple(a + len(begun) for a in mark.acts)
                    marks[task.number] = mark._replace(acts=moved)
            begun += sweep.acts
            now = sweep.over + BETWEEN_NS
        yield world.noted(begun, tasks, marks)
        first = now
        for number in range(self._rounds):
            now = yield from self._round(number, now)
        world.outcome.main_ns = now - first
        yield from healing.pieces(world, now, self._plan.get(END, ()))

    def _round(self, number: int, now: int) -> Generator[Piece, None, int]:
        """One round; returns when it is over."""
        request = self.world.request
        rng = np.random.default_rng([request.seed, number])
        dice = np.random.default_rng([request.seed, number, 1])
        share = request.ops // self._rounds
        count = share + (request.ops % self._rounds if number == self._rounds - 1 else 0)
        struck = struck_in(number, request)
        start = now + 2 * self._frame.width
        if request.workload in (LOCK, OFFSETS, REGISTRATION):
            return (yield from self._other_round(number, count, now, struck, rng))
        if request.workload == EPOCHS:
            count = EPOCHS_CLIENT_OPS
        d = self.world.queues.draft(rng, count, number, start, struck)
        return (yield from self._queue_round(d, now, self._plan.get(number, ()), dice))

    def _queue_round(
        self, d: Draft, now: int, tasks: Sequence[Task], dice: np.random.Generator
    ) -> Generator[Piece, None, int]:
        world, queues = self.world, self.world.queues
        marks = self._planted(d, tasks, dice)
        wanted = _wanted(tasks, d.inv, (d.type == INFO) | (d.type == OPEN), d.cut, dice)
        if world.request.workload == EPOCHS:
            each = len(world.cluster.brokers) + 2 * len(world.cluster.controllers) + 1
            sweeps = max(1, round(world.request.ops / self._rounds / each) - 2)
            times = np.sort(d.inv)[:: max(1, len(d.inv) // sweeps)].tolist()
            wanted += [Wanted(LOOK, at, -1) for at in times[:sweeps]]
        framed = self._frame.round(now, d.cut, d.struck, partial(queues.log_end, d), wanted)
        marks |= framed.marks
        if world.spool is not None:
            for s in range(world.request.sets):
                mine = d.records[d.records[:, 1] // QUEUES == s]
                world.spool.append(s, mine[:, 1:4])
        ops = partial(texts_of, queues, d, framed.elected)
        yield from self._noted(d.type, ops, framed.acts, marks, tasks)
        queues.advance(d)
        return max(d.over, framed.over) + BETWEEN_NS

    def _other_round(
        self,
        number: int,
        count: int,
        now: int,
        struck: int,
        rng: np.random.Generator,
    ) -> Generator[Piece, None, int]:
        """A round of clients that send nothing."""
        world, tasks = self.world, self._plan.get(number, ())
        tasks_left: Sequence[Task] = tasks
        d: LockDraft | OffsetDraft | RegistrationDraft
        ops: Callable[[], Ops]
        if world.request.workload == LOCK:
            start = now + 2 * self._frame.width
            mine = [t for t in tasks if t.kind in TOO_SOON]
            d, marks = world.locks.draft(rng, count, start, mine)
            ops = partial(world.locks.texts_of, d)
        elif world.request.workload == REGISTRATION:
            start = now + 2 * self._frame.width
            mine = [t for t in tasks if t.kind in PLANTS]
            tasks_left = [t for t in tasks if t.kind not in PLANTS]
            d, marks = world.registrations.draft(rng, count, start, mine)
            ops = partial(world.registrations.texts_of, d)
        else:
            now += COPIED_NS
            start = now + 2 * self._frame.width
            mine = [t for t in tasks if t.kind == REGRESSED]
            d, marks = world.offsets.draft(rng, count, start, struck, mine)
            ops = partial(world.offsets.texts_of, d)
        cut = d.cut if struck >= 0 else -1
        dice = np.random.default_rng([world.request.seed, number, 1])
        wanted = _wanted(tasks_left, d.inv, (d.type == INFO) | (d.type == OPEN), cut, dice)
        ends = partial(_idle_ends, tuple(world.queues.bytes), struck)
        framed = self._frame.round(now, cut, struck, ends, wanted)
        marks |= framed.marks
        yield from self._noted(d.type, ops, framed.acts, marks, tasks)
        if struck >= 0:
            world.queues.begin_epoch(struck)
        return max(d.over, framed.over) + BETWEEN_NS

    def _noted(
        self,
        types: Ints,
        ops: Callable[[], Ops],
        acts: Sequence[Act],
        marks: Mapping[int, Mark],
        tasks: Sequence[Task],
    ) -> Iterator[Piece]:
        """The piece of a round, and what was planted in it."""
        world = self.world
        first = world.outcome.rows

        def batch() -> Batch:
            laid = lay_out(ops(), acts)
            world.note(tasks, marks, first, laid)
            return laid.batch

        yield world.counted(count_rows(types, acts), batch)
        if world.spool is None:
            world.note(tasks, marks, first, None)
        world.outcome.ops += len(types)

    def _planted(
        self, d: Draft, tasks: Sequence[Task], rng: np.random.Generator
    ) -> dict[int, Mark]:
        """Settle a round, with what is to be planted in its operations."""
        planter, queues = self.world.planter, self.world.queues
        queues.generations(d)
        drawn = [t for t in tasks if t.kind in BEFORE]
        marks = {t.number: BEFORE[t.kind](planter, d, t.at, rng) for t in drawn}
        queues.settle(d)
        found = {n: settled(planter, d, m) for n, m in marks.items() if m is not None}
        for t in tasks:
            mark: Mark | None = found.pop(t.number, None)
            if t.kind in AFTER:
                mark = AFTER[t.kind](planter, d, t.at, rng)
                mark = mark and settled(planter, d, mark)
            elif mark is not None and t.kind == "inconsistent-offsets":
                mark = show_instead(planter, d, mark, t.at, rng)
            if mark is not None:
                found[t.number] = mark
        queues.generations(d)
        return found


def _wanted(
    tasks: Sequence[Task], inv: Ints, unsure: Flags, cut: int, rng: np.random.Generator
) -> list[Wanted]:
    """When to plant answers into a round with operations at these times."""
    found = []
    for t in tasks:
        if t.kind in FAIL_OVERS:
            found.append(Wanted(t.kind, cut, t.number))
        elif t.kind in STATES:
            at_ns = _when(np.sort(inv), np.sort(inv[unsure]), t.at, cut, rng)
            least = cut + 1 if t.kind in LATER and cut >= 0 else 0
            found.append(Wanted(t.kind, max(at_ns, least), t.number))
    return found


def _when(inv: Ints, unsure: Ints, at: At, cut: int, rng: np.random.Generator) -> int:
    if at == "fail-over" and cut >= 0:
        return cut + 1
    if at == "info" and len(unsure):
        return int(unsure[rng.integers(len(unsure))])
    ends = {"first": 0, "last": len(inv) - 1}
    return int(inv[ends.get(at, int(rng.integers(len(inv))))])


def _idle_ends(before: tuple[int, ...], struck: int, elected: int) -> Ends:
    """Where logs end that nobody appends to, but for the record of a new epoch."""

    def end(number: int, at: int) -> int:
        return before[number] + EPOCH_BYTES * (number == struck and 0 <= elected <= at)

    return end


def rounds_of(request: Request) -> int:
    """How many rounds a history has. Observers ask every node once a round: where there are many,
    clients do more meanwhile."""
    size = SMALL_ROUND_OPS if request.workload == REPLICA_LOGS else ROUND_OPS
    size *= -(-request.sets // ROUND_SETS)
    size = EPOCHS_ROUND_OPS if request.workload == EPOCHS else size
    return max(4 if request.workload == REPLICA_LOGS else 2, -(-request.ops // size))


def struck_in(number: int, request: Request) -> int:
    """The broker set that fails over in a round, or -1: there is one in the middle, and in a long
    history one every few rounds; where replicas and epochs are looked at, in every other round."""
    rounds = rounds_of(request)
    every = FAIL_OVER_EVERY if request.workload not in (EPOCHS, REPLICA_LOGS) else 2
    if number == rounds // 2 or number % every == every // 2:
        return (number // every) % request.sets
    return -1


def grounds(request: Request, cluster: Cluster) -> list[tuple[Any, ...]]:
    """What the run's verdict will rest on."""
    keys = [(k, cluster.sets[k // QUEUES].name) for k in range(QUEUES * request.sets)]
    found: list[tuple[Any, ...]] = [(RECOVERY,), *((PROBE, k, s) for k, s in keys)]
    if request.workload in MESSAGES:
        found += [(FINAL_READ, k, s, None) for k, s in keys]
    if request.workload == LOCK:
        found += [(LOCK_GROUND, k, s) for k, s in keys]
    if request.workload == OFFSETS:
        found += [(CONSUMER_OFFSET, thread) for thread in range(request.concurrency)]
    found += [(REPLICA_LOG_READ, node) for node in cluster.brokers]
    found += [(NAMESRV, NAME_SERVER), *((CONTROLLER, c) for c in cluster.controllers)]
    return [*found, *((BROKER, node) for node in cluster.brokers)]
