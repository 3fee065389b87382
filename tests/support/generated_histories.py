"""Generated histories, judged in this process."""

from typing import NamedTuple

from maxq.checkers.core.api import Anomaly
from maxq.checkers.judgement.runner import Results
from maxq.harness.run.judging import judge
from maxq.harness.schedule.generated import options_of
from maxq.histories.history import History
from maxq.workloads.generated.asked.request import Planted, Request
from maxq.workloads.generated.memory import Made, made


class Judged(NamedTuple):
    made: Made
    results: Results

    @property
    def anomalies(self) -> list[Anomaly]:
        return [a for v in self.results.verdicts for a in v.anomalies]

    def shows(self, planted: Planted) -> list[Anomaly]:
        """The anomalies that are what was planted."""
        return [a for a in self.anomalies if a.name in planted.allowed and cites(a, planted)]


def cites(anomaly: Anomaly, planted: Planted) -> bool:
    """Whether an anomaly is about what was planted: its operations, or its message."""
    if set(anomaly.ops) & set(planted.ops):
        return True
    detail = anomaly.detail
    message = planted.key is not None and detail.get("key") == planted.key
    return message and detail.get("offset", -1) == planted.offset


def judged(request: Request) -> Judged:
    found = made(request)
    options = options_of(
        request, found.outcome.main_ns, learners=request.learners, trims=request.trims
    )
    return Judged(found, judge(options, History(found.ops)))
