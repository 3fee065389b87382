"""Logs that have got old, so that brokers delete their first files.

trim  of a broker: all files of its commit log but the one in which the log ends look as if last
      changed a year ago; of one whose log is in its first file nothing is done

The broker deletes them by itself, within its `cleanResourceInterval`, as after three days of use:
`fileReservedTime` is 72 hours. What is younger stays promised. Now and then it happens to all
brokers at once.
Source: RocketMQ ``CleanCommitLogService``.
"""

import contextlib
from collections.abc import Iterator, Sequence

from maxq.harness.contracts.cluster import Aging, NothingThere, Part
from maxq.harness.schedule.format import EVERYBODY, Who
from maxq.histories.fault_facts import TRIM
from maxq.nemeses.kind import ActKind, Args, Drawing, Kind, Step
from maxq.nemeses.kinds.process import one_of
from maxq.nemeses.stage import Stage, Told, told

STRUCK: tuple[Part, ...] = ("master", "master", "slave", "sync-state-set-slave")
ALL_OF = 4  # one round in so many strikes all brokers


async def _age(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    brokers, done = stage.cluster.offers(Aging), {}
    for node in nodes:
        with contextlib.suppress(NothingThere):
            done[node] = told(await brokers.age_log(node, stage.keys))
    return done


def _rounds(drawing: Drawing) -> Iterator[Sequence[Step]]:
    parts = drawing.bag(STRUCK)
    while True:
        everybody = drawing.rng.randrange(ALL_OF) == 0
        who = Who(part="broker", count=EVERYBODY) if everybody else one_of(parts)
        yield (Step(TRIM, who=who),)


RETENTION = Kind(
    name=TRIM,
    acts=(ActKind(f=TRIM, needs=frozenset(), do=_age, alone=True),),
    rounds=_rounds,
    asked_only=True,
)
