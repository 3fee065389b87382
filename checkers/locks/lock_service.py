"""Lock service: locks can be had, by anyone who asks for one that nobody has, and of nobody else.

- L6: while the members of a set that run are a majority, locks are granted, anyone who else of
  the set is silent. Judged in quiet periods in which nobody is cut off or impaired and all else
  runs: once nobody has been granted a lock for longer than a lease and the recovery bound, several
  requests in a row to members that run do not all fail.
- L7: while they are no majority, nobody is granted anything. Judged in quiet periods in which so
  many were seen to have ended or to be held, of requests that were sent in them.
- L8: a lock for which nobody else has asked for longer than a broker's lease is granted.
- L9: so is one that its only holder gave back.

L8 and L9 are judged once the cluster is healed, and for so long after that no broker keeps its
grants back because it has forgotten its table, and every set has its members. Then brokers that
answered a request have answered it alike: but for connections that a cut, a loss of power or a bad
disk has left dead on one side, which is why histories with such acts are left out. Clients that
competed for a lock leave grants behind that did not suffice, so L9 looks only at a holder to whom
the lock was granted when nobody else had asked for it for longer than a lease.

Claims: L6, L7, L8, L9 (docs/spec/acting-master.md 8.2), in strict mode.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.elements import node_of
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import NEVER, replica_sightings
from maxq.checkers.evidence.quiescence import Interval, after_last_change, lulls
from maxq.checkers.evidence.verdicts import Case, Found, power_lost, rule
from maxq.checkers.locks.locks import ASKING, REQUEST_NS, Asked, asked_of
from maxq.histories.fault_facts import GONE
from maxq.histories.history import History
from maxq.histories.observed import ACQUIRE, NOT_GRANTED, RELEASE

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

CLAIMS = ("L6", "L7", "L8", "L9")
TOTAL = "broker:totalReplicas"
REFUSED_MIN = 5  # requests in a row, so that it is no single connection or process
REFUSED_NS = 3_000_000_000  # from the first of them to the last


class Quorate(NamedTuple):
    """A lull in which members of a set are silent, and the addresses of those that run. Whether
    these are a majority, and nothing else keeps them from granting locks; or too few."""

    time: Interval
    running: frozenset[str]
    enough: bool


class Known(NamedTuple):
    """What is known of all locks: when L6 is judged, when the others are, how long (ns) a grant may
    last, and after how long a set that runs has all it needs for one."""

    quorate: tuple[Quorate, ...]
    rest: Interval
    lease_ns: int
    wait_ns: int


class Activity(NamedTuple):
    """What one client did with a lock: from sending to answer (ns; NEVER: none), and whether that
    was asking, and granted."""

    process: int
    inv_ns: int
    ret_ns: int
    f: str
    type: str
    at: int


class LockJudgement(NamedTuple):
    """What was found of one lock, and how often each claim could have been broken."""

    found: list[Found]
    judged: dict[str, int]


class LockService(KeyedChecker):
    """The checker. See the module's text."""

    name = "lock-service"
    claims = CLAIMS
    reads = frozenset((*ASKING, RELEASE))

    def prepare(self, history: History, context: Context) -> Known:
        rest = after_last_change(history)
        lease_ns = context.lock_lease_ns + REQUEST_NS
        wait_ns = max(lease_ns, context.recovery_ns)
        since_ns = NEVER if rest.doubt or not _plain(history) else rest.at_ns + wait_ns
        rest = rest._replace(at_ns=since_ns)
        return Known(tuple(_quorate(history, context)), rest, lease_ns, wait_ns)

    def sift(self, rows: "Rows", chosen: "Ints", known: Known) -> "Ints":
        from maxq.checkers.locks import service_columns  # numpy, for those who have columns

        return service_columns.requests(rows, chosen, known, REQUEST_NS)

    def rows(self, event: Event, known: Known) -> Iterator[tuple[int, Asked]]:
        yield asked_of(event)

    def judge(
        self, key: int, rows: Sequence[Asked], known: Known, more: object = None
    ) -> LockJudgement:
        judgement = LockJudgement([], dict.fromkeys(CLAIMS, 0))
        for lull in known.quorate:
            if not lull.enough:
                _without_quorum(key, lull, rows, judgement)
                continue
            _not_granted(key, lull, rows, known.wait_ns, judgement)
        times = Times(_activities(rows))
        for asked in times.done:
            late = asked.inv_ns >= known.rest.at_ns and known.rest.holds(asked.at, asked.at)
            if late and asked.f == ACQUIRE and _decided(asked):
                _kept_back(key, asked, times, known, judgement)
        return judgement

    def conclude(
        self,
        history: History,
        context: Context,
        known: Known,
        results: Mapping[int, LockJudgement],
    ) -> Verdict:
        case = Case(found=[f for of in results.values() for f in of.found])
        case.judged = {c: sum(of.judged[c] for of in results.values()) for c in CLAIMS}
        case.counts = {f"requests-{claim}": n for claim, n in case.judged.items()}
        return rule(self, history, context, case)


def _plain(history: History) -> bool:
    """Whether nothing was done but to end, hold and start processes."""
    acts = [act for act in faults(history) if act.kind != "question"]
    kinds = [kind for act in acts for kind in ([act.facts] if act.facts else act.ends)]
    harmless = all(kind.question or kind.effect in ("order", "none", *GONE) for kind in kinds)
    return harmless and all(act.known for act in acts) and not power_lost(history)


# L6.


def _quorate(history: History, context: Context) -> Iterator[Quorate]:
    addresses: dict[str, set[str]] = {}
    for s in replica_sightings(history):
        addresses.setdefault(s.view.node, set()).add(s.view.address)
    if TOTAL in context.by_hand:  # another number makes a quorum
        return
    for lull in lulls(history):
        gone, doubtful, cuts = lull.state
        calm = not cuts and not doubtful and not lull.time.doubt
        for nodes in context.broker_sets.values():
            running = [n for n in nodes if n not in gone]
            known = [addresses.get(n, set()) for n in running]
            if len(running) == len(nodes) or any(len(a) != 1 for a in known):
                continue
            enough = len(nodes) // 2 < len(running)
            if not enough or (calm and gone <= set(nodes)):
                yield Quorate(lull.time, frozenset().union(*known), enough)


def _without_quorum(
    key: int, lull: Quorate, rows: Sequence[Asked], judgement: LockJudgement
) -> None:
    """Look at the requests that were sent and answered in one lull."""
    sent: dict[int, int] = {}
    for row in rows:
        if row.op.type == "invoke":
            sent[row.process] = row.op.index
            continue
        begun = sent.pop(row.process, -1)
        ours = node_of(row.op.ext or {}) in lull.running and row.op.f in ASKING
        if ours and row.op.type in ("ok", "fail") and lull.time.holds(begun, row.op.index):
            judgement.judged["L7"] += 1
            if row.op.type == "ok":
                judgement.found.append(_alone(key, row, begun))
                return


def _not_granted(
    key: int, lull: Quorate, rows: Sequence[Asked], wait_ns: int, judgement: LockJudgement
) -> None:
    """Look at the requests of one lull."""
    granted_ns = lull.time.at_ns
    streak: list[Asked] = []
    for row in rows:
        if row.op.f not in ASKING or row.op.type == "invoke":
            continue
        if not lull.time.holds(row.op.index, row.op.index):
            continue
        if row.op.type == "ok":
            judgement.judged["L6"] += 1
            granted_ns, streak = row.op.time, []
        elif node_of(row.op.ext or {}) in lull.running and row.inv_ns > granted_ns + wait_ns:
            streak.append(row)
            if len(streak) >= REFUSED_MIN and row.inv_ns - streak[0].inv_ns >= REFUSED_NS:
                judgement.judged["L6"] += 1
                judgement.found.append(_nobody_grants(key, streak, granted_ns))
                return


# L8, L9.


def _activities(rows: Sequence[Asked]) -> list[Activity]:
    """What clients did with a lock, each request once, in order of what ended it."""
    open_: dict[int, tuple[int, str, int]] = {}
    found: list[Activity] = []
    for process, inv_ns, op in rows:
        if op.type == "invoke":
            open_[process] = op.time, op.f, op.index
            continue
        open_.pop(process, None)
        ret_ns = op.time + REQUEST_NS if op.type == "info" else op.time
        kind = op.type if op.type != "fail" or op.error == NOT_GRANTED else "info"
        found.append(Activity(process, max(inv_ns, 0), ret_ns, op.f, kind, op.index))
    found += (Activity(p, t, NEVER, f, "info", at) for p, (t, f, at) in sorted(open_.items()))
    return found


def _decided(asked: Activity) -> bool:
    return asked.type in ("ok", "fail")


class Times:
    """What clients did with one lock, to be looked up by time."""

    def __init__(self, done: Sequence[Activity]) -> None:
        self.done = sorted(done, key=lambda a: (a.ret_ns, a.at))
        self._ends = [a.ret_ns for a in self.done]
        closed = [a.ret_ns - a.inv_ns for a in self.done if a.ret_ns != NEVER]
        self._longest_ns = max(closed, default=0)
        self._open = [a for a in self.done if a.ret_ns == NEVER]

    def beside(self, one: Activity, before_ns: int) -> list[Activity]:
        """What others did while a client was asking, or so long before; of two of them at the
        most."""
        first = bisect_right(self._ends, one.inv_ns - before_ns)
        last = bisect_right(self._ends, one.ret_ns + self._longest_ns)
        found: list[Activity] = []
        processes: set[int] = set()
        for other in chain(self._open, (self.done[n] for n in range(first, last))):
            if other.process != one.process and other.inv_ns < one.ret_ns:
                found.append(other)
                processes.add(other.process)
                if len(processes) > 1:
                    break
        return found


def _kept_back(
    key: int, asked: Activity, times: Times, known: Known, judgement: LockJudgement
) -> None:
    """Look at a request for a lock, beside all others of the same lock."""
    recent = times.beside(asked, known.lease_ns)
    if not recent:
        judgement.judged["L8"] += 1
        if asked.type == "fail":
            judgement.found.append(_expired(key, asked, known))
        return
    released = _given_back(asked, recent, times, known)
    if released is not None:
        judgement.judged["L9"] += 1
        if asked.type == "fail":
            judgement.found.append(_released(key, released, asked))


def _given_back(
    asked: Activity, recent: Sequence[Activity], times: Times, known: Known
) -> Activity | None:
    """The release of the only holder that a lock can have had, if it had it alone."""
    last = max(recent, key=lambda a: a.ret_ns)
    first = min(recent, key=lambda a: a.inv_ns)
    alone = len({a.process for a in recent}) == 1 and all(_decided(a) for a in recent)
    had = first.f == ACQUIRE and first.type == "ok" and first.inv_ns >= known.rest.at_ns
    over = last.f == RELEASE and last.type == "ok" and last.ret_ns + REQUEST_NS <= asked.inv_ns
    return last if alone and had and over and not times.beside(first, known.lease_ns) else None


# In words.


def _nobody_grants(key: int, streak: Sequence[Asked], granted_ns: int) -> Found:
    ops = tuple(row.op.index for row in streak)
    for_ns = streak[-1].op.time - granted_ns
    said = (
        f"The lock of queue {key} was granted to nobody for {for_ns / 1e9:.1f} s. "
        f"{len(streak)} requests in a row to brokers that run (ops {ops[0]} to {ops[-1]}) failed. "
        "They are a majority of their set; nobody is cut off, another member is silent."
    )
    detail = {"key": key, "requests": len(streak), "for-ms": for_ns // 1_000_000}
    return Found("L6", "lock-not-granted", ops, said, detail)


def _alone(key: int, row: Asked, begun: int) -> Found:
    broker = node_of(row.op.ext or {})
    said = (
        f"The lock of queue {key} was granted to process {row.process} by {broker} (op "
        f"{row.op.index}, asked for in op {begun}). So many of its set had ended or were "
        "held then that those which ran were no majority."
    )
    detail = {"key": key, "processes": [row.process], "broker": broker}
    return Found("L7", "granted-without-quorum", (row.op.index,), said, detail)


def _expired(key: int, asked: Activity, known: Known) -> Found:
    said = (
        f"The lock of queue {key} was refused to process {asked.process} (op {asked.at}). Nobody "
        f"else had asked for it for {known.lease_ns / 1e9:g} s, longer than its lease."
    )
    detail = {"key": key, "processes": [asked.process]}
    return Found("L8", "expired-lock-kept", (asked.at,), said, detail)


def _released(key: int, released: Activity, asked: Activity) -> Found:
    apart_ns = asked.inv_ns - released.ret_ns
    said = (
        f"The lock of queue {key} was refused to process {asked.process} (op {asked.at}). Process "
        f"{released.process}, its only holder, had given it back {apart_ns / 1e9:.3f} s before "
        f"(op {released.at})."
    )
    detail = {
        "key": key,
        "processes": [released.process, asked.process],
        "after-ms": apart_ns // 1_000_000,
    }
    return Found("L9", "released-lock-kept", (released.at, asked.at), said, detail)
