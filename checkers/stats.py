"""How many operations of each kind, and whether the workload did anything at all.

A kind of which no attempt ever succeeded makes the verdict `unknown`: whatever the other checkers
say of such a run, they have not seen that kind work. (Upstream says false; see history-format 16.)
"""

from checkers.api import Context, Verdict
from histories.history import History

NEVER_OK = frozenset(("crash",))  # `info` on purpose


class Stats:
    """The checker."""

    name = "stats"
    claims: tuple[str, ...] = ()

    def check(self, history: History, context: Context) -> Verdict:
        count = history.totals
        kinds = sorted({f for f, _ in count} - NEVER_OK)
        counts: dict[str, int] = {}
        for f, op_type in sorted(count):
            counts[f"{f}.{op_type}"] = count[f, op_type]
        doubts = [f"no {f} ever succeeded" for f in kinds if not count[f, "ok"]]
        doubts += [
            f"only {count[f, 'ok']} ok {f}, {least} needed"
            for f, least in sorted(context.ok_ops_min.items())
            if count[f, "ok"] < least
        ]
        if not kinds:
            doubts.append("no operation by any client")
        return Verdict(
            checker=self.name,
            claims=self.claims,
            valid="unknown" if doubts else True,
            counts=counts,
            reason="; ".join(doubts),
        )
