"""When each fault was at work, and on which nodes: what plots are shaded with.

A fault begins with its action and lasts until a heal of its kind that names its node, as far as
probes told. What undoes itself, as a restart, ends with its own completion. A fault that nobody
healed lasts to the end of the run; so does what we cannot pair.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from checkers.faults import Fault, faults
from checkers.story import QUESTIONS, UNDONE_BY, UNDONE_BY_ITSELF, heals
from histories.history import History
from nemeses.palette import band


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. `healed` maps each of its nodes to the heal that ended it there, if any did."""

    fault: Fault
    color: str
    healed: Mapping[str, Fault]

    @property
    def f(self) -> str:
        return self.fault.f

    def end_ns(self, node: str | None = None) -> int | None:
        """When it was healed: on one node, or on the last of all; None: never."""
        if node is not None:
            heal = self.healed.get(node)
            return heal.ended_ns if heal is not None else None
        ends = [self.end_ns(node) for node in self.fault.nodes]
        if not ends or None in ends:
            return None
        return max(end for end in ends if end is not None)


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


def kind_of(action: Fault) -> str:
    """What an action of the nemesis is: fault, heal or question. `stop` is a fault here, which by
    its name alone would be a heal."""
    if action.f in QUESTIONS:
        return "question"
    return "heal" if heals(action.f) and action.f not in UNDONE_BY else "fault"


def actions(history: History) -> Actions:
    """What the nemesis did in a history."""
    every = faults(history)
    later: dict[str, list[Fault]] = defaultdict(list)
    for action in every:
        if action.ended is not None and kind_of(action) == "heal":
            later[action.f].append(action)
            later[""].append(action)
    bands = [
        Band(fault=action, color=band(action.f), healed=_healed(action, later))
        for action in every
        if kind_of(action) == "fault"
    ]
    return Actions(every=every, bands=bands)


def _healed(fault: Fault, later: Mapping[str, Sequence[Fault]]) -> dict[str, Fault]:
    """The first heal after a fault for each of its nodes; `later` has heals by name, in order,
    and all of them under no name."""
    if fault.f in UNDONE_BY_ITSELF and fault.ended is not None:
        return dict.fromkeys(fault.nodes, fault)
    after = later.get(UNDONE_BY.get(fault.f, ""), ())
    found: dict[str, Fault] = {}
    missing = set(fault.nodes)
    for at in range(bisect_right(after, fault.begun, key=_begun), len(after)):
        heal = after[at]
        for node in sorted(missing if not heal.nodes else missing.intersection(heal.nodes)):
            found[node] = heal
            missing.discard(node)
        if not missing:
            break
    return found


def _begun(fault: Fault) -> int:
    return fault.begun
