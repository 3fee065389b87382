"""Durability: what was acknowledged stays, what was seen stays, an offset keeps its message.

Judges the `queue` workload: a log of offsets per key, with sends and polls
(docs/spec/history-format.md 12.1). The history is sorted by key (`log`), each key is judged alone
(`log_key`), and each process's order on it by a fold (`log_order`); here findings are counted,
reported (`story`) and turned into a verdict.

Claims: S6 acknowledged is never lost, S10 what a consumer saw stays, S11 an offset never changes
its message, S12 one producer's messages keep their order (docs/spec/controller-ha.md 6.3). Settings
that do not promise these may lose the end of the log in a fail-over. What happened while one master
led, and what no fail-over can cause, they do not excuse: S16 (`excuses`). What transactions
on several keys show is put together from what each key says of them (`circles`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.keyed import Event, KeyedChecker
from maxq.checkers.core.listing import reported
from maxq.checkers.evidence.harms import located, losses
from maxq.checkers.evidence.log import (
    KINDS,
    MESSAGES,
    LogFacts,
    LogOp,
    Step,
    log_facts,
    proven_by,
    read_key,
    steps_of,
    steps_said,
)
from maxq.checkers.evidence.log_key import Finding, judge_key
from maxq.checkers.evidence.story import Storyteller
from maxq.checkers.evidence.verdicts import EVERY, Case, Found, conditions, rule
from maxq.checkers.messages.aged import Aged
from maxq.checkers.messages.circles import (
    CYCLE,
    NONE,
    WRITE_CYCLE,
    Circles,
    Links,
    circles,
    links_of,
)
from maxq.checkers.messages.excuses import WHATEVER, Excuses, passages, rests_on
from maxq.checkers.messages.log_order import OrderFold
from maxq.checkers.messages.shown_order import ORDER, out_of_order
from maxq.histories.history import History

if TYPE_CHECKING:
    from maxq.checkers.core.columnar import Dealing, Groups, Unsure
    from maxq.checkers.messages.arrays.log_suspects import Suspect
    from maxq.histories.columns.rows import Rows
    from maxq.histories.columns.scan import Ints

CLAIMS: dict[str, str] = {
    "lost-write": "S6",
    "lost-tail": "S6",
    "truncation": "S10",
    "G1a": "S10",
    "precommitted-read": "S10",
    "G1c": "S10",
    "G1c-realtime": "S10",
    "inconsistent-offsets": "S11",
    "duplicate": "S11",
    "phantom": "S11",
    "poll-skip": "S11",
    "nonmonotonic-poll": "S11",
    "int-poll-skip": "S11",
    "int-nonmonotonic-poll": "S11",
    "nonmonotonic-send": "S12",
    "int-nonmonotonic-send": "S12",
    ORDER: "S12",
}
ALLOWED = frozenset(("int-send-skip", WRITE_CYCLE))  # counted, never reported
LOST = frozenset(("lost-write", "lost-tail"))
NO_PROOF = frozenset(("unseen", "hidden-loss"))  # these leave S6 not judged


class KeyVerdict(NamedTuple):
    """What one key's rows prove, small enough to travel: of each name only what can be reported.

    `proven` are `info` operations with messages for several keys that a reader of this key has
    seen, `unproven` those that none has: should another key's reader have, this key is judged
    again. `proven_alone` is how many with messages for this key alone were seen.
    """

    findings: list[Finding]
    names: Counter[tuple[str, bool]]  # and whether no setting excuses it
    lost: dict[int, tuple[str, ...]]  # writers of lost messages, and by what that shows
    unseen: int
    gone: int  # messages that a consumer was shown, and that were not there any more
    sent: int
    acknowledged: int
    read: int
    ok_read: bool
    ends: int
    proven_alone: int
    proven: frozenset[int]
    unproven: frozenset[int]
    links: Links = NONE


class Durability(KeyedChecker):
    """The checker. See the module's text."""

    name = "durability"
    claims = ("S6", "S10", "S11", "S12", "S16")
    reads = KINDS
    orders = True  # whether each process's order is judged too

    def prepare(self, history: History, context: Context) -> LogFacts:
        return log_facts(history)

    def rows(self, event: Event, known: LogFacts) -> Iterable[tuple[int, Step]]:
        return steps_said(event, known.healed)

    def judge(
        self,
        key: int,
        rows: Sequence[Step],
        known: LogFacts,
        more: "frozenset[int] | Suspect | None" = None,
    ) -> KeyVerdict:
        ops = {row.at: row for row in rows if isinstance(row, LogOp)}
        excuses = Excuses(ops, known.unrest)
        if more is not None and not isinstance(more, frozenset):
            return _of_suspect(more, excuses)
        steps = steps_of(rows, known)
        log = read_key(key, steps, known)
        mine = proven_by(log)
        proven = mine | (more or frozenset())
        judged = judge_key(log, proven)
        fold = OrderFold(key, judged.order)
        order = [found for step in steps for found in fold.step(step)] if self.orders else []
        order += list(out_of_order(key, steps, order)) if self.orders else []
        shared = frozenset(
            op.at for op in ops.values() if op.shared and op.sent and op.type == "info"
        )
        aged = Aged(steps, judged.order, known, log.expired)
        went = dict(passages(steps, judged.order, plain=known.plain))

        def reached(reader: int, place: int) -> Sequence[int] | None:
            return went[reader].reached(place) if reader in went else None

        def marked(finding: Finding) -> Finding:
            return excuses.marked(finding, rests_on(finding, judged.order, reached, log.expired))

        findings = [marked(f) for f in judged.findings if not aged.explains(f)]
        return KeyVerdict(
            **_found_of(findings, [marked(f) for f in order if not aged.explains(f)]),
            unseen=judged.unseen,
            sent=len(log.sent),
            acknowledged=sum(s.type == "ok" for s in log.sent),
            read=len(log.read),
            ok_read=any(r.ok for r in log.read),
            ends=len(log.ends),
            proven_alone=len(mine - shared),
            proven=mine & shared,
            unproven=shared - proven,
            links=links_of(log, [*ops.values()], judged.order, proven),
        )

    def columns(self, rows: "Rows", chosen: "Ints", known: LogFacts) -> "Dealing":
        from maxq.checkers.messages.arrays import log_elements  # numpy, for those who have columns

        return log_elements.elements(rows, chosen, known)

    def judge_groups(self, groups: "Groups", known: LogFacts) -> "list[KeyVerdict | Unsure]":
        from maxq.checkers.messages.arrays.log_clean import clean
        from maxq.checkers.messages.arrays.log_table import Clean

        return [
            KeyVerdict(findings=[], lost={}, gone=0, **answer._asdict())
            if isinstance(answer, Clean) else answer
            for answer in clean(groups, known, orders=self.orders)
        ]  # fmt: skip

    def again(self, results: Mapping[int, KeyVerdict]) -> Mapping[int, frozenset[int]]:
        proven = _proven(results)
        return {key: proven for key, v in results.items() if v.unproven & proven}

    def evidence(self, results: Mapping[int, KeyVerdict]) -> Iterator[int]:
        yield from located(at for v in results.values() for at in v.lost)
        for finding in _reported(results):
            yield from finding.ops
            yield from (finding.detail[k] for k in ("writer",) if finding.detail.get(k) is not None)

    def conclude(
        self,
        history: History,
        context: Context,
        known: LogFacts,
        results: Mapping[int, KeyVerdict],
    ) -> Verdict:
        promised = _promised(history, context)
        names = sum((v.names for v in results.values()), Counter[tuple[str, bool]]())
        crossed = _crossed(results)
        names += Counter(
            {(CYCLE, False): crossed.cycles, (WRITE_CYCLE, False): crossed.write_cycles}
        )
        counts = _totals(results)
        case = Case(names=_by_claim(names, promised))
        case.found = list(_found(history, _reported(results), promised))
        case.judged = {
            **dict.fromkeys(("S6", "S12"), counts["acknowledged"]),
            **dict.fromkeys(("S10", "S11"), counts["read"]),
            WHATEVER: counts["acknowledged"] + counts["read"],
        }
        unclaimed = {
            n: sum(names[n, mark] for mark in (False, True)) for n in (*NO_PROOF, *ALLOWED)
        }
        case.counts = counts | {name: n for name, n in sorted(unclaimed.items()) if n}
        _doubt(case, history, results, context, hidden=unclaimed["hidden-loss"])
        verdict = rule(self, history, context, case)
        lost = {at: [f"{CLAIMS[n]} {n}" for n in names]
                for v in results.values() for at, names in v.lost.items()}  # fmt: skip
        return msgspec.structs.replace(verdict, harms=losses(history, lost))


def _found_of(findings: list[Finding], orders: list[Finding]) -> dict[str, Any]:
    """What `KeyVerdict` says of findings, on messages and on the order of processes."""
    return {
        "findings": _tellable([*findings, *orders]),
        "names": Counter((f.name, f.inexcusable) for f in (*findings, *orders)),
        "lost": _shown_by(findings),
        "gone": len({f.detail["value"] for f in findings if f.name == "truncation"}),
    }


def _of_suspect(suspect: "Suspect", excuses: Excuses) -> KeyVerdict:
    """What arrays found, now that it is known who answered."""
    found = [*suspect.findings, *suspect.orders]
    marked = [excuses.marked(f, rests) for f, rests in zip(found, suspect.rests, strict=True)]
    count = len(suspect.findings)
    more = _found_of(marked[:count], marked[count:])
    more["names"] |= suspect.clean.names  # of one finding, and of gaps that are allowed
    return KeyVerdict(**{**suspect.clean._asdict(), **more, "unseen": suspect.unseen})


def _tellable(found: Iterable[Finding]) -> list[Finding]:
    """Those that can be reported: the first of each name, and as many that no setting excuses."""
    return reported((f for f in found if f.name in CLAIMS), lambda f: (f.name, f.inexcusable))


def _reported(results: Mapping[int, KeyVerdict]) -> list[Finding]:
    """Everything that is reported."""
    return _tellable(
        [*_crossed(results).findings, *(f for v in results.values() for f in v.findings)]
    )


def _crossed(results: Mapping[int, KeyVerdict]) -> Circles:
    """What no key shows alone."""
    return circles({key: v.links for key, v in results.items()})


def _proven(results: Mapping[int, KeyVerdict]) -> frozenset[int]:
    return frozenset[int]().union(*(v.proven for v in results.values()))


def _shown_by(findings: Sequence[Finding]) -> dict[int, tuple[str, ...]]:
    """The writers of lost messages, each with the names of the anomalies that cite it."""
    lost = [f.detail for f in findings if f.name in LOST]
    names: dict[int, list[str]] = {d["writer"]: [] for d in lost}
    by_value = {d["value"]: d["writer"] for d in lost}
    for f in findings:
        shown = by_value.get(f.detail.get("value"))
        cited = {*f.ops, f.detail.get("writer"), shown}
        for writer in names.keys() & cited if f.name in CLAIMS else ():
            names[writer].append(f.name)
    return {writer: tuple(dict.fromkeys(cites)) for writer, cites in names.items()}


def _promised(history: History, context: Context) -> frozenset[str]:
    """The claims that the run's settings make."""
    met = conditions(history, context.settings)
    return frozenset(c for c in {*CLAIMS.values()} if not met.unpromised(c, context.settings))


def _by_claim(
    names: Counter[tuple[str, bool]], promised: frozenset[str]
) -> Counter[tuple[str, str]]:
    """How many anomalies break which claim. What no setting excuses breaks S16, whatever else."""
    found: Counter[tuple[str, str]] = Counter()
    for (name, inexcusable), count in names.items():
        claim = CLAIMS.get(name)
        if claim is None:
            continue
        if claim in promised or not inexcusable:
            found[claim, name] += count
        if inexcusable:
            found[WHATEVER, name] += count
    return found


def _doubt(
    case: Case,
    history: History,
    results: Mapping[int, KeyVerdict],
    context: Context,
    *,
    hidden: int,
) -> None:
    """Note why silence would prove nothing."""
    ok = history.totals
    keys = results.values()
    for f, least in sorted(context.ok_ops_min.items()):
        if f in MESSAGES and ok[f, "ok"] < least:
            case.doubt(EVERY, f"only {ok[f, 'ok']} ok {f}, {least} needed", LONGER)
    if not any(v.acknowledged or v.proven or v.proven_alone for v in keys):
        case.doubt(EVERY, "no send that is known to have happened", LONGER)
    if not ok["poll", "ok"] and not any(v.ok_read for v in keys):
        case.doubt(EVERY, "no ok poll", LONGER)
    if unseen := sum(v.unseen for v in keys):
        case.doubt("S6", f"unseen: {unseen} acknowledged messages were never polled, and no reader "
                   "was at the confirmed end of their log after the last fault")  # fmt: skip
    if hidden:
        case.doubt("S6", f"hidden-loss: {hidden} messages could only be delivered by a later copy")


LONGER = "--time-limit: a longer run; or fewer faults at a time"


def _found(
    history: History, findings: Sequence[Finding], promised: frozenset[str]
) -> Iterator[Found]:
    teller = Storyteller(history)
    for f in findings:
        claim = CLAIMS[f.name]
        of = WHATEVER if f.inexcusable and claim not in promised else claim
        yield Found(of, f.name, f.ops, teller.say(f), f.detail)


def _totals(results: Mapping[int, KeyVerdict]) -> dict[str, int]:
    keys = results.values()
    return {
        "keys": len(results),
        "sent": sum(v.sent for v in keys),
        "acknowledged": sum(v.acknowledged for v in keys),
        "lost": sum(len(v.lost) for v in keys),
        "gone": sum(v.gone for v in keys),
        "never-read": sum(v.unseen for v in keys),
        "proven": sum(v.proven_alone for v in keys) + len(_proven(results)),
        "read": sum(v.read for v in keys),
        "ends-confirmed": sum(v.ends for v in keys),
    }
