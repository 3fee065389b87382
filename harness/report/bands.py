"""The acts of a history as what plots are shaded with: each has a colour."""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from maxq.checkers.evidence.acts import Act, paired
from maxq.checkers.evidence.faults import Fault, faults
from maxq.histories.history import History


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """One act."""

    act: Act
    color: str

    @property
    def fault(self) -> Fault:
        return self.act.fault

    @property
    def f(self) -> str:
        return self.act.f

    def end_ns(self, node: str | None = None) -> int | None:
        """When it was healed: on one node, or on the last of all; None: never."""
        return self.act.end_ns(node)


class Actions(msgspec.Struct, frozen=True, kw_only=True):
    """All that the nemesis did: `every` action in order, and its faults as bands."""

    every: Sequence[Fault]
    bands: Sequence[Band]

    @property
    def colors(self) -> dict[str, str]:
        """The colour of each kind of fault, in the order of their first strikes."""
        return {band.f: band.color for band in self.bands}

    def by_node(self) -> dict[str, list[Band]]:
        """The faults of each node, in order."""
        found: dict[str, list[Band]] = defaultdict(list)
        for each in self.bands:
            for node in each.fault.nodes:
                found[node].append(each)
        return found


def actions(history: History) -> Actions:
    """What the nemesis did in a history."""
    every = faults(history)
    bands = [Band(act=act, color=history.kinds.color(act.f)) for act in paired(every)]
    return Actions(every=every, bands=bands)
