"""A partition that fills up, by nobody of the cluster.

fill-disk  a file of nobody's takes what is left of the partition of a broker, and of those in its
           container, up to 95 %: they refuse sends (`diskSpaceWarningLevelRatio`)
free-disk  the file is gone: they take messages again

The disk still takes what is written, so brokers start and stop on it. Nothing of a broker that is
within its share is deleted for that. Source: docs/spec/acting-master.md 2.8.
"""

from collections.abc import Iterator, Sequence

from maxq.harness.contracts.cluster import DiskFilling, Part
from maxq.harness.contracts.environment import Capability
from maxq.histories.fault_facts import FILL_DISK, FREE_DISK
from maxq.nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step, on_each
from maxq.nemeses.kinds.process import held, one_of
from maxq.nemeses.stage import Stage

STRUCK: tuple[Part, ...] = ("master", "slave")
HELD_S = 10.0


def _answering(stage: Stage, args: Args) -> Fit:
    """Who can say whether it takes messages."""
    return lambda node: stage.up(node) and stage.writable(node) and not stage.paused(node)


def _rounds(drawing: Drawing) -> Iterator[Sequence[Step]]:
    parts = drawing.bag(STRUCK)
    while True:
        yield held(Step(FILL_DISK, who=one_of(parts)), FREE_DISK, HELD_S)


FILL = Kind(
    name=FILL_DISK,
    about="the partition of a broker, and of those in its container, fills up: sends are refused",
    acts=(
        ActKind(
            f=FILL_DISK, needs=frozenset({Capability.FILL}), fit=_answering,
            do=on_each(DiskFilling, lambda cluster, args: cluster.fill_disk),
        ),
        ActKind(
            f=FREE_DISK, needs=frozenset({Capability.FILL}), back=True,
            fit=lambda stage, args: stage.cluster.offers(DiskFilling).filled,
            do=on_each(DiskFilling, lambda cluster, args: cluster.free_disk),
        ),
    ),
    rounds=_rounds,
    asked_only=True,
)  # fmt: skip
