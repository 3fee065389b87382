"""Anomalies of a cluster's state, planted into what observers are answered.

Each changes one answer of a sweep, or adds one, so that the state goes on as it was.
"""

from collections.abc import Callable, Mapping

import numpy as np

from maxq.workloads.generated.asked.marks import Mark
from maxq.workloads.generated.columns.rows import Act
from maxq.workloads.generated.nodes.cluster import Cluster, Ends, Sweep


class Told:
    """A sweep to be changed, and the answers that are added to it; acts of `more` come first."""

    def __init__(
        self, cluster: Cluster, sweep: Sweep, ends: Ends, rng: np.random.Generator
    ) -> None:
        self.cluster = cluster
        self.sweep = sweep
        self.ends = ends
        self.rng = rng
        self.more: list[Act] = []
        self.over = sweep.over


State = Callable[[Told], Mark | None]
STATES: Mapping[str, State] = {}
