"""Epoch files that are removed, as the upgrade to RocketMQ 5.1.1 prescribes.

remove-epochs  of a broker that is down: its epoch file and the copy of it are removed, and nothing
               else; of one without any nothing is done. identity: the file of its persistent id as
               well, which controllers that begin again do not know

Which master wrote which part of its log the broker cannot know afterwards. Nothing is lost by that,
and every promise holds: logs have to be compared, not to be thrown away. Each third time it happens
to all brokers at once, which are stopped for it, and started in any order.
Source: docs/spec/controller-ha.md 4.7, 6.5.
"""

import contextlib
from collections.abc import Iterator, Sequence
from itertools import cycle

from maxq.harness.contracts.cluster import NothingThere, Part, Tamperable
from maxq.harness.contracts.environment import Capability
from maxq.harness.schedule.format import EVERYBODY, Who
from maxq.histories.fault_facts import REMOVE_EPOCHS
from maxq.nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step
from maxq.nemeses.kinds.process import KILL_ACT, START, STOP_ACT, one_of
from maxq.nemeses.stage import Stage, Told, told

STRUCK: tuple[Part, ...] = ("master", "master", "slave", "sync-state-set-slave")
FILES = ("epochFileCheckpoint", "epochFileCheckpoint.bak")
IDENTITY = "brokerIdentity"
APART_S = 0.5  # between the acts of an operator


def _stopped(stage: Stage, args: Args) -> Fit:
    return lambda node: not stage.up(node)


async def _remove(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    stores, done = stage.cluster.offers(Tamperable), {}
    for node in nodes:
        with contextlib.suppress(NothingThere):
            files = (*FILES, IDENTITY) if args.get("identity") else FILES
            done[node] = told(await stores.remove_files(node, files))
    return done


def _rounds(drawing: Drawing) -> Iterator[Sequence[Step]]:
    parts = drawing.bag(STRUCK)
    for upgrade in cycle((False, False, True)):
        who = Who(part="broker", count=EVERYBODY) if upgrade else one_of(parts)
        yield (
            Step("stop" if upgrade else "kill", who=who),
            Step(REMOVE_EPOCHS, APART_S, of=0),
            Step("start", APART_S, of=0),
        )


REMOVED_EPOCHS = Kind(
    name=REMOVE_EPOCHS,
    about="a broker's epoch files go while it is down, as in the upgrade to 5.1.1",
    acts=(
        KILL_ACT,
        STOP_ACT,
        START,
        ActKind(
            f=REMOVE_EPOCHS, needs=frozenset({Capability.KILL}), fit=_stopped, do=_remove,
            alone=True,
        ),
    ),
    rounds=_rounds,
    asked_only=True,
    whole=True,
)  # fmt: skip
