"""Clients that commit offsets of consumer groups, each further, and fetch what they have.

A group is of one process, which commits to it one offset after the other; any process of a thread
fetches any group of the thread. A commit of unknown outcome took effect or did not, and its group
gets no more commits. Before each round nobody does anything for long enough that every replica has
copied every offset. Times are ns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maxq.histories.observed import COMMIT_OFFSET, FETCH_OFFSET, FINAL
from maxq.histories.op import Op
from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.asked.request import At, Request
from maxq.workloads.generated.clients.places import ordered
from maxq.workloads.generated.clients.rounds import drawn
from maxq.workloads.generated.columns.rows import FAIL, INFO, OK, OPEN, Act, Flags, Ints, Ops
from maxq.workloads.generated.nodes.cluster import OUTAGE_NS, Cluster

COPIED_NS = 36_000_000_000  # of quiet before each round
FETCHES = 0.5
OPEN_SHARE, HAPPENED = 0.2, 0.5
FIRST, LAST_OFFSET = 2, 1_000_000
STEP_NS = 1_000_000
NO_ANSWER = '["timeout","no answer within 3.0 s"]'
REFUSED = '["ConnectionRefusedError","nobody listens there"]'
REGRESSED = "consumer-offset-regressed"


class Draft(NamedTuple):
    """The operations of a round by columns, in order of threads and times. `offset` is what is
    committed, or was fetched."""

    inv: Ints
    ret: Ints
    type: Ints
    process: Ints
    fetches: Flags
    key: Ints
    offset: Ints
    over: int
    cut: int
    struck: int


class Offsets:
    """The model: see the module's text.

    Args:
        request: what is asked for.
        cluster: who keeps the offsets.
        step: how much a thread's number grows with each lost process.
    """

    def __init__(self, request: Request, cluster: Cluster, step: int) -> None:
        self.cluster = cluster
        self.threads = request.concurrency
        self.step = step
        self._info = request.info
        self._lost = np.zeros(self.threads, np.int64)
        self._groups: list[list[int]] = [[] for _ in range(self.threads)]
        self._committed: dict[int, int] = {}  # what is true
        self._next: dict[int, int] = {}
        self._copied: dict[int, int] = {}  # what every replica has

    def draft(
        self,
        rng: np.random.Generator,
        count: int,
        start: int,
        struck: int,
        tasks: Sequence[tuple[int, str, At]],
    ) -> tuple[Draft, dict[int, Mark]]:
        """Draw a round; tasks are a number, a kind and a place."""
        copied = dict(self._copied)  # before the round
        t = drawn(rng, self.threads, count, start, cuts=struck >= 0)
        n = len(t.thread)
        dice = rng.random((4, n))
        unsure = dice[0] < self._info
        type_ = np.where(unsure, np.where(dice[1] < OPEN_SHARE, OPEN, INFO), OK)
        effect = (type_ == OK) | (dice[2] < HAPPENED)
        outage = t.flying | t.outage
        lost = (type_ == INFO) | (type_ == OPEN)
        fetches = dice[3] < FETCHES
        key, offset = np.zeros(n, np.int64), np.zeros(n, np.int64)
        process = np.zeros(n, np.int64)
        for i, thread in enumerate(t.thread.tolist()):
            me = self.process_of(thread)
            process[i] = me
            groups = self._groups[thread]
            if me not in groups:
                groups.append(me)
                fetches[i] = False
            group = groups[int(dice[1, i] * len(groups))] if fetches[i] else me
            home = group % len(self.cluster.sets) == struck
            if outage[i] and home:
                kept = not fetches[i] and t.flying[i] and t.lin[i] < t.cut
                type_[i], effect[i] = (INFO, True) if kept else (FAIL, False)
                lost[i] = kept
            key[i] = group
            if fetches[i]:
                offset[i] = self._committed.get(group, 0)
            else:
                offset[i] = self._next.get(group, FIRST)
                self._next[group] = int(offset[i]) + 1
                if effect[i]:
                    self._committed[group] = int(offset[i])
                late = t.cut < 0 or t.inv[i] > t.cut + OUTAGE_NS // 2
                if type_[i] == OK and late:
                    self._copied[group] = int(offset[i])
            if lost[i]:
                self._lost[thread] += 1
        over = int(t.ret.max())
        d = Draft(t.inv, t.ret, type_, process, fetches, key, offset, over, t.cut, struck)
        return d, self._planted(d, copied, tasks, rng)

    def process_of(self, thread: int) -> int:
        """The process that a thread is now."""
        return int(thread + self.step * self._lost[thread])

    def _planted(
        self,
        d: Draft,
        before: dict[int, int],
        tasks: Sequence[tuple[int, str, At]],
        rng: np.random.Generator,
    ) -> dict[int, Mark]:
        """Let fetches get less than was copied everywhere before the round."""
        copied = np.array([before.get(k, 0) for k in d.key.tolist()])
        able = np.flatnonzero(d.fetches & (d.type == OK) & (copied > 0))
        unsure = d.inv[(d.type == INFO) | (d.type == OPEN)]
        marks: dict[int, Mark] = {}
        for number, _, at in tasks:
            if not len(able):
                break
            i = ordered(d.inv, able, unsure, at, d.cut, rng)[0]
            able = able[able != i]
            d.offset[i] = copied[i] - 1
            marks[number] = Mark(int(d.key[i]), (i,), int(d.offset[i]), set=self._set_of(i, d))
        return marks

    def _set_of(self, i: int, d: Draft) -> str:
        return self.cluster.sets[int(d.key[i]) % len(self.cluster.sets)].name

    def texts_of(self, d: Draft) -> Ops:
        """The round's operations as rows have them."""
        sets = self.cluster.sets
        begun, done, ext, error = [], [], [], []
        errors = {OK: "", FAIL: REFUSED, INFO: NO_ANSWER, OPEN: ""}
        late = (d.inv > d.cut).tolist()
        columns = (d.fetches, d.key, d.offset, d.type)
        for i, (fetch, k, o, y) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            s = sets[k % len(sets)]
            node = s.master if s.number != d.struck or late[i] else s.before_election()
            pair = f"[{k},{o}]"
            begun.append(str(k) if fetch else pair)
            done.append(begun[-1] if y != OK else pair)
            ext.append(f'"broker":"{s.addresses[node]}"' if y == OK else "")
            error.append(errors[y])
        f = [FETCH_OFFSET if fetch else COMMIT_OFFSET for fetch in d.fetches.tolist()]
        none = [""] * len(f)
        return Ops(d.inv, d.ret, d.type, d.process, f, begun, done, none, ext, error)

    # At the end.

    def last_commits(self, now: int) -> list[Act]:
        """Each thread commits once more."""
        acts = []
        for thread in range(self.threads):
            me, at = self.process_of(thread), now + thread
            self._committed[me] = LAST_OFFSET
            value, ext = [me, LAST_OFFSET], self._broker(me)
            begun = Op("invoke", me, COMMIT_OFFSET, value, time=at)
            acts.append(Act(begun, Op("ok", me, COMMIT_OFFSET, value, time=at + STEP_NS, ext=ext)))
        return acts

    def last_fetches(self, now: int) -> list[Act]:
        """Each thread asks for that."""
        acts = []
        for thread in range(self.threads):
            me, at = self.process_of(thread), now + thread
            asked = {FINAL: thread}
            ext = {**self._broker(me), **asked}
            begun = Op("invoke", me, FETCH_OFFSET, me, time=at, ext=asked)
            value = [me, LAST_OFFSET]
            acts.append(Act(begun, Op("ok", me, FETCH_OFFSET, value, time=at + STEP_NS, ext=ext)))
        return acts

    def _broker(self, group: int) -> dict[str, str]:
        of_set = self.cluster.sets[group % len(self.cluster.sets)]
        return {"broker": of_set.addresses[of_set.master]}
