"""Applicants for broker ids, and spare brokers that come and go.

Applicants of many threads race for the ids of invented sets; an application takes effect at an
instant between its invocation and completion, and by these instants a set's ids are given out. The
first threads each own a broker, a set of its own: it joins, goes, may get another address or lose
its store, and joins again, under its id or, without its store, under the next one. Times are ns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maxq.histories.fault_facts import CHANGE_ADDRESS, WIPE
from maxq.histories.observed import APPLY_ID, JOIN, LEAVE
from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.asked.request import At, Request
from maxq.workloads.generated.clients.places import ordered
from maxq.workloads.generated.clients.rounds import before, drawn
from maxq.workloads.generated.columns.rows import FAIL, INFO, OK, OPEN, Flags, Ints, Ops, text
from maxq.workloads.generated.nodes.cluster import address

OWNERS = 2
OF_SET = 12  # applications for the ids of one set
KILL_BROKER = "kill-broker"
OPEN_SHARE, HAPPENED, FAIL_SHARE = 0.2, 0.5, 0.01
GONE_SHARE, WIPE_SHARE, MOVE_SHARE = 0.5, 0.3, 0.4
STRANGE_ID = 1_000_000  # from here on no broker has it
NO_ANSWER = '["timeout","no answer within 3.0 s"]'
REFUSED = '["ConnectionRefusedError","nobody listens there"]'
MACHINES = 200  # spare brokers' machines come behind this number
PLANTS = frozenset(("duplicate-id", "id-changed"))


class Draft(NamedTuple):
    """The operations of a round by columns, in order of threads and times."""

    inv: Ints
    ret: Ints
    type: Ints
    process: Ints
    f: list[str]
    begun: list[str]
    done: list[str]
    over: int
    cut: int


class Spare:
    """A spare broker and what its owner does next."""

    def __init__(self, number: int) -> None:
        self.name = f"r{number}"
        self.id = 1
        self.given = 1  # ids of its set
        self.moves = 0
        self.machine = MACHINES + 8 * number
        self.left: list[str] = [JOIN]
        self.known = False  # it has joined since its store was removed last


class Registrations:
    """The model: see the module's text.

    Args:
        request: what is asked for.
        step: how much a thread's number grows with each lost process.
    """

    def __init__(self, request: Request, step: int) -> None:
        self.threads = request.concurrency
        self.step = step
        self._info = request.info
        self._lost = np.zeros(self.threads, np.int64)
        self._count = 0
        self._given: dict[int, int] = {}  # by set
        self._spares = [Spare(n) for n in range(OWNERS)]
        self._again: set[int] = set()  # joins of a round under an id that the broker has

    def draft(
        self,
        rng: np.random.Generator,
        count: int,
        start: int,
        tasks: Sequence[tuple[int, str, At]],
    ) -> tuple[Draft, dict[int, Mark]]:
        """Draw a round; tasks are a number, a kind and a place."""
        t = drawn(rng, self.threads, count, start, cuts=False)
        n = len(t.thread)
        dice = rng.random((3, n))
        owners = t.thread < OWNERS
        unsure = (dice[0] < self._info) & ~owners
        type_ = np.where(unsure, np.where(dice[1] < OPEN_SHARE, OPEN, INFO), OK)
        type_[(dice[0] > 1 - FAIL_SHARE) & ~owners] = FAIL
        effect = ~owners & ((type_ == OK) | (unsure & (dice[2] < HAPPENED)))
        lost = unsure
        process = t.thread + self.step * (self._lost[t.thread] + before(lost, t.thread))
        self._lost += np.bincount(t.thread[lost], minlength=self.threads)
        of_set, ids = self._applied(t.inv, t.lin, owners, effect)
        spares = self._owned(rng, t.inv, t.thread, owners)
        cut = int(np.sort(t.inv)[n // 2])
        marks = self._planted(rng, (t.inv, type_, of_set, ids, cut), spares, tasks)
        f, begun, done = [], [], []
        for i in range(n):
            if owners[i]:
                name, asked, answer = spares[i]
            else:
                name = APPLY_ID
                asked = {"set": f"a{of_set[i]}", "code": f"maxq-{process[i]};{ids[i, 1]}"}
                answer = {**asked, "id": int(ids[i, 0])} if type_[i] == OK else asked
            f.append(name)
            begun.append(text(asked))
            done.append(text(answer))
        return Draft(t.inv, t.ret, type_, process, f, begun, done, int(t.ret.max()), cut), marks

    def _applied(self, inv: Ints, lin: Ints, owners: Flags, effect: Flags) -> tuple[Ints, Ints]:
        """The set of each application; its id (-1: none), and its own number."""
        n = len(inv)
        of_set, ids = np.full(n, -1), np.full((n, 2), -1)
        for i in np.argsort(inv).tolist():
            if not owners[i]:
                of_set[i], ids[i, 1] = self._count // OF_SET, self._count
                self._count += 1
        for i in np.argsort(lin).tolist():
            if effect[i]:
                number = int(of_set[i])
                self._given[number] = self._given.get(number, 0) + 1
                ids[i, 0] = self._given[number]
        return of_set, ids

    def _owned(
        self, rng: np.random.Generator, inv: Ints, thread: Ints, owners: Flags
    ) -> dict[int, tuple[str, dict[str, object], dict[str, object]]]:
        """What owners do: the kind of operation, its value, and its result."""
        found = {}
        self._again = set()
        for i in np.flatnonzero(owners).tolist():
            spare = self._spares[int(thread[i])]
            f = spare.left.pop(0)
            asked: dict[str, object] = {"node": spare.name}
            answer = dict(asked)
            if f == JOIN:
                at = address(spare.machine + spare.moves % 8, 10911)
                answer |= {"set": spare.name, "id": spare.id, "address": at}
                if spare.known:
                    self._again.add(i)
                spare.known = True
                spare.left = self._round(rng)
            elif f == WIPE:
                spare.given += 1
                spare.id, spare.known = spare.given, False
            elif f == CHANGE_ADDRESS:
                spare.moves += 1
            found[i] = (f, asked, answer)
        return found

    def _round(self, rng: np.random.Generator) -> list[str]:
        dice = rng.random(3)
        left = [LEAVE if dice[0] < GONE_SHARE else KILL_BROKER]
        left += [CHANGE_ADDRESS] if dice[1] < MOVE_SHARE else []
        left += [WIPE] if dice[2] < WIPE_SHARE else []
        return [*left, JOIN]

    def _planted(
        self,
        rng: np.random.Generator,
        drawn_: tuple[Ints, Ints, Ints, Ints, int],
        spares: dict[int, tuple[str, dict[str, object], dict[str, object]]],
        tasks: Sequence[tuple[int, str, At]],
    ) -> dict[int, Mark]:
        inv, type_, of_set, ids, cut = drawn_
        marks: dict[int, Mark] = {}
        used: set[int] = set()
        for number, kind, at in tasks:
            again = kind == "duplicate-id"
            able = np.flatnonzero((of_set >= 0) & (type_ == OK) & (ids[:, 0] > 0))
            if not again:
                able = np.array(sorted(self._again), np.int64)
            unsure = inv[(type_ == INFO) | (type_ == OPEN)]
            for i in ordered(inv, able, unsure, at, cut, rng):
                if i in used:
                    continue
                if again:
                    same = (of_set == of_set[i]) & (type_ == OK) & (ids[:, 0] != ids[i, 0])
                    others = [j for j in np.flatnonzero(same).tolist() if j not in used]
                    if not others:
                        continue
                    ids[i, 0] = ids[others[0], 0]
                    used |= {i, others[0]}
                    marks[number] = Mark(-1, (others[0], i), set=f"a{of_set[i]}")
                else:
                    name, asked, answer = spares[i]
                    changed = {**answer, "id": STRANGE_ID + number}
                    spares[i] = (name, asked, changed)
                    used.add(i)
                    marks[number] = Mark(-1, (i,), set=str(answer["set"]))
                break
        return marks

    def texts_of(self, d: Draft) -> Ops:
        """The round's operations as rows have them."""
        errors = {OK: "", FAIL: REFUSED, INFO: NO_ANSWER, OPEN: ""}
        error = [errors[y] for y in d.type.tolist()]
        none = [""] * len(error)
        return Ops(d.inv, d.ret, d.type, d.process, d.f, d.begun, d.done, none, none, error)
