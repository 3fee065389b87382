"""What every part of a generated history shares: state, counts, and what was planted."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from maxq.workloads.generated.asked.kinds import KINDS
from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.asked.request import At, Planted, Request
from maxq.workloads.generated.clients.locks import Locks
from maxq.workloads.generated.clients.offsets import Offsets
from maxq.workloads.generated.clients.queue import Queues
from maxq.workloads.generated.clients.queue_plants import Planter
from maxq.workloads.generated.clients.registration import Registrations
from maxq.workloads.generated.columns.rows import Act, Batch, Laid, count_rows, lay_out
from maxq.workloads.generated.columns.spool import Spool
from maxq.workloads.generated.nodes.cluster import OBSERVERS, Cluster
from maxq.workloads.queue import QUEUES


class Task(NamedTuple):
    """One anomaly to be planted."""

    number: int
    kind: str
    at: At


class Piece(NamedTuple):
    """Some rows of a history: how many, the index of the first, and how to make them. One that
    `follows` the piece before it shares texts with it."""

    rows: int
    first: int
    batch: Callable[[], Batch]
    follows: bool = False


class Outcome:
    """What came of making a history: rows, operations of clients in rounds, how long these took
    (ns), what was planted, by number of task."""

    def __init__(self) -> None:
        self.rows = 0
        self.ops = 0
        self.main_ns = 0
        self.planted: dict[int, Planted] = {}


class World:
    """The state of one history while it is made.

    Args:
        request: what is asked for.
        spool: where messages are kept; None: nothing is written.
    """

    def __init__(self, request: Request, spool: Spool | None) -> None:
        self.request = request
        self.outcome = Outcome()
        self.spool = spool
        self.begins: dict[int, int] = {}  # of keys: the first offset that is not deleted
        keys = QUEUES * request.sets
        self.step = request.concurrency + keys + OBSERVERS + 1
        self.first_observer = request.concurrency + keys
        self.cluster = Cluster(request.sets, request.learners, self.first_observer, self.step)
        self.queues = Queues(request, self.cluster, self.step)
        self.planter = Planter(self.queues)
        self.locks = Locks(request, self.cluster, self.step)
        self.offsets = Offsets(request, self.cluster, self.step)
        self.registrations = Registrations(request, self.step)

    def acts(self, acts: Sequence[Act]) -> Piece:
        """A piece of acts alone."""
        count = count_rows(np.empty(0, np.int64), acts)
        return self.counted(count, lambda: lay_out(None, acts).batch)

    def noted(self, acts: Sequence[Act], tasks: Sequence[Task], marks: Mapping[int, Mark]) -> Piece:
        """The same, with what was planted in them."""
        first, none = self.outcome.rows, np.empty(0, np.int64)
        self.note(tasks, marks, first, None)

        def batch() -> Batch:
            laid = lay_out(None, acts)
            self.note(tasks, marks, first, laid)
            return laid.batch

        return self.counted(count_rows(none, acts), batch)

    def counted(self, count: int, batch: Callable[[], Batch], *, follows: bool = False) -> Piece:
        """A piece of so many rows."""
        first = self.outcome.rows
        self.outcome.rows += count
        return Piece(count, first, batch, follows)

    def note(
        self, tasks: Sequence[Task], marks: Mapping[int, Mark], first: int, laid: Laid | None
    ) -> None:
        """Remember what was planted in a piece; `first` is the index of its first row."""
        for t in tasks:
            if t.number in marks:
                mark, ops = marks[t.number], list[int]()
                if laid is not None:
                    done = [int(max(laid.done_at[i], laid.begun_at[i])) for i in mark.ops]
                    ops = [first + a for a in (*done, *(max(laid.acts_at[i]) for i in mark.acts))]
                self.note_at(t, mark, ops)

    def note_at(self, task: Task, mark: Mark, ops: Sequence[int]) -> None:
        """The same of one, with the indices of its rows."""
        self.outcome.planted[task.number] = self._planted(task, mark, ops)

    def _planted(self, task: Task, mark: Mark, ops: Sequence[int]) -> Planted:
        kind = KINDS[task.kind]
        return Planted(
            kind=kind.name,
            allowed=kind.allowed,
            symptoms=kind.symptoms,
            at=task.at,
            key=mark.key if mark.key >= 0 else None,
            set=mark.set or (f"b{mark.key // QUEUES}" if mark.key >= 0 else ""),
            ops=tuple(sorted(ops)),
            offset=mark.offset,
            value=None if mark.value is None else self.queues.value_of(mark.value),
            what=kind.what,
        )
