"""Delay progress: a pair's master that is online has delivered no more than there is.

How far a master is with each delay level, and where the level's queue ends, is in one of its
answers. Progress beyond the end skips the messages that come next: they are never delivered. It may
be so of what was on a disk until the master has looked, so an answer counts if an earlier one since
the last act on the master said already that it was online. Of slaves nothing is judged: they copy
the table beside the log, and where it is ahead of their queue they begin at its end.

Claim: P7 (docs/spec/acting-master.md 8.4), of brokers without controllers.
"""

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.faults import faults
from maxq.checkers.evidence.observations import Sighting, replica_sightings
from maxq.checkers.evidence.quiescence import Undisturbed
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.history import History
from maxq.histories.observed import ReplicaView
from maxq.histories.op import HistoryError


class DelayProgress:
    """The checker. See the module's text."""

    name = "delay-progress"
    claims = ("P7",)

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _case(history, context))
        except HistoryError as error:
            return unreadable(self, error)


def _case(history: History, context: Context) -> Case:
    case = Case(judged={"P7": 0})
    undisturbed = Undisturbed(faults(history))
    for name, (master, *_) in sorted(context.broker_sets.items()):
        online = [s for s in replica_sightings(history)
                  if s.view.node == master and s.view.isolated is not True]  # fmt: skip
        for span in undisturbed.of((master,)):
            inside = [s for s in online if span.holds(s.begun, s.at)]
            for s in inside[1:]:
                wrong = _beyond(s)
                case.judged["P7"] += isinstance(s.view.delays, dict)
                if wrong:
                    case.found.append(_ahead(name, s, wrong[0]))
                    break
    case.counts = {"answers-P7": case.judged["P7"]}
    return case


def _beyond(s: Sighting[ReplicaView]) -> list[str]:
    """The delay levels whose progress is beyond the end of their queue."""
    delays = s.view.delays
    known = delays.items() if isinstance(delays, dict) else ()
    return sorted(level for level, (at, end) in known if at > end)


def _ahead(name: str, s: Sighting[ReplicaView], level: str) -> Found:
    at, end = s.view.delays[level] if isinstance(s.view.delays, dict) else (0, 0)
    said = (
        f"Broker set {name}: {s.view.node}, its master, has delivered delay level {level} up to "
        f"{at}, by its own word (op {s.at}). The level's queue ends at {end}, so what comes next "
        "is skipped."
    )
    detail = {"set": name, "node": s.view.node, "level": level, "progress": at, "end": end}
    return Found("P7", "progress-beyond-queue", (s.at,), said, detail)
