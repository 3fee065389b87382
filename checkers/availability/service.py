"""Service: once everything is healed, every queue takes messages and gives them back.

After the last heal a probe sends to every queue, waits for the acknowledgement, and reads the
message back, again and again until that has worked `PROBE_STREAK` times in a row, or until well
beyond the recovery bound. A cluster that agrees on a master and takes one message in seventy
does not serve. A queue is served from the first send of such a streak on; the claim is broken if
that is later than the bound after the probes began, or never although it was tried beyond it.

Histories of versions without probes are judged by what the wait for recovery found: whether name
servers knew a master of every set that answered.

Claim: S13 (docs/spec/controller-ha.md 6.3).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from maxq.checkers.core.api import Context, MalformedError, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.core.promises import copies
from maxq.checkers.evidence.nodes.looks import Awaited, awaited_op, look_in
from maxq.checkers.evidence.observations import listed, sightings
from maxq.checkers.evidence.quiescence import Interval, after_last_heal
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.fault_facts import TRIAL
from maxq.histories.grounds import PROBE, declared
from maxq.histories.history import History
from maxq.histories.observed import (
    MASTER_ROLE,
    OBSERVE_ROUTE,
    PROBE_READ,
    PROBE_STREAK,
    PROBED,
    UNASKED,
    RouteView,
)
from maxq.histories.op import Op

if TYPE_CHECKING:
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

GRACE_NS = 1_000_000_000  # between two looks of who waits for the recovery
NAMED_MAX = 6  # tries that prove a broken promise


class Try(NamedTuple):
    """A send of a probe, or the reading back of what it sent."""

    at: int
    begun: int
    at_ns: int
    begun_ns: int
    ok: bool
    reads: bool
    set: str | None  # of an ok send
    answer: str = ""  # what was answered instead, by its name


Answers = tuple[tuple[tuple[bool, str], int], ...]  # (whether to a read, by its name), how often


class Probed(NamedTuple):
    """What the probe of one queue came to. `served_ns`: when the first send of its streak was
    acknowledged; None: there was no streak."""

    set: str | None
    served_ns: int | None
    tries: int
    acknowledged: int
    last_ns: int  # when the last try was begun
    failed: tuple[int, ...]  # indices of tries that failed, the last ones
    read: int = 0  # how many were read back
    answers: Answers = ()


class Service(KeyedChecker):
    """The checker. See the module's text."""

    name = "service"
    claims = ("S13",)
    reads = frozenset(("send", PROBE_READ))

    def prepare(self, history: History, context: Context) -> None:
        """Nothing."""

    def sift(self, rows: "Rows", chosen: "Ints", known: None) -> "Ints":
        return chosen[rows.is_of(chosen, PROBE_READ) | rows.ext_has(chosen, PROBED)]

    def rows(self, event: Event, known: None) -> Iterator[tuple[int, Try]]:
        op, begun = event.op, event.begun
        if op.type == "invoke" or begun is None:
            return
        reads = op.f == PROBE_READ
        if reads or (op.ext or {}).get(PROBED):
            ok = op.type == "ok"
            name = str((op.ext or {}).get("node")) if ok and not reads else None
            times = op.time, begun.time
            yield _key(begun), Try(op.index, begun.index, *times, ok, reads, name, _answer(op))

    def judge(self, key: int, rows: Sequence[Try], known: None, more: object = None) -> Probed:
        streak, since_ns, served_ns = 0, -1, None
        for row in sorted(rows, key=lambda row: row.begun):
            if not row.ok:
                streak = 0
            elif row.reads:
                streak += 1
                if streak == PROBE_STREAK and served_ns is None:
                    served_ns = since_ns
            elif not streak:
                since_ns = row.at_ns
        sends = [row for row in rows if not row.reads]
        sets = {row.set for row in sends if row.set is not None}
        return Probed(
            set=next(iter(sets)) if len(sets) == 1 else None,
            served_ns=served_ns,
            tries=len(sends),
            acknowledged=sum(row.ok for row in sends),
            last_ns=max(row.begun_ns for row in rows),
            failed=tuple(row.at for row in rows if not row.ok)[-NAMED_MAX:],
            read=sum(row.ok and row.reads for row in rows),
            answers=tuple(Counter((r.reads, r.answer) for r in rows if not r.ok).items()),
        )

    def conclude(
        self, history: History, context: Context, known: None, results: Mapping[int, Probed]
    ) -> Verdict:
        case = Case(judged={"S13": 0})
        done = awaited_op(history)
        if done is None:
            case.doubt("S13", "the run did not wait for the recovery, or not to its end")
        else:
            begun = history.invocation(done)
            until = done.index if begun is None else begun.index
            rest = after_last_heal(history.filter(lambda op: op.index < until))
            if begun is not None:  # not asked before
                rest = rest._replace(at_ns=max(rest.at_ns, begun.time))
            found = look_in(done)
            case.counts["recovery-ms"] = round(found.after_ms)
            if results:
                _by_probes(case, context, rest, results, Seen(history))
            elif history.run[0] is None:
                _by_wait(case, context, rest, found, done)
            else:
                case.doubt("S13", "no queue was probed after the last heal")
        return rule(self, history, context, case)


def _answer(op: Op) -> str:
    """The name of what was answered to a try that failed."""
    match op.error:
        case [str(name), *_] | (str(name), *_) | str(name):
            return UNASKED.get(name, name)
    return ""


def _key(begun: Op) -> int:
    match begun.value:
        case {"key": int(key)}:
            return key
        case [[_, int(key), *_]] | ((_, int(key), *_),):
            return key
    raise MalformedError(f"W9: value of {begun.index} is no probe's: {begun.value!r:.100}")


class Seen:
    """What a history shows of queues that are not served: whose they are, who lists no master, and
    what clients were refused before the run.

    Raises:
        HistoryError: an answer of a name server has another shape (W9).
    """

    def __init__(self, history: History) -> None:
        begun = history.run[0]
        probed = [g for g in (declared(begun) if begun else ()) if g[0] == PROBE]
        self._sets: dict[int, str] = {key: name for _, key, name in probed}
        seen = sightings(history, OBSERVE_ROUTE, RouteView)
        self._last = {s.view.node: s for s in seen}
        tried = [op.value for op in history.nemesis if op.f == TRIAL and op.value]
        of_cluster = tried[-1].get("cluster") if tried and isinstance(tried[-1], dict) else None
        self.refused = str(of_cluster.get("refused", "")) if isinstance(of_cluster, dict) else ""

    def set_of(self, key: int, p: Probed) -> str:
        """The broker set of a queue; empty: unknown."""
        return p.set or self._sets.get(key, "")

    def masterless(self, name: str) -> dict[str, int]:
        """The name servers in whose last answer a set has no master, and the answers' indices."""
        return {
            node: s.at
            for node, s in sorted(self._last.items())
            if name and MASTER_ROLE not in s.view.sets.get(name, {})
        }


def _by_probes(
    case: Case, context: Context, rest: Interval, results: Mapping[int, Probed], seen: Seen
) -> None:
    due_ns = rest.at_ns + context.recovery_ns
    late: dict[str, list[tuple[int, Probed]]] = defaultdict(list)
    after = [p.served_ns - rest.at_ns for p in results.values() if p.served_ns is not None]
    case.counts["queues-probed"] = len(results)
    case.counts["queues-served"] = len(after)
    case.counts["probes"] = sum(p.tries for p in results.values())
    case.counts["probes-acknowledged"] = sum(p.acknowledged for p in results.values())
    if after:
        case.counts["served-after-ms"] = max(after) // 1_000_000
    needed = copies(context.settings or {})
    refusing = {name for name in context.broker_sets if len(context.members(name)) < needed}
    for key, p in sorted(results.items()):
        if context.broker_sets and refusing.issuperset(context.broker_sets):
            continue  # by their settings brokers refuse every message
        if p.served_ns is not None and p.served_ns <= due_ns + GRACE_NS:
            case.judged["S13"] += 1
        elif rest.doubt:
            case.doubt("S13", rest.doubt)
        elif p.served_ns is None and p.last_ns <= due_ns:
            for_s = max(0, p.last_ns - rest.at_ns)
            case.doubt("S13", f"queue {key} was probed for {_s(for_s)} only, "
                       f"{_s(context.recovery_ns)} needed")  # fmt: skip
        else:
            late[seen.set_of(key, p)].append((key, p))
    for name, probes in sorted(late.items()):
        case.found.append(_not_served(name, probes, rest, context, seen))


def _not_served(
    name: str,
    probes: Sequence[tuple[int, Probed]],
    rest: Interval,
    context: Context,
    seen: Seen,
) -> Found:
    without = seen.masterless(name)
    keys = [key for key, _ in probes]
    tries = sum(p.tries for _, p in probes)
    taken = sum(p.acknowledged for _, p in probes)
    last_ns = max(p.last_ns for _, p in probes)
    served = [p.served_ns for _, p in probes if p.served_ns is not None]
    of = f" of broker set {name}" if name else ""
    what = "queue" if len(keys) == 1 else "queues"
    if len(served) == len(probes):
        after_ns = max(served) - rest.at_ns
        how = (
            f"Only {_s(after_ns)} later {PROBE_STREAK} messages in a row were taken and given back"
        )
    else:
        after_ns = last_ns - rest.at_ns
        how = f"A probe sent {tries} messages within {_s(after_ns)}: {taken} were taken"
        how += f", and never {PROBE_STREAK} in a row were taken and given back"
    said = (
        f"Everything was healed by {_s(rest.at_ns)}, and {_s(context.recovery_ns)} later {what} "
        f"{listed(keys)}{of} {'was' if len(keys) == 1 else 'were'} not served. {how}."
    )
    unread = all(p.acknowledged and not p.read for _, p in probes)
    answer, often = _most(probes, reads=unread)
    if answer:
        said += f" To {'reads' if unread else 'sends'} the answer was {often} times: {answer}."
    said += f" Before the first fault: {seen.refused}." if seen.refused else ""
    said += "".join(
        f" In its last answer {node} lists no master of the set (op {at})."
        for node, at in without.items()
    )
    detail: dict[str, Any] = {
        "set": name,
        "queues": keys,
        "tries": tries,
        "acknowledged": taken,
        "after-ms": after_ns // 1_000_000,
        "bound-ms": context.recovery_ns // 1_000_000,
        **({"answers": answer} if answer else {}),
    }
    failed = [at for _, p in probes for at in p.failed][-NAMED_MAX:]
    ops = (*((rest.at,) if rest.at >= 0 else ()), *failed, *without.values())
    if unread:
        return Found("S13", "not-readable", ops, said, detail)
    return Found("S13", "not-writable", ops, said, detail)


def _most(probes: Sequence[tuple[int, Probed]], *, reads: bool) -> tuple[str, int]:
    """What was answered most often to tries that failed, and how often; empty: nothing."""
    counts: Counter[str] = Counter()
    for _, p in probes:
        counts.update({name: n for (to_read, name), n in p.answers if to_read == reads and name})
    return max(counts.items(), key=lambda e: (e[1], e[0]), default=("", 0))


def _by_wait(case: Case, context: Context, rest: Interval, found: Awaited, done: Op) -> None:
    """Of a history without probes: whether all name servers knew a master that answers."""
    after_ns = round(found.after_ms * 1_000_000)
    late = after_ns > context.recovery_ns + GRACE_NS
    case.judged["S13"] = 1
    if (found.holds or found.crashed) and not late:
        return
    if rest.doubt:
        case.doubt("S13", rest.doubt)
    elif after_ns < context.recovery_ns:
        case.doubt("S13", f"waited for {_s(after_ns)} only, {_s(context.recovery_ns)} needed")
    else:
        said = (
            f"Everything was healed at {_s(rest.at_ns)}, but {_s(context.recovery_ns)} were not "
            f"enough. After {found.after_ms / 1000:.1f} s of waiting (op {done.index}) there "
            f"{'was only then' if found.holds else 'was not yet'} a master of each broker set that "
            "answers."
        )
        detail = {"after-ms": found.after_ms, "bound-ms": context.recovery_ns // 1_000_000}
        ops = (done.index,) if rest.at < 0 else (rest.at, done.index)
        case.found.append(Found("S13", "not-writable", ops, said, detail))


def _s(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"
