"""How long what clients asked for took, and how it ended: arrays, by kind of operation.

Times are ns of the history's clock. A completion's latency counts from its invocation; of a
completion without a time, or without an invocation before it, it is unknown.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from maxq.histories.history import History
from maxq.histories.observed import ACQUIRE, NOT_GRANTED, RENEW, refused
from maxq.histories.op import Op

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows

Outcome = Literal["ok", "refused", "info", "fail"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "refused", "info", "fail")
Ints = npt.NDArray[np.int64]


class Timing(NamedTuple):
    """One kind of operation. `counts` are its completions; of those with a known time, `ended` says
    when they were; of those with a known latency, `begun` and `took` say since when and how long,
    and `slowest` is the greatest (ns; 0 of none). Arrays are in order of completions, and of a long
    history hold each `every`-th."""

    f: str
    invoked: int
    counts: Mapping[Outcome, int]
    ended: Mapping[Outcome, Ints]
    begun: Mapping[Outcome, Ints]
    took: Mapping[Outcome, Ints]
    slowest: Mapping[Outcome, int]
    every: int = 1

    @property
    def open(self) -> int:
        """How many never completed."""
        return max(0, self.invoked - sum(self.counts.values()))

    @property
    def slowest_ns(self) -> int:
        """The greatest known latency; 0 if there is none."""
        return max(self.slowest.values(), default=0)

    def latencies(self) -> Ints:
        """Of the ok ones, ascending."""
        return np.sort(self.took["ok"])


class Timings(NamedTuple):
    """Each kind of operation of clients and observers, by name; how many operations the whole
    history has, and its first and last known time (0 where there is none), up to `LAST_NS`."""

    kinds: Sequence[Timing]
    operations: int
    first_ns: int
    last_ns: int


NO_TIMES = np.zeros(0, np.int64)
LAST_NS = 1 << 60  # what is later is no time of a run
KEPT_MAX = 1 << 22  # completions whose times are kept


def outcome_of(op: Op) -> Outcome | None:
    """How a completion is counted; None: it is none."""
    if op.type == "fail":
        return "refused" if refused(op) else "fail"
    return op.type if op.type in ("ok", "info") else None


def timings_of(history: History) -> Timings:
    """Those of a history; of one that is only held in part, as it was counted of the whole."""
    known: Callable[[], Timings] | None = getattr(history, "timings", None)
    return _timings(history) if known is None else known()


def _timings(history: History) -> Timings:
    names: dict[str, int] = {}
    rows = []
    for op in history.clients:
        outcome = outcome_of(op)
        if outcome is None and op.type != "invoke":
            continue
        begun = history.invocation(op) if outcome is not None else None
        known = begun is not None and begun.index < op.index
        begun_ns = begun.time if begun is not None and known else -1
        code = -1 if outcome is None else OUTCOMES.index(outcome)
        rows.append((names.setdefault(op.f, len(names)), code, op.time, begun_ns))
    tally = _Tally()
    tally.take(*np.array(rows, np.int64).reshape(len(rows), 4).T)
    times = [op.time for op in history.ops if 0 <= op.time <= LAST_NS]
    return Timings(
        kinds=tally.kinds(tuple(names)),
        operations=len(history),
        first_ns=min(times, default=0),
        last_ns=max(times, default=0),
    )


def timings_in(pieces: Iterable["Rows"]) -> Timings:
    """Those of a history that is read piece by piece."""
    names: dict[str, int] = {}
    tally = _Tally()
    operations, first_ns, last_ns = 0, LAST_NS + 1, -1
    for rows in pieces:
        at = np.flatnonzero(rows.client)
        code = np.array([names.setdefault(n, len(names)) for n in rows.names] or [0], np.int64)
        earlier = (rows.begun[at] >= 0) & (rows.begun[at] < rows.index[at])
        begun = np.where(earlier, rows.begun_ns[at], -1)
        tally.take(code[rows.f[at]], _outcomes(rows, at), rows.time[at], begun)
        times = rows.time[(rows.time >= 0) & (rows.time <= LAST_NS)]
        operations += len(rows)
        first_ns = min(first_ns, int(times.min(initial=first_ns)))
        last_ns = max(last_ns, int(times.max(initial=last_ns)))
    return Timings(
        kinds=tally.kinds(tuple(names)),
        operations=operations,
        first_ns=max(0, first_ns) if last_ns >= 0 else 0,
        last_ns=max(0, last_ns),
    )


def _outcomes(rows: "Rows", at: Ints) -> Ints:
    """How some operations of clients are counted: a place in `OUTCOMES`, -1 of invocations."""
    of_types = [-1, *(OUTCOMES.index(o) for o in ("ok", "fail", "info"))]  # invoke comes first
    outcome = np.array(of_types)[rows.type[at].astype(np.int64)]
    failed = np.flatnonzero(rows.is_of(at, ACQUIRE, RENEW) & (outcome == OUTCOMES.index("fail")))
    errors, said = rows.errors(at[failed])
    taken = np.array([error == NOT_GRANTED for error in errors] + [False], np.bool_)
    outcome[failed[taken[said]]] = OUTCOMES.index("refused")
    return outcome


class _Tally:
    """Counts operations of clients by kind and outcome, and keeps the times of as many completions
    as fit: of all, or of each second, fourth and so on, wherever pieces end."""

    def __init__(self) -> None:
        self._invoked: Counter[int] = Counter()
        self._counts: Counter[tuple[int, int]] = Counter()
        self._slowest: dict[tuple[int, int], int] = {}
        self._seen, self._every = 0, 1
        self._kept: list[tuple[Any, ...]] = []

    def take(self, kind: Ints, outcome: Ints, time: Ints, begun: Ints) -> None:
        """Take the next operations.

        Args:
            kind: of each, a number.
            outcome: of each completion, a place in `OUTCOMES`; -1: an invocation.
            time: of each operation (ns); -1: unknown.
            begun: when its invocation was; -1: unknown, or it has none.
        """
        done = outcome >= 0
        self._invoked.update(dict(zip(*_tallied(kind[~done]), strict=True)))
        kind, outcome, time, begun = kind[done], outcome[done], time[done], begun[done]
        took = np.where((time >= 0) & (begun >= 0) & (begun <= time), time - begun, -1)
        for pair, count in zip(*_tallied(kind * len(OUTCOMES) + outcome), strict=True):
            key = divmod(pair, len(OUTCOMES))
            self._counts[key] += count
            most = int(took[(kind == key[0]) & (outcome == key[1])].max(initial=0))
            self._slowest[key] = max(most, self._slowest.get(key, 0))
        at = np.arange(self._seen, self._seen + len(kind))
        self._seen += len(kind)
        self._keep((at, kind.astype(np.int16), outcome.astype(np.int8), time, begun))
        while self._seen // self._every > KEPT_MAX:
            self._every *= 2
            kept = [np.concatenate(column) for column in zip(*self._kept, strict=True)]
            self._kept.clear()
            self._keep(tuple(kept))

    def _keep(self, columns: tuple[Ints, ...]) -> None:
        mine = columns[0] % self._every == 0
        self._kept.append(tuple(column[mine] for column in columns))

    def kinds(self, names: Sequence[str]) -> list[Timing]:
        """Each kind, in order of its name."""
        empty = np.zeros(0, np.int64)
        kept = [np.concatenate(c) for c in zip(*self._kept, strict=True)] or [empty] * 5
        found = []
        for number in sorted(range(len(names)), key=names.__getitem__):
            if self._invoked[number] or any(of == number for of, _ in self._counts):
                mine = kept[1] == number
                found.append(self._timing(number, names[number], *(c[mine] for c in kept[2:])))
        return found

    def _timing(self, number: int, f: str, outcome: Ints, time: Ints, begun: Ints) -> Timing:
        ended: dict[Any, Ints] = {}
        since: dict[Any, Ints] = {}
        took: dict[Any, Ints] = {}
        for code, name in enumerate(OUTCOMES):
            timed = (outcome == code) & (time >= 0)
            ended[name] = time[timed]
            timed &= (begun >= 0) & (begun <= time)
            since[name], took[name] = begun[timed], time[timed] - begun[timed]
        codes = dict(enumerate(OUTCOMES))
        counts = {name: self._counts[number, code] for code, name in codes.items()}
        slowest = {name: self._slowest.get((number, code), 0) for code, name in codes.items()}
        invoked, every = self._invoked[number], self._every
        return Timing(f, invoked, counts, ended, since, took, slowest, every)


def _tallied(numbers: Ints) -> tuple[list[int], list[int]]:
    """Which numbers there are, and how often."""
    found, counts = np.unique(numbers, return_counts=True)
    return found.tolist(), counts.tolist()
