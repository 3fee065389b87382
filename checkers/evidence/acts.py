"""A fault and its heal are one act: what was done, to which nodes, from when to when.

An act begins with the fault's action and lasts on each of its nodes until a heal of its kind that
names the node, or names none, is complete; where a schedule says whose heal it is, that one's.
What undoes itself, as a restart, ends with its own completion. An act that nobody healed lasts to
the end of the run; so does what cannot be paired.
Indices are of the history, times in ns of its clock.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import msgspec

from checkers.evidence.faults import Fault, faults
from histories.history import History
from histories.observed import CHANGE_LEADER, ELECT_MASTER, LAST_LOOK

# Of the nemesis, but neither fault nor heal.
QUESTIONS = frozenset(
    ("inspect", "await-recovery", LAST_LOOK, "check-clock-offsets", ELECT_MASTER, CHANGE_LEADER)
)
# What undoes a fault, by its last word: start, resume, heal, stop-partition, reset-clock.
HEALS = re.compile(r"(start|stop|resume|heal|reset|restore)(-.*)?")
# Which heal undoes which fault, where the names alone do not say; several faults may be at work.
UNDONE_BY = {
    "kill": "start",
    "terminate": "start",
    "power-loss": "start",
    "pause": "resume",
    "start-partition": "stop-partition",
    "change-ip": "restore-ip",
    "bump-clock": "reset-clock",
    "start-disk-fault": "stop-disk-fault",
    "start-delay": "stop-delay",
}
UNDONE_BY_ITSELF = frozenset(("restart", "order-election"))
STARTS = re.compile(r"start-.*")  # of Jepsen's packages: the begin of a partition or of bad packets
CUT = "start-partition"
NEVER = 1 << 62  # an index, or a time, that never comes

Effect = Literal["down", "held", "cut", "moved", "disk", "slow", "clock", "order", ""]
# What an act does to a node that it names.
EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(("kill", "terminate", "power-loss", "restart", "wipe"), "down"),
    "pause": "held",
    CUT: "cut",
    "change-ip": "moved",
    "start-disk-fault": "disk",
    "start-delay": "slow",
    "bump-clock": "clock",
    "order-election": "order",
}
# What takes a node away, the most direct first.
TAKES: tuple[Effect, ...] = ("down", "order", "held", "cut", "disk", "moved", "slow", "clock")


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, and the heal that ended it on each of its nodes, where one did."""

    fault: Fault
    healed: Mapping[str, Fault]

    @property
    def f(self) -> str:
        return self.fault.f

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.fault.nodes

    @property
    def effect(self) -> Effect:
        return EFFECTS.get(self.f, "")

    @property
    def begun(self) -> int:
        """The index from which it may be felt."""
        return self.fault.begun

    def over(self, node: str) -> int:
        """The index by which it is surely over on a node; a cut is over where it was felt."""
        if node not in self.nodes and self.f == CUT:
            return max((self.over(other) for other in self.nodes), default=NEVER)
        heal = self.healed.get(node)
        if heal is None:
            return NEVER
        return NEVER if heal.ended is None else heal.ended

    def end_ns(self, node: str | None = None) -> int | None:
        """When it was healed: on one node, or on the last of all; None: never."""
        if node is not None:
            heal = self.healed.get(node)
            return heal.ended_ns if heal is not None else None
        ends = [self.end_ns(node) for node in self.nodes]
        if not ends or None in ends:
            return None
        return max(end for end in ends if end is not None)

    def touches(self, node: str, low: int, high: int) -> bool:
        """Whether it was at work on a node between two indices: a cut also on a node that others
        did not hear."""
        struck = node in self.nodes or any(node in self._unheard(other) for other in self.nodes)
        return struck and self.begun <= high and self.over(node) >= low

    def touches_any(self, nodes: Collection[str], at: int) -> bool:
        """Whether it was at work on one of some nodes at an index."""
        return any(self.touches(node, at, at) for node in nodes)

    def parts(self, one: str, other: str) -> bool:
        """Whether it is a cut by which one of two nodes does not hear the other."""
        return self.f == CUT and (other in self._unheard(one) or one in self._unheard(other))

    def _unheard(self, node: str) -> Mapping[str, Any] | Sequence[str]:
        proof = self.fault.result.get(node) if isinstance(self.fault.result, dict) else None
        unheard = proof.get("from", ()) if isinstance(proof, dict) else ()
        return unheard if isinstance(unheard, dict | list | tuple) else ()


def heals(f: str) -> bool:
    """Whether an action of the nemesis undoes a fault, by its name."""
    return HEALS.fullmatch(f) is not None and STARTS.fullmatch(f) is None


def kind_of(action: Fault) -> Literal["fault", "heal", "question"]:
    """What an action of the nemesis is. `stop` is a fault here, which by its name alone would be a
    heal."""
    if action.f in QUESTIONS:
        return "question"
    return "heal" if heals(action.f) and action.f not in UNDONE_BY else "fault"


def acts_of(history: History) -> list[Act]:
    """The acts of a history, in order of their faults."""
    return paired(faults(history))


def paired(every: Sequence[Fault]) -> list[Act]:
    """The acts among the actions of a nemesis, given in order."""
    later: dict[str, list[Fault]] = defaultdict(list)
    for action in every:
        if action.ended is not None and kind_of(action) == "heal":
            later[action.f].append(action)
            later[""].append(action)
        if action.ended is not None and action.f != "start" and started_by(action):
            later["start"].append(action)
    return [
        Act(fault=action, healed=_healed(action, later))
        for action in every
        if kind_of(action) == "fault"
    ]


def started_by(action: Fault) -> frozenset[str]:
    """The nodes that an action started beside what it is for: to be moved may be to start anew."""
    result = action.result if isinstance(action.result, dict) else {}
    return frozenset(
        str(node)
        for node, proof in result.items()
        if isinstance(proof, dict) and isinstance(proof.get("started"), dict)
    )


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
        if heal.of and heal.of != fault.request:
            continue
        of_its_kind = heal.f == UNDONE_BY.get(fault.f, heal.f)
        named = heal.nodes if of_its_kind else started_by(heal)
        for node in sorted(missing.intersection(named) if heal.nodes else missing):
            found[node] = heal
        missing -= found.keys()
        if not missing:
            break
    return found


def _begun(fault: Fault) -> int:
    return fault.begun
