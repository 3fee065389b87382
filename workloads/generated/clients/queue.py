"""Clients of queues: a true log of each queue, appended to and read by many at a time.

A send, or a transaction of two, takes effect at an instant between its invocation and completion;
by these instants messages get their offsets. A reader that polls at an instant gets everything that
was appended since its last answered poll. Of what has an unknown outcome half took effect. Readers
whose process was lost begin again where it was, in the middle.
"""

from typing import NamedTuple

import numpy as np

from maxq.workloads.generated.asked.request import Request
from maxq.workloads.generated.clients.rounds import before, drawn, ordinals
from maxq.workloads.generated.columns.rows import FAIL, INFO, OK, OPEN, Flags, Ints
from maxq.workloads.generated.columns.spool import Spool
from maxq.workloads.generated.nodes.cluster import (
    EPOCH_BYTES,
    MESSAGE_BYTES,
    OUTAGE_NS,
    Cluster,
    Ends,
)
from maxq.workloads.queue import QUEUES, reader_count

SEND, TXN, POLL, ASSIGN = range(4)
FIRST_VALUE = 1_000_000
TXN_SHARE, FAIL_SHARE, OPEN_SHARE, HAPPENED = 0.05, 0.01, 0.2, 0.5
FAILED_SHARE = 0.6  # of sends in an outage: the others are never answered


class Shot(NamedTuple):
    """An operation of a client of its own, planted beside the drawn ones; as the columns of
    `Draft`. `reversed`: its second message stands before its first."""

    f: int
    key: int
    inv: int
    ret: int
    lin: int
    type: int
    effect: bool
    reversed: bool = False
    polls: bool = False  # it polls what it sends


class Ghost(NamedTuple):
    """An append without an operation: of a value, or of one that nobody sends (None)."""

    key: int
    lin: int
    of: int | None  # the operation whose message it repeats


class Draft:
    """The operations of one round by columns. `thread` is -1 for planted ones. Offsets, and what
    polls show, are there after `settle`."""

    def __init__(self, number: int, start: int) -> None:
        self.number = number
        self.start = start
        self.cut = -1
        self.struck = -1  # the broker set of a fail-over
        self.thread = self.inv = self.ret = self.lin = self.f = np.empty(0, np.int64)
        self.type = self.key = self.key2 = self.value = self.offset = np.empty(0, np.int64)
        self.generation = np.empty(0, np.int64)
        self.effect = np.empty(0, np.bool_)
        self.spoilt = np.empty(0, np.bool_)  # by the fail-over
        self.shots: list[Shot] = []
        self.ghosts: list[Ghost] = []
        self.ghost_values: list[int] = []
        self.together: list[tuple[int, int]] = []  # operations that must be of one process
        self.from_, self.to = np.empty(0, np.int64), np.empty(0, np.int64)  # of polls, offsets
        self.edits: dict[int, list[tuple[int, int]]] = {}  # poll -> offsets and values it shows
        self.records = np.empty((0, 5), np.int64)  # lin, key, offset, value, op; in order
        self.of_set: list[Ints] = []  # instants of each set's appends, in order

    @property
    def over(self) -> int:
        """When the last operation is over."""
        return int(max(self.ret.max(initial=self.start), self.inv.max(initial=self.start)))


class Queues:
    """The model: see the module's text.

    Args:
        request: what is asked for.
        cluster: whose queues they are.
        step: how much a thread's number grows with each lost process.
    """

    def __init__(self, request: Request, cluster: Cluster, step: int) -> None:
        self.cluster = cluster
        self.keys = QUEUES * len(cluster.sets)
        self.readers = reader_count(request.concurrency, self.keys)
        self.threads = request.concurrency
        self.step = step
        self._info = request.info
        self.next_value = FIRST_VALUE
        self.ends = np.zeros(self.keys, np.int64)
        self.carried: list[Ints] = [np.empty(0, np.int64) for _ in range(self.keys)]
        self.bytes = [EPOCH_BYTES for _ in cluster.sets]
        self.counts = [0 for _ in cluster.sets]  # messages of each set
        self.epoch_counts: list[list[int]] = [[0] for _ in cluster.sets]  # before each epoch
        self.texts: dict[int, str] = {}  # of values below 0
        self.hidden: list[set[int]] = [set() for _ in range(self.keys)]  # from every reader
        self._turns = np.zeros(self.readers, np.int64)
        self._lost = np.zeros(self.threads, np.int64)
        self._unassigned = np.ones(self.readers, np.bool_)
        self._shots = 0

    # Drawing.

    def draft(self, rng: np.random.Generator, count: int, number: int, start: int, struck: int
              ) -> Draft:  # fmt: skip
        """Draw a round; `struck` is the set of its fail-over, or -1."""
        d = Draft(number, start)
        t = drawn(rng, self.threads, count, start, cuts=struck >= 0)
        n = len(t.thread)
        d.cut, d.struck = t.cut, struck
        d.thread, d.inv, d.ret, d.lin = t.thread, t.inv, t.ret, t.lin
        d.from_, d.to = np.zeros(n, np.int64), np.zeros(n, np.int64)
        reads = t.thread < self.readers
        dice = rng.random((4, n))
        d.f = np.where(reads, POLL, np.where(dice[0] < TXN_SHARE, TXN, SEND))
        unsure = dice[1] < self._info
        open_ = unsure & (dice[2] < OPEN_SHARE)
        d.type = np.where(unsure, np.where(open_, OPEN, INFO), OK)
        d.type[dice[1] > 1 - FAIL_SHARE] = FAIL
        d.key = rng.integers(self.keys, size=n)
        d.key2 = d.key ^ rng.integers(QUEUES, size=n)
        shares = (self.keys - 1 - t.thread) // self.readers + 1
        nth = ordinals(t.thread)
        turns = self._turns[np.where(reads, t.thread, 0)]
        d.key[reads] = (t.thread + self.readers * ((nth + turns) % np.maximum(shares, 1)))[reads]
        self._turns += np.bincount(t.thread[reads], minlength=self.readers)
        d.effect = (d.type == OK) | ((dice[3] < HAPPENED) & unsure)
        d.spoilt = (t.flying | t.outage) & (d.key // QUEUES == struck)
        self._spoil(d, t.flying, dice[2], dice[3])
        self._assign(d, reads)
        return d

    def _spoil(self, d: Draft, flying: Flags, dice: Ints, other: Ints) -> None:
        """What a fail-over leaves of the operations of its set."""
        reads = d.f == POLL
        d.type[d.spoilt & reads] = FAIL
        kept = d.spoilt & ~reads & flying & (d.lin < d.cut)
        d.type[kept], d.effect[kept] = INFO, True
        gone = d.spoilt & ~reads & ~kept
        d.type[gone] = np.where(dice[gone] < FAILED_SHARE, FAIL, INFO)
        d.effect[gone] = False

    def _assign(self, d: Draft, reads: Flags) -> None:
        """Let each new process of a reader begin with an assignment, which is always answered."""
        first = np.searchsorted(d.thread, np.arange(self.readers))
        after = np.searchsorted(d.thread, np.arange(self.readers), side="right")
        assign = np.zeros(len(d.thread) + 1, np.bool_)
        assign[first[self._unassigned & (first < after)]] = True
        self._unassigned &= first >= after
        lost = reads & ((d.type == INFO) | (d.type == OPEN))
        for i in np.flatnonzero(lost).tolist():
            if assign[i]:
                continue
            if i + 1 < after[d.thread[i]]:
                assign[i + 1] = True
            else:
                self._unassigned[d.thread[i]] = True
        chosen = assign[:-1]
        d.f[chosen], d.type[chosen] = ASSIGN, OK
        d.spoilt[chosen] = False

    def generations(self, d: Draft) -> None:
        """Find of which process of its thread each operation is."""
        lost = ((d.type == INFO) | (d.type == OPEN)) & (d.thread >= 0)
        earlier = self._lost[np.maximum(d.thread, 0)]
        d.generation = np.where(d.thread >= 0, earlier + before(lost, d.thread), 0)

    # Settling.

    def settle(self, d: Draft) -> None:
        """Give planted operations their columns, every message its value and offset, and every
        answered poll what it shows."""
        self._add_shots(d)
        self._values(d)
        self._append(d)
        self._polls(d)

    def _add_shots(self, d: Draft) -> None:
        if not d.shots:
            return
        columns = zip(*d.shots, strict=True)
        f, key, inv, ret, lin, type_, effect, *_ = (np.array(c, np.int64) for c in columns)
        d.thread = np.append(d.thread, np.full(len(f), -1))
        d.f, d.inv, d.ret = np.append(d.f, f), np.append(d.inv, inv), np.append(d.ret, ret)
        d.lin, d.type = np.append(d.lin, lin), np.append(d.type, type_)
        d.key, d.key2 = np.append(d.key, key), np.append(d.key2, key)
        d.effect = np.append(d.effect, effect.astype(np.bool_))
        d.spoilt = np.append(d.spoilt, np.zeros(len(f), np.bool_))
        d.generation = np.append(d.generation, np.zeros(len(f), np.int64))

    def shot(self, d: Draft, number: int) -> Shot | None:
        """The planted operation that an operation is."""
        first = len(d.thread) - len(d.shots)
        return d.shots[number - first] if number >= first else None

    def _values(self, d: Draft) -> None:
        writes = d.f <= TXN
        order = np.argsort(d.inv, kind="stable")
        many = np.where(writes, 1 + (d.f == TXN), 0)[order]
        d.value = np.full(len(d.f), -1, np.int64)
        d.value[order] = self.next_value + np.cumsum(many) - many
        self.next_value += int(many.sum())

    def _append(self, d: Draft) -> None:
        one = np.flatnonzero(d.effect & (d.f <= TXN))
        two = np.flatnonzero(d.effect & (d.f == TXN))
        shots = range(len(d.thread) - len(d.shots), len(d.thread))
        alone = [i for i in shots if d.shots[i - shots.start].polls]
        two = two[~np.isin(two, alone)]
        lin = np.concatenate((d.lin[one], d.lin[two]))
        key = np.concatenate((d.key[one], d.key2[two]))
        value = np.concatenate((d.value[one], d.value[two] + 1))
        op = np.concatenate((one, two))
        sub = np.concatenate((np.zeros(len(one), np.int64), np.ones(len(two), np.int64)))
        for i in shots:
            if d.shots[i - shots.start].reversed:
                sub[op == i] = 1 - sub[op == i]
        for ghost in d.ghosts:
            lin, key, op = np.append(lin, ghost.lin), np.append(key, ghost.key), np.append(op, -1)
            d.ghost_values.append(self._ghostly(d, ghost))
            value = np.append(value, d.ghost_values[-1])
            sub = np.append(sub, 2)
        order = np.lexsort((sub, lin))
        lin, key, value, op = lin[order], key[order], value[order], op[order]
        offset = np.empty(len(lin), np.int64)
        for k in range(self.keys):
            mine = key == k
            count = int(np.count_nonzero(mine))
            offset[mine] = np.arange(self.ends[k], self.ends[k] + count)
            self.carried[k] = np.append(self.carried[k], value[mine])
            self.ends[k] += count
        d.records = np.stack((lin, key, offset, value, op), axis=1)
        d.offset = np.full(len(d.f), -1, np.int64)
        own = op >= 0
        first = own & (value == d.value[np.maximum(op, 0)])
        d.offset[op[first]] = offset[first]
        home = key // QUEUES
        d.of_set = [lin[home == s] for s in range(len(self.cluster.sets))]

    def _ghostly(self, d: Draft, ghost: Ghost) -> int:
        if ghost.of is not None:
            return int(d.value[ghost.of])
        number = len(self.texts) + 1
        fresh = self.next_value
        self.next_value += 1
        self.texts[-number] = str(fresh) if number % 2 else f'"corrupt:{fresh:016x}"'
        return -number

    def _polls(self, d: Draft) -> None:
        d.from_, d.to = np.zeros(len(d.f), np.int64), np.zeros(len(d.f), np.int64)
        answered = (d.f == POLL) & (d.type == OK)
        for k in range(self.keys):
            polls = np.flatnonzero(answered & (d.key == k))
            seen = self.ends[k] - len(self.carried[k])
            mine = d.records[d.records[:, 1] == k]
            to = self.ends[k] - len(mine) + np.searchsorted(mine[:, 0], d.lin[polls])
            d.to[polls] = to
            d.from_[polls] = np.concatenate(([seen], to[:-1])) if len(to) else to

    # What was answered.

    def log_end(self, d: Draft, elected: int) -> Ends:
        """Where logs end at any time of a round; `elected`: when its new master was, or -1."""
        before = tuple(self.bytes)

        def end(number: int, at: int) -> int:
            count = int(np.searchsorted(d.of_set[number], at, side="right"))
            own = EPOCH_BYTES if number == d.struck and 0 <= elected <= at else 0
            return before[number] + MESSAGE_BYTES * count + own

        return end

    def processes(self, d: Draft) -> Ints:
        """Of each operation."""
        shots = np.cumsum(d.thread < 0) - 1 + self._shots
        one_shot = self.step - 1 + shots * self.step
        return np.where(d.thread >= 0, d.thread + self.step * d.generation, one_shot)

    def message(self, offset: int, value: int) -> str:
        """One message as a poll shows it."""
        return f"[{offset},{value if value >= 0 else self.texts[value]}]"

    def value_of(self, value: int) -> int | str:
        """What a value of the log is in an operation."""
        text = str(value) if value >= 0 else self.texts[value].strip('"')
        return int(text) if text.isdecimal() else text

    def shown(self, d: Draft, poll: int) -> list[tuple[int, int]]:
        """Offsets and values that an answered poll shows."""
        if poll in d.edits:
            return d.edits[poll]
        k = int(d.key[poll])
        first = int(self.ends[k]) - len(self.carried[k])
        places = range(int(d.from_[poll]), int(d.to[poll]))
        return [(o, int(self.carried[k][o - first])) for o in places if o not in self.hidden[k]]

    # Beside rounds.

    def still(self, number: int, at: int) -> int:
        """Where a log ends while nobody sends."""
        return self.bytes[number]

    def process_of(self, thread: int) -> int:
        """The process that a thread is now."""
        return int(thread + self.step * self._lost[thread])

    def append_one(self, key: int, value: int, spool: Spool | None) -> tuple[int, int]:
        """Append one message; returns its offset and its byte."""
        s, offset = key // QUEUES, int(self.ends[key])
        byte = self.bytes[s]
        self.ends[key] += 1
        self.counts[s] += 1
        self.bytes[s] += MESSAGE_BYTES
        if spool is not None:
            spool.append(s, np.array([[key, offset, value]], np.int64))
        return offset, byte

    def begin_epoch(self, number: int) -> None:
        """A set has another master."""
        self.bytes[number] += EPOCH_BYTES
        self.epoch_counts[number].append(self.counts[number])

    # On to the next round.

    def advance(self, d: Draft) -> None:
        """Forget the round."""
        for k in range(self.keys):
            polls = np.flatnonzero((d.f == POLL) & (d.type == OK) & (d.key == k))
            if len(polls):
                left = int(self.ends[k] - d.to[polls[-1]])
                self.carried[k] = self.carried[k][len(self.carried[k]) - left :]
        lost = ((d.type == INFO) | (d.type == OPEN)) & (d.thread >= 0)
        self._lost += np.bincount(d.thread[lost], minlength=self.threads)
        self._shots += len(d.shots)
        for s, lins in enumerate(d.of_set):
            self.bytes[s] += MESSAGE_BYTES * len(lins) + EPOCH_BYTES * (s == d.struck)
            if s == d.struck:
                self.epoch_counts[s].append(
                    self.counts[s] + int(np.searchsorted(lins, d.cut + OUTAGE_NS // 4))
                )
            self.counts[s] += len(lins)
