"""Processes: a node that is started runs.

Three kinds of evidence, all recorded by the nemesis: a look at every node after the last heal, and
one at the end, find a node that has ended by itself, or that runs and does not answer; a fault that
strikes a node finds it ended already; a start ends with the node gone again.

What the harness itself ended is no evidence. Nor is what happened to a node while its disk took
nothing or its store had been removed, or at a start while its address was another or a cut parted
it from others: such a node is judged once that is healed. In a run that lost power a broker that
does not sync before it answers is promised nothing; where brokers sync, it is.

Claim: S15.
"""

from collections.abc import Sequence
from typing import Any

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.nodes.looks import Awaited, Seen, ended_in_acts, looks_of
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.fault_facts import GONE
from maxq.histories.history import History
from maxq.histories.op import HistoryError


class Processes:
    """The checker. See the module's text."""

    name = "processes"
    claims = ("S15",)

    def check(self, history: History, context: Context) -> Verdict:
        try:
            case = _judge(history)
        except HistoryError as error:
            return unreadable(self, error)
        return rule(self, history, context, case)


def _judge(history: History) -> Case:
    acts = [a for a in faults(history) if a.kind != "question"]
    starts = sum(len(a.nodes) for a in acts if a.may_start)
    case = Case(counts={"starts": starts})
    looks = list(looks_of(history))
    if not looks:
        case.doubt("S15", "the processes were not looked at after the last heal")
        return case
    case.judged["S15"] = starts + max(1, *(found.nodes for _, found in looks))
    reported: set[str] = set()
    for at, found in looks:
        for node, code in sorted(found.crashed.items()):
            if node not in found.excused and node not in reported:
                reported.add(node)
                case.found.append(_ended(node, code, at, _strike_before(acts, node, at)))
        for node in sorted(set(found.silent) - reported):
            reported.add(node)
            case.found.append(_silent(node, at, found, _strike_before(acts, node, at)))
    for seen in ended_in_acts(acts):
        if seen.node not in reported:
            reported.add(seen.node)
            case.found.append(_seen_ended(seen, _strike_before(acts, seen.node, seen.at)))
    case.counts["ended-by-themselves"] = len(reported)
    return case


def _strike_before(acts: Sequence[Fault], node: str, at: int) -> Fault | None:
    """The last act on a node that was over before an index."""
    mine = (a for a in acts if node in a.nodes and _ends_or_starts(a) and a.ended is not None)
    return max((a for a in mine if a.begun < at), key=lambda a: a.begun, default=None)


def _ends_or_starts(act: Fault) -> bool:
    """Whether an act ends, holds or starts processes, or takes their stores."""
    return act.may_start or act.effect in GONE


def _since(strike: Fault | None) -> str:
    if strike is None:
        return "Nothing had been done to it."
    return f"The last act on it was the {strike.f} of op {strike.begun}."


def _ops(at: int, strike: Fault | None) -> tuple[int, ...]:
    return (at,) if strike is None or strike.ended is None else (min(strike.ended, at), at)


def _detail(node: str, strike: Fault | None, **more: Any) -> dict[str, Any]:
    return {"node": node, "after": None if strike is None else strike.f, **more}


def _ended(node: str, code: object, at: int, strike: Fault | None) -> Found:
    said = (
        f"{node} should run and has ended by itself, with exit code {code}, when everything was "
        f"healed (op {at}). {_since(strike)}"
    )
    return Found("S15", "node-ended", _ops(at, strike), said, _detail(node, strike, code=code))


def _silent(node: str, at: int, found: Awaited, strike: Fault | None) -> Found:
    said = (
        f"{node} runs, but {found.after_ms / 1000:.1f} s after everything was healed nobody "
        f"answers at its port (op {at}). {_since(strike)}"
    )
    return Found("S15", "node-does-not-answer", _ops(at, strike), said, _detail(node, strike))


def _seen_ended(seen: Seen, strike: Fault | None) -> Found:
    starts, code = seen.ended.starts, seen.ended.code
    name = "node-does-not-start" if starts else "node-ended"
    how = "was started and ended again" if starts else "had ended by itself"
    said = f"{seen.node} {how}, with exit code {code} (op {seen.at}). {_since(strike)}"
    return Found("S15", name, _ops(seen.at, strike), said, _detail(seen.node, strike, code=code))
