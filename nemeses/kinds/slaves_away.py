"""The master is struck while it is alone: its slaves are away, and come back before it.

All slaves end in good order. A master counts a slave out whose connection ends, and from then on
takes messages that nobody else has, if its settings let it. Then it is killed, or loses its power.
The slaves come back first, and the master later, when the electors have noticed its end.
Whether a slave leads by then, and what of the master's log is not synced, is what settings decide.
"""

from collections.abc import Callable, Iterator, Sequence

from maxq.harness.contracts.cluster import Part
from maxq.harness.schedule.format import EVERYBODY, Who
from maxq.nemeses.kind import Drawing, Kind, Step
from maxq.nemeses.kinds.power import POWER_LOSS_ACT
from maxq.nemeses.kinds.process import DOWN_S, KILL_ACT, START, STOP_ACT, held

ALONE_S = (4.0, 7.0)  # that a master is alone
# That its slaves are back before it: by RocketMQ's own periods others notice its end after 15 s.
BEFORE_S = 14.0
# Before the next round, or a set that takes nothing while its master is alone or gone would have
# taken too little in the whole run to be judged by it.
WHOLE_S = 10.0


def _rounds(strike: str) -> Callable[[Drawing], Iterator[Sequence[Step]]]:
    def rounds(drawing: Drawing) -> Iterator[Sequence[Step]]:
        while True:
            alone_s = round(drawing.rng.uniform(*ALONE_S), 3)
            if not any(node.replica for node in drawing.nodes):  # it always is
                yield held(Step(strike, who=_all("master")), "start", alone_s)
                continue
            yield (
                Step("stop", who=_all("slave")),
                Step(strike, alone_s, who=_all("master")),
                Step("start", DOWN_S, of=0),
                Step("start", BEFORE_S, of=1),
                Step("start", WHOLE_S, of=0),  # which of them ended meanwhile
            )

    return rounds


def _all(part: Part) -> Who:
    return Who(part=part, count=EVERYBODY)


SLAVES_AWAY_KILL = Kind(
    name="slaves-away-kill",
    about="all slaves are stopped, sends go on, the master is killed; the slaves are back first",
    acts=(STOP_ACT, KILL_ACT, START),
    rounds=_rounds("kill"),
    asked_only=True,
    whole=True,
)
SLAVES_AWAY_POWER = Kind(
    name="slaves-away-power",
    about="all slaves are stopped, sends go on, the master's machine loses its power; the slaves "
    "are back first",
    acts=(STOP_ACT, POWER_LOSS_ACT, START),
    rounds=_rounds("power-loss"),
    asked_only=True,
    whole=True,
    stand_in=SLAVES_AWAY_KILL.name,
)
