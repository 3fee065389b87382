"""Slaves of pairs have their master's topics before a run begins.

They copy the table for the first time a minute after they were started, and every ten seconds from
then on. One that does not have a topic 90 s after its master made it can serve none of its messages
when it acts, and forgets its attributes. Who lacks one is asked for it once more, and what it says
is noted before the first operation; where nobody lacks one nothing is noted. Claim: A12.
"""

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.evidence.faults import faults, held
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.histories.fault_facts import KNOW_TOPICS
from maxq.histories.history import History


class SlaveTopics:
    """The checker. See the module's text."""

    name = "slave-topics"
    claims = ("A12",)

    def check(self, history: History, context: Context) -> Verdict:
        return rule(self, history, context, _case(history))


def _case(history: History) -> Case:
    case = Case()
    for look in faults(history) if history.of_f(KNOW_TOPICS) else ():
        if look.f != KNOW_TOPICS or look.ended is None or not isinstance(look.result, dict):
            continue
        lacking = {node: proof for node, proof in look.result.items() if not held(proof)}
        case.found += [_lacks(node, proof, look.ended) for node, proof in sorted(lacking.items())]
        case.judged["A12"] = len(look.result)
    return case


def _lacks(node: str, proof: object, at: int) -> Found:
    said = {k: str(v) for k, v in proof.items()} if isinstance(proof, dict) else {}
    topic, attributes = said.get("topic", "?"), said.get("attributes", "")
    having = f", with the attributes {attributes}" if attributes else ""
    story = (
        f"{node} copied its master's log, where topic {topic} was made 90 s before{having}. "
        f"Asked for the topic it answered {said.get('answer', '?')} (op {at}). "
        "When it acts for its master, nobody can read the topic there."
    )
    detail = {"node": node, "topic": topic, "attributes": attributes}
    if attributes:
        return Found("A12", "typed-topic-not-copied", (at,), story, detail)
    return Found("A12", "topic-not-copied", (at,), story, detail)
