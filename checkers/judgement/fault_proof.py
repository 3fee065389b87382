"""Did every fault really happen? A run whose faults were not felt proves nothing.

A run with a fault without proof is not valid. An order to elect counts as one: a run ends with
one for each replica. Where messages were no longer promised
(`maxq.checkers.evidence.stores.lost_stores`) it may be refused: no member of the set is left that
could be elected, and nothing rests on it. Nor can a replica be elected that never ran again on a
damaged store.
"""

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.evidence.faults import Fault, faults, held
from maxq.checkers.evidence.stores.lost_stores import gone
from maxq.checkers.evidence.verdicts import conditions
from maxq.histories.fault_facts import ELECT_MASTER, TRIAL
from maxq.histories.history import History

NAMED_MAX = 5  # faults without proof that the reason names


class FaultProof:
    """The checker. A run without a nemesis has nothing to prove."""

    name = "faults"
    claims: tuple[str, ...] = ()

    def check(self, history: History, context: Context) -> Verdict:
        # A cluster that does not recover is for those to judge who promise that it does.
        found = [f for f in faults(history) if f.facts is None or not f.facts.looks]
        unproved = [fault for fault in found if not fault.done]
        orders = [fault for fault in unproved if fault.f == ELECT_MASTER]
        if orders and conditions(history, context.settings).forfeited:
            unproved = [fault for fault in unproved if fault.f != ELECT_MASTER]
        elif orders:
            lost = frozenset(gone(history))
            unproved = [f for f in unproved if f.f != ELECT_MASTER or not _only(f, lost)]
        counts = {"faults": len(found), "without-proof": len(unproved)}
        if not unproved:
            return Verdict(checker=self.name, counts=counts)
        refused = [f"before the first fault, {_refusal(f)}" for f in unproved if f.f == TRIAL]
        unproved = [f for f in unproved if f.f != TRIAL]
        named = [f"{fault.f} at op {fault.begun}{_why(fault)}" for fault in unproved[:NAMED_MAX]]
        more = f" and {len(unproved) - NAMED_MAX} more" if len(unproved) > NAMED_MAX else ""
        faultless = [f"a fault without proof: {'; '.join(named)}{more}"] if named else []
        return Verdict(checker=self.name, counts=counts, gate="; ".join((*refused, *faultless)))


def _refusal(fault: Fault) -> str:
    """What clients were refused before the run, which ended at once for that."""
    done = fault.result.get("cluster") if isinstance(fault.result, dict) else None
    return str(done.get("refused")) if isinstance(done, dict) else "clients were refused something"


def _why(fault: Fault) -> str:
    if fault.ended is None:
        return " never completed"
    if not isinstance(fault.result, dict) or not fault.result:
        return " names no node"
    return f" does not hold on {', '.join(sorted(_missing(fault)))}"


def _only(fault: Fault, nodes: frozenset[str]) -> bool:
    """Whether a fault holds on all but these nodes, and not on some of them."""
    missing = _missing(fault)
    return bool(missing) and missing <= nodes


def _missing(fault: Fault) -> set[str]:
    """The nodes on which a fault that has completed does not hold."""
    if not isinstance(fault.result, dict):
        return set()
    nodes = fault.result.items()
    return {str(node) for node, done in nodes if not held(done) and not fault.by_itself(done)}
