"""Power: a machine loses its power, and with it what its disk had not synced.

As `kill`, but harder: the page cache does not survive. `power-loss` completes when process and port
are gone and the disk has lost what it had to; `start` brings everything back. Each third time it
strikes all brokers: one rack, one power supply. What is promised then needs brokers that sync
before they answer (flushDiskType=SYNC_FLUSH): ASYNC_FLUSH promises nothing on a loss of power.
"""

from collections.abc import Iterator, Sequence
from itertools import cycle

from maxq.harness.contracts.cluster import Part, PowerLosing
from maxq.harness.contracts.environment import Capability
from maxq.harness.schedule.format import EVERYBODY, Who
from maxq.nemeses.kind import ActKind, Drawing, Kind, Step, on_each, running
from maxq.nemeses.kinds.process import DOWN_S, START, held, one_of

STRUCK: tuple[Part, ...] = ("master", "master", "slave", "controller-leader", "controller")


def _losses(drawing: Drawing) -> Iterator[Sequence[Step]]:
    parts, holds = drawing.bag(STRUCK), drawing.holds(DOWN_S)
    for rack in cycle((False, False, True)):
        who = Who(part="broker", count=EVERYBODY) if rack else one_of(parts)
        yield held(Step("power-loss", who=who), "start", holds.next())


POWER_LOSS_ACT = ActKind(
    f="power-loss", needs=frozenset({Capability.POWER_LOSS}), fit=running,
    do=on_each(PowerLosing, lambda cluster, args: cluster.power_loss),
)  # fmt: skip
POWER = Kind(
    name="power",
    about="a machine loses its power, and what was not synced; on real ones as root, if named",
    acts=(POWER_LOSS_ACT, START),
    rounds=_losses,
    stand_in="kill",
)
