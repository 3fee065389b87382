"""Example checker: a client reads what it wrote last, or something that it wrote unsurely since.

Claim X1. A key belongs to one process, so its operations are in order, and an `info` write may
have taken effect or not.
"""

from collections import defaultdict

from checkers.api import Anomaly, Context, Verdict
from checkers.story import Storyteller, when
from histories.history import History
from histories.op import Op, Process


class LastWrite:
    """The checker: a pure function of the history."""

    name = "register"
    claims: tuple[str, ...] = ("X1",)

    def check(self, history: History, context: Context) -> Verdict:
        possible: dict[Process, list[Op]] = defaultdict(list)  # writes that may be the last one
        teller, found, reads = Storyteller(history), [], 0
        for op in history.clients:
            if op.f == "write" and op.type in ("ok", "info"):
                possible[op.process] = [*(possible[op.process] if op.type == "info" else ()), op]
            elif op.f == "read" and op.type == "ok" and possible[op.process]:
                reads += 1
                if op.value not in [w.value for w in possible[op.process]]:
                    found.append(self._stale(teller, op, possible[op.process]))
        counts = {"reads": reads, "stale": len(found)}
        if found:
            return Verdict(checker=self.name, claims=self.claims, valid=False,
                           anomalies=tuple(found), counts=counts)  # fmt: skip
        return Verdict(
            checker=self.name,
            claims=self.claims,
            valid=True if reads else "unknown",  # never valid without evidence
            counts=counts,
            reason="" if reads else "nobody read what it had written",
        )

    def _stale(self, teller: Storyteller, read: Op, writes: list[Op]) -> Anomaly:
        last = writes[-1]
        return Anomaly(
            claim="X1",
            name="stale-read",
            signature="X1/stale-read",
            ops=teller.evidence((last.index, read.index)),
            story=f"Process {read.process} wrote {last.value} {when(last)} (op {last.index}) and "
            f"then read {read.value} (op {read.index}). {teller.around(read.index)}",
        )
