"""Acting: of a pair without its master the smallest slave acts, no other does, and it ends.

Judged in quiet periods: times between two acts of the nemesis, in which the state is known. A quiet
period counts from the bound for a silent member on, and only one in which no node is doubtful,
nobody is cut off and all name servers run. A set whose master is gone then has one acting slave,
the smallest that runs (A1), and no other (A2); in a set whose master runs no slave acts (A3),
counted from when that master was last isolated: until it has what its slaves have, one of them
acts. Isolated is who says so; of RocketMQ's masters, which do not say it, who is missing in a name
server's table. What a slave says was so when it was asked, so an answer counts if its question and
answer lie in the quiet period. A slave that says it is isolated itself, as one that was started
beside a silent master, has the bound from then on, and the recovery bound in all.

Claims: A1, A2, A3 (docs/spec/acting-master.md 8.3), of brokers without controllers.
"""

from maxq.checkers.core.api import Context, Verdict, unreadable
from maxq.checkers.evidence.nodes.acting import answers
from maxq.checkers.evidence.verdicts import Case, rule
from maxq.histories.history import History
from maxq.histories.op import HistoryError


class Acting:
    """The checker. See the module's text."""

    name = "acting"
    claims = ("A1", "A2", "A3")

    def check(self, history: History, context: Context) -> Verdict:
        try:
            return rule(self, history, context, _case(history, context))
        except HistoryError as error:
            return unreadable(self, error)


def _case(history: History, context: Context) -> Case:
    case = Case(judged=dict.fromkeys(Acting.claims, 0))
    reported: set[tuple[int, str]] = set()  # one finding of a lull and claim
    for lull, name, claim, found in answers(history, context):
        case.judged[claim] += 1
        if found is not None and (lull.time.at, claim + name) not in reported:
            reported.add((lull.time.at, claim + name))
            case.found.append(found)
    case.counts = {f"answers-{claim}": n for claim, n in case.judged.items()}
    return case
