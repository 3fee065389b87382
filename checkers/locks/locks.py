"""Locks: two clients never hold one queue's lock at a time, counted by leases.

Each key is a queue and judged alone (`lease_key`). A process is one client; after an `info` another
number, and so another client, goes on in its place. An `info` release may have given the lock back,
so it excuses; an `info` acquire may have been granted, and no client relies on it.

Claims: L1, L2 (docs/spec/acting-master.md 8.2), in strict mode. No fault excuses: a broker that
loses its table in a restart must not vote until every lease that it may have given has run out.
Where brokers are not in strict mode, L3 is judged: L1 of each process of a broker (`one_broker`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.elements import node_of
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.core.promises import STRICT, unfulfilled
from maxq.checkers.evidence.observations import NEVER, begin
from maxq.checkers.evidence.story import when
from maxq.checkers.evidence.verdicts import EVERY, Case, Found, rule
from maxq.checkers.locks.lease_key import Grant, Overlap, TooSoon, overlaps, too_soon
from maxq.checkers.locks.one_broker import Brokers, brokers_of
from maxq.histories.history import History
from maxq.histories.observed import ACQUIRE, RELEASE, RENEW
from maxq.histories.op import HistoryError, Op

if TYPE_CHECKING:
    from maxq.checkers.core.columnar import Arrays, Dealing, Groups, Unsure
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

REQUEST_NS = 2_000_000_000  # a broker's wait for its quorum: grants may be closer by that
ASKING = frozenset((ACQUIRE, RENEW))


class Leases(NamedTuple):
    """How long a broker keeps a lock, and how long a client relies on it; ns. `brokers`: those that
    are not in strict mode; None: they are."""

    apart_ns: int
    client_ns: int
    brokers: Brokers | None = None


class Asked(NamedTuple):
    """One event of one lock; `inv_ns` is -1 where the invocation is missing."""

    process: int
    inv_ns: int
    op: Op


class LockJudgement(NamedTuple):
    """What was found of one lock; `gap_ns` is None where nothing was handed over. `shared`: how
    many processes of brokers had granted it to several clients, where that is looked at."""

    found: list[Found]
    processes: frozenset[int]
    grants: int
    untimed: int
    gap_ns: int | None
    shared: int = 0


class Locks(KeyedChecker):
    """The checker. See the module's text."""

    name = "locks"
    claims = ("L1", "L2", "L3")
    reads = frozenset((*ASKING, RELEASE))

    def prepare(self, history: History, context: Context) -> Leases:
        brokers = brokers_of(history, context) if not_strict(context) else None
        return Leases(context.lock_lease_ns - REQUEST_NS, context.client_lease_ns, brokers)

    def rows(self, event: Event, known: Leases) -> Iterator[tuple[int, Asked]]:
        yield asked_of(event)

    def judge(
        self, key: int, rows: Sequence[Asked], known: Leases, more: object = None
    ) -> LockJudgement:
        grants, untimed = grants_of(rows)
        completions = {row.op.index: row.op for row in rows}
        found = [
            _soon(completions, key, f, known.apart_ns) for f in too_soon(grants, known.apart_ns)
        ]
        both, gap = overlaps(grants, known.client_ns)
        found += (_overlap(completions, key, f) for f in both)
        clients = frozenset(g.process for g in grants)
        shared = 0
        for broker, alone in _alone(rows, completions, known.brokers):
            shared += len({g.process for g in alone}) > 1
            soon = too_soon(alone, known.apart_ns)
            found += (_by_one(completions, key, f, broker, known.apart_ns) for f in soon)
        return LockJudgement(found, clients, len(grants), untimed, gap, shared)

    def columns(self, rows: "Rows", chosen: "Ints", known: Leases) -> "Dealing":
        from maxq.checkers.locks import lease_columns  # numpy, for those who have columns

        return lease_columns.elements(rows, chosen, _key)

    def judge_groups(self, groups: "Groups", known: Leases) -> "list[LockJudgement | Unsure]":
        return [self._by_arrays(arrays, known) for _, arrays in groups.each()]

    def _by_arrays(self, arrays: "Arrays", known: Leases) -> "LockJudgement | Unsure":
        from maxq.checkers.core.columnar import UNSURE
        from maxq.checkers.locks import lease_columns

        if known.brokers is not None:
            return UNSURE  # no array says who granted
        found = lease_columns.clean(arrays, known.apart_ns, known.client_ns)
        if not isinstance(found, lease_columns.Clean):
            return found
        return LockJudgement(found=[], **found._asdict())

    def evidence(self, results: Mapping[int, LockJudgement]) -> Iterator[int]:
        yield from (at for judged in results.values() for f in judged.found for at in f.ops)

    def conclude(
        self,
        history: History,
        context: Context,
        known: Leases,
        results: Mapping[int, LockJudgement],
    ) -> Verdict:
        return rule(self, history, context, _case(results))


def not_strict(context: Context) -> bool:
    """Whether some broker is known not to be in strict mode, so that each grants by itself."""
    return context.settings is not None and bool(unfulfilled((STRICT,), context.settings))


def asked_of(event: Event) -> tuple[int, Asked]:
    """The key of an event, and what it is of that lock.

    Raises:
        HistoryError: the value is no key.
    """
    _, inv_ns = begin(event.op, event.begun)
    return _key(event), Asked(int(event.op.process), inv_ns, event.op)


def grants_of(rows: Sequence[Asked]) -> tuple[list[Grant], int]:
    """Every grant of one lock, in order of completion; and how many have no known time."""
    grants: list[Grant] = []
    released: dict[int, int] = {}  # process -> when it next asked to
    lost: dict[int, int] = {}
    untimed = 0
    for process, inv_ns, op in reversed(rows):
        if op.f == RELEASE and op.type == "invoke":
            released[process] = op.time
        elif op.f in ASKING and op.type == "fail":
            lost[process] = op.time
        elif op.f in ASKING and op.type == "ok":
            if inv_ns < 0 or op.time < inv_ns:
                untimed += 1
                continue
            until = (released.get(process, NEVER), lost.get(process, NEVER))
            grants.append(Grant(process, inv_ns, op.time, op.index, *until))
    return grants[::-1], untimed


def _alone(
    rows: Sequence[Asked], completions: "Completions", brokers: Brokers | None
) -> Iterator[tuple[str, list[Grant]]]:
    """What each process of each broker has granted, with the broker's address; of a set in strict
    mode nothing."""
    if brokers is None:
        return
    answered = {node_of(row.op.ext or {}) for row in rows if row.op.type == "ok"}
    for broker in sorted(b for b in answered if b is not None):
        by_process: dict[int, list[Grant]] = {}
        for grant in grants_of(list(_answered_by(broker, rows)))[0]:
            process = brokers.process(broker, grant.inv_ns, grant.ret_ns)
            if process is not None and node_of(completions[grant.at].ext or {}) == broker:
                by_process.setdefault(process, []).append(grant)
        yield from ((broker, grants) for grants in by_process.values())


def _answered_by(broker: str, rows: Sequence[Asked]) -> Iterator[Asked]:
    """The rows of one lock without releases that another broker has answered."""
    elsewhere: dict[int, bool] = {}
    left: list[Asked] = []
    for row in reversed(rows):
        if row.op.f == RELEASE and row.op.type != "invoke":
            elsewhere[row.process] = node_of(row.op.ext or {}) not in (None, broker)
        elif row.op.f != RELEASE or not elsewhere.pop(row.process, False):
            left.append(row)
    return reversed(left)


def _key(event: Event) -> int:
    value = event.op.value
    if value is None and event.begun is not None:
        value = event.begun.value
    if type(value) is not int:
        raise HistoryError(f"value of {event.op.index} is no key: {value!r:.100}")
    return value


def _case(results: Mapping[int, LockJudgement]) -> Case:
    keys = [j for j in results.values() if j.grants]
    gaps = [j.gap_ns for j in keys if j.gap_ns is not None]
    contended = sum(len(j.processes) > 1 for j in keys)
    untimed = sum(j.untimed for j in results.values())
    case = Case(found=[f for j in keys for f in j.found])
    case.judged = {"L1": contended, "L2": len(gaps), "L3": sum(j.shared for j in keys)}
    case.counts = {
        "keys": len(keys),
        "keys-of-several-clients": contended,
        "grants": sum(j.grants for j in keys),
        "clients": len({process for j in keys for process in j.processes}),
        "without-time": untimed,
        "clock-margin-ns": 0,
    }
    if gaps:
        case.counts["hand-over-gap-ns-min"] = min(gaps)
    if not contended:
        case.doubt(EVERY, "no lock was granted to two clients, one after the other",
                   "--time-limit: a longer run")  # fmt: skip
    if untimed:
        case.doubt(EVERY, f"{untimed} grants whose time is not known")
    return case


Completions = Mapping[int, Op]


def _soon(completions: Completions, key: int, found: TooSoon, apart_ns: int) -> Found:
    a, b = found.a, found.b
    said = (
        f"The lock of queue {key} was granted to process {a.process} ({_cited(completions, a)}). "
        f"It was granted to process {b.process} too ({_cited(completions, b)}). The two grants are "
        f"at most {_s(found.apart_ns_max)} apart, must be {_s(apart_ns)} apart, and no release was "
        "asked for in between. A broker gave away a lock that it, or its quorum, had given already."
    )
    detail = {
        "key": key,
        "processes": [a.process, b.process],
        "apart-ns-max": found.apart_ns_max,
        "needed-ns": apart_ns,
    }
    return Found("L1", "granted-too-soon", (a.at, b.at), said, detail)


def _by_one(
    completions: Completions, key: int, found: TooSoon, broker: str, apart_ns: int
) -> Found:
    a, b = found.a, found.b
    said = (
        f"The broker at {broker} granted the lock of queue {key} to process {a.process} "
        f"({_cited(completions, a)}). It granted it to process {b.process} too "
        f"({_cited(completions, b)}). These grants are at most {_s(found.apart_ns_max)} apart, and "
        f"must be {_s(apart_ns)} apart. No release was asked for at that broker in between, nor "
        "did its process end."
    )
    detail = {
        "key": key,
        "processes": [a.process, b.process],
        "broker": broker,
        "apart-ns-max": found.apart_ns_max,
        "needed-ns": apart_ns,
    }
    return Found("L3", "granted-again-by-broker", (a.at, b.at), said, detail)


def _overlap(completions: Completions, key: int, found: Overlap) -> Found:
    a, b = found.a, found.b
    said = (
        f"Processes {a.process} and {b.process} held the lock of queue {key} both for "
        f"{_s(found.for_ns)}. {a.process} relied on its grant ({_cited(completions, a)}), neither "
        f"released nor run out. Then {b.process} was granted it ({_cited(completions, b)}). Both "
        "consume the queue, and its order is gone."
    )
    detail = {"key": key, "processes": [a.process, b.process], "for-ns": found.for_ns}
    return Found("L2", "lease-overlap", (a.at, b.at), said, detail)


def _cited(completions: Completions, grant: Grant) -> str:
    done = completions[grant.at]
    return f"op {grant.at}, {', '.join(_facts(done))}"


def _facts(done: Op) -> Iterator[str]:
    yield f"{done.f} answered {when(done)}"
    node = node_of(done.ext or {})
    if node is not None:
        yield f"by {node}"


def _s(ns: int) -> str:
    return f"{ns / 1e9:.3f} s"
