"""How many operations of each kind there were, by outcome. Nothing is judged by it."""

from maxq.checkers.core.api import Context, Verdict
from maxq.histories.history import History


class Stats:
    """The checker."""

    name = "stats"
    claims: tuple[str, ...] = ()

    def check(self, history: History, context: Context) -> Verdict:
        count = history.totals
        counts = {f"{f}.{op_type}": count[f, op_type] for f, op_type in sorted(count)}
        gate = "" if counts else "no operation by any client"
        return Verdict(checker=self.name, counts=counts, gate=gate)
