"""Trials of a scenario whose outcomes are given, for what decides by them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maxq.harness.experiments.scenarios import scenario
from maxq.harness.experiments.scenarios.scenario import Scenario, Trial, Trials, Way
from maxq.harness.schedule.format import Act, Header, Known, Schedule, When, Who

KNOWN = Known(bad="rocketmq:5.5.0", good="rocketmq:5.3.1", shows=("S6/lost-tail",))
SCRIPT = Schedule(
    header=Header(name="test", known=KNOWN),
    acts=(Act(id="k", f="kill", when=When(at=1), who=Who(part="master")),),
)
A = scenario.Scenario("test", SCRIPT, KNOWN)


class Canned(Trials):
    """Trials whose outcomes are given: target to what its trials come to, the last one for ever."""

    def __init__(self, folder: Path, outcomes: Mapping[str, str], script: Scenario = A) -> None:
        super().__init__(script, folder, environment="local")
        self.outcomes = outcomes
        self.ran: list[str] = []

    def _run(self, target: str, *, way: Way) -> Trial:
        letters = self.outcomes["control" if way == "control" else target]
        count = len(self.of(target, way=way))
        letter = letters[min(count, len(letters) - 1)]
        came: Any = {"b": "bad", "c": "clean", "f": "failed"}[letter]
        digest = self._digest(way=way)
        self.ran.append(target)
        return Trial(target=target, environment="local", came=came, digest=digest)
