"""Clients of locks: a true table of who has each lock, from one tenure to the next.

Time goes in slots of a second. In the first slot of a tenure its holder acquires the lock, early,
then it renews it once a slot, and in the last slot gives it back, late; or it falls silent, or is
never answered, and the lock stays taken until the brokers' lease has run out. The other clients of
the lock try meanwhile and are refused, each attempt overlapping others. Times are ns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maxq.histories.observed import ACQUIRE, NOT_GRANTED, RELEASE, RENEW
from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.asked.request import At, Request
from maxq.workloads.generated.clients.rounds import before
from maxq.workloads.generated.columns.rows import FAIL, INFO, OK, OPEN, Ints, Ops, text
from maxq.workloads.generated.nodes.cluster import Cluster
from maxq.workloads.queue import QUEUES

SLOT_NS = 1_000_000_000
LEASE_SLOTS = 11  # after a last grant, until another client may have the lock
RENEWALS = 5
TRY_SHARE = 0.3  # of the clients that do not hold a lock, in each slot
OPEN_SHARE, HAPPENED = 0.2, 0.5
SILENT_SHARE = 0.2
RELEASED, SILENT, RELEASE_LOST, RELEASE_FAILED, RENEW_LOST, ACQUIRE_LOST = range(6)  # how one ends
F = (ACQUIRE, RENEW, RELEASE)
NO_ANSWER = '["timeout","no answer within 3.0 s"]'
# The slot, after a holder's last grant, in which another client is granted the lock as well.
TOO_SOON = {"granted-too-soon": 6, "lease-overlap": 2}


class Tenures(NamedTuple):
    """The tenures of one lock, in order: who holds it (number in its group), renewals, how each
    ends, the slot in which each begins, and how many it lasts."""

    holder: Ints
    renewals: Ints
    ends: Ints
    begins: Ints
    slots: Ints


class Draft(NamedTuple):
    """The operations of a round by columns, in order of threads and slots."""

    thread: Ints
    f: Ints
    type: Ints
    key: Ints
    inv: Ints
    ret: Ints
    process: Ints
    brokers: Ints  # which replica was asked
    over: int
    cut: int


class Locks:
    """The model: see the module's text.

    Args:
        request: what is asked for.
        cluster: whose locks they are.
        step: how much a thread's number grows with each lost process.
    """

    def __init__(self, request: Request, cluster: Cluster, step: int) -> None:
        self.cluster = cluster
        self.threads = request.concurrency
        self.keys = max(1, min(QUEUES * request.sets, request.concurrency // 2))
        self.step = step
        self._info = request.info
        self._lost = np.zeros(self.threads, np.int64)

    def group(self, key: int) -> Ints:
        """The threads that compete for a lock."""
        return np.arange(key, self.threads, self.keys)

    def process_of(self, thread: int) -> int:
        """The process that a thread is now."""
        return int(thread + self.step * self._lost[thread])

    def draft(
        self,
        rng: np.random.Generator,
        count: int,
        start: int,
        tasks: Sequence[tuple[int, str, At]],
    ) -> tuple[Draft, dict[int, Mark]]:
        """Draw a round of about so many operations; tasks are a number, a kind and a place."""
        size = self.threads / self.keys
        slots = max(4, round(count / self.keys / (0.6 + TRY_SHARE * (size - 1))))
        drawn = [self._tenures(rng, k, slots) for k in range(self.keys)]
        chosen = _choose(drawn, tasks, rng)
        drawn = [_laid(t) for t in drawn]
        parts = [self._operations(rng, k, t, start) for k, t in enumerate(drawn)]
        rows = np.concatenate(parts, axis=1)
        planted = []
        for number, (kind, key, tenure) in chosen.items():
            rows, spots = self._grant(rng, rows, key, drawn[key], tenure, TOO_SOON[kind], start)
            planted.append((number, key, spots))
        order = np.lexsort((rows[4], rows[0]))
        rows = rows[:, order]
        marks = {n: Mark(key, _found(rows, spots)) for n, key, spots in planted}
        thread, f, type_, key, inv, ret, broker = rows
        lost = (type_ == INFO) | (type_ == OPEN)
        process = thread + self.step * (self._lost[thread] + before(lost, thread))
        self._lost += np.bincount(thread[lost], minlength=self.threads)
        over = start + SLOT_NS * int(max((t.begins + t.slots).max() for t in drawn))
        cut = (start + over) // 2
        return Draft(thread, f, type_, key, inv, ret, process, broker, over, cut), marks

    def _tenures(self, rng: np.random.Generator, key: int, slots: int) -> Tenures:
        size = len(self.group(key))
        n = max(2, slots // 3)
        holder = (rng.integers(size) + np.cumsum(1 + rng.integers(size - 1, size=n))) % size
        dice = rng.random(n)
        ends = np.where(dice < SILENT_SHARE, SILENT, RELEASED)
        lost = np.array([RELEASE_LOST, RELEASE_FAILED, RENEW_LOST, ACQUIRE_LOST])
        unsure = rng.random(n) < min(1.0, 3 * self._info)
        ends = np.where(unsure, lost[rng.integers(len(lost), size=n)], ends)
        renewals = rng.integers(RENEWALS, size=n)
        renewals = np.where(ends == RENEW_LOST, np.maximum(renewals, 1), renewals)
        renewals = np.where(ends == ACQUIRE_LOST, 0, renewals)
        found = _laid(Tenures(holder, renewals, ends, renewals, renewals))
        kept = max(2, int(np.count_nonzero(found.begins < slots)))
        return Tenures(*(c[:kept] for c in found))

    def _operations(self, rng: np.random.Generator, key: int, t: Tenures, start: int) -> Ints:
        """Columns of a lock's operations."""
        group = self.group(key)
        total = int(t.slots.sum())
        of = np.repeat(np.arange(len(t.slots)), t.slots)
        place = np.arange(total) - t.begins[of]
        ends, renewals = t.ends[of], t.renewals[of]
        gives_back = (ends == RELEASED) | (ends == RELEASE_LOST) | (ends == RELEASE_FAILED)
        acts = (place <= renewals) | (gives_back & (place == renewals + 1))
        mine = np.flatnonzero(acts)
        f = np.where(place == 0, 0, np.where(place <= renewals, 1, 2))[mine]
        unsure = ((ends == RELEASE_LOST) | (ends == RELEASE_FAILED)) & (place == renewals + 1)
        unsure |= (ends == RENEW_LOST) & (place == renewals)
        unsure |= ends == ACQUIRE_LOST
        type_ = np.where(unsure[mine], self._unsure(rng, len(mine)), OK)
        late = np.where(f == 2, 850_000_000, 0)
        inv = mine * SLOT_NS + late + rng.integers(1, 50_000_000, len(mine))
        ret = inv + rng.integers(500_000, 40_000_000, len(mine))
        tries = rng.random((total, len(group))) < TRY_SHARE
        tries[np.arange(total), t.holder[of]] = False
        slot, who = np.nonzero(tries)
        n = len(slot)
        begun = slot * SLOT_NS + rng.integers(1, 500_000_000, n)
        done = np.maximum(begun, slot * SLOT_NS + 100_000_000)
        done = done + rng.integers(1_000_000, 200_000_000, n)
        refused = np.where(rng.random(n) < self._info, self._unsure(rng, n), FAIL)
        zeros = np.zeros(n, np.int64)
        rows = np.stack(
            (
                np.concatenate((group[t.holder[of[mine]]], group[who])),
                np.concatenate((f, zeros)),
                np.concatenate((type_, refused)),
                np.full(len(mine) + n, key),
                start + np.concatenate((inv, begun)),
                start + np.concatenate((ret, done)),
                rng.integers(3, size=len(mine) + n),
            )
        )
        return rows.astype(np.int64)

    def _unsure(self, rng: np.random.Generator, count: int) -> Ints:
        return np.where(rng.random(count) < OPEN_SHARE, OPEN, INFO)

    def _grant(
        self,
        rng: np.random.Generator,
        rows: Ints,
        key: int,
        t: Tenures,
        tenure: int,
        after: int,
        start: int,
    ) -> tuple[Ints, list[tuple[int, int]]]:
        """Grant a lock to another client while it is taken, and let that give it back a slot later;
        returns all rows, and thread and invocation of the two grants."""
        group = self.group(key)
        holder = int(t.holder[tenure])
        other = int(group[(holder + 1 + rng.integers(len(group) - 1)) % len(group)])
        last = start + SLOT_NS * int(t.begins[tenure] + t.renewals[tenure])
        at = last + after * SLOT_NS
        near = (rows[0] == other) & (rows[4] >= at) & (rows[4] < at + 2 * SLOT_NS)
        inv = at + 200_000_000
        added = np.array(
            [
                [other, other],
                [0, 2],
                [OK, OK],
                [key, key],
                [inv, inv + SLOT_NS],
                [inv + 5_000_000, inv + SLOT_NS + 5_000_000],
                [1, 1],
            ]
        )
        rows = np.concatenate((rows[:, ~near], added), axis=1)
        of_holder = (rows[0] == group[holder]) & (rows[4] >= last) & (rows[4] < last + SLOT_NS)
        first = int(rows[4, of_holder][0])
        return rows, [(int(group[holder]), first), (other, inv)]

    def texts_of(self, d: Draft) -> Ops:
        """The round's operations as rows have them."""
        values = [str(k) for k in range(self.keys)]
        begun = [values[k] for k in d.key.tolist()]
        ext = [
            [f'"broker":"{a}"' for a in self.cluster.sets[k // QUEUES].addresses]
            for k in range(self.keys)
        ]
        brokers = zip(d.key.tolist(), d.brokers.tolist(), strict=True)
        done_ext = [ext[k][b] for k, b in brokers]
        errors = {OK: "", FAIL: text(NOT_GRANTED), INFO: NO_ANSWER, OPEN: ""}
        error = [errors[y] for y in d.type.tolist()]
        f = [F[c] for c in d.f.tolist()]
        none = [""] * len(f)
        return Ops(d.inv, d.ret, d.type, d.process, f, begun, begun, none, done_ext, error)


def _laid(t: Tenures) -> Tenures:
    """The same; when each tenure begins, by how long each lasts."""
    given = (t.ends == RELEASED) | (t.ends == RELEASE_LOST)
    slots = t.renewals + np.where(given, 2, 1 + LEASE_SLOTS)
    return t._replace(slots=slots, begins=np.cumsum(slots) - slots)


def _choose(
    drawn: list[Tenures], tasks: Sequence[tuple[int, str, At]], rng: np.random.Generator
) -> dict[int, tuple[str, int, int]]:
    """A tenure for each task, whose holder falls silent; by number of the task."""
    every = [(k, n) for k, t in enumerate(drawn) for n in range(len(t.ends))]
    chosen: dict[int, tuple[str, int, int]] = {}
    for number, kind, at in tasks:
        free = [spot for spot in every if spot not in {c[1:] for c in chosen.values()}]
        if not free:
            break
        key, tenure = min(free, key=lambda spot: _rank(drawn, spot, at, rng))
        drawn[key].ends[tenure] = SILENT
        chosen[number] = (kind, key, tenure)
    return chosen


def _rank(
    drawn: list[Tenures], spot: tuple[int, int], at: At, rng: np.random.Generator
) -> tuple[float, int]:
    key, n = spot
    t = drawn[key]
    match at:
        case "first":
            return float(t.begins[n]), key
        case "last":
            return -float(t.begins[n]), key
        case "info":
            unsure = np.flatnonzero(t.ends > SILENT)
            return float(np.abs(unsure - n).min(initial=len(t.ends))), key
        case "fail-over":
            middle = (t.begins[-1] + t.slots[-1]) / 2
            return float(abs(t.begins[n] + t.renewals[n] - middle)), key
    return float(rng.random()), key


def _found(rows: Ints, spots: list[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(
        int(np.flatnonzero((rows[0] == thread) & (rows[4] == inv))[0]) for thread, inv in spots
    )
