"""Example checker: a client reads what it wrote last, or something that it wrote unsurely since.

Claim X1. A key belongs to one process, so its operations are in order, and an `info` write may
have taken effect or not.
"""

from collections import defaultdict

from maxq.checkers.core.api import Context, Verdict
from maxq.checkers.core.claim import Claim
from maxq.checkers.evidence.story import when
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.harness.run.plugins import CheckerKind
from maxq.histories.history import History
from maxq.histories.op import Op, Process


class LastWrite:
    """The checker: a pure function of the history."""

    name = "register"
    claims: tuple[str, ...] = ("X1",)

    def check(self, history: History, context: Context) -> Verdict:
        possible: dict[Process, list[Op]] = defaultdict(list)  # writes that may be the last one
        found, reads = [], 0
        for op in history.clients:
            if op.f == "write" and op.type in ("ok", "info"):
                possible[op.process] = [*(possible[op.process] if op.type == "info" else ()), op]
            elif op.f == "read" and op.type == "ok" and possible[op.process]:
                reads += 1
                if op.value not in [w.value for w in possible[op.process]]:
                    found.append(_stale(op, possible[op.process][-1]))
        case = Case(found=found, judged={"X1": reads}, counts={"reads": reads})
        if not reads:  # a claim is never kept without evidence
            case.doubt("X1", "no process read what it had written", "--time-limit: a longer run")
        return rule(self, history, context, case)


def _stale(read: Op, last: Op) -> Found:
    said = (
        f"Process {read.process} wrote {last.value} {when(last)} (op {last.index}) and then read "
        f"{read.value} (op {read.index})."
    )
    return Found("X1", "stale-read", (last.index, read.index), said, {"value": read.value})


REGISTER = CheckerKind(
    checker=LastWrite(),
    about="a client that reads an older setting than it wrote",
    claims=(
        Claim(
            id="X1",
            promise="A client reads the setting that it wrote last, or one that it wrote since "
            "without an answer.",
            source="the worked example of docs/plugins.md",
            grounds=(),
            checker="register",
        ),
    ),
    anomalies={"stale-read": "X1"},
    workloads=("register",),
)
