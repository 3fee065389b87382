"""A fault and its heal are one act: what was done, to which nodes, from when to when.

An act begins with the fault's action and lasts on each of its nodes until a heal of its kind that
names the node, or names none, is complete. Several cuts may lie between the same nodes: one that a
schedule names ends with its own heal. A process that was started runs, whosever heal that was. What
undoes itself, as a restart, ends with its own completion. A node that is suspended is so until its
process ends, by whatever act. An act that was not healed lasts to the end of the run; so does what
cannot be paired.
Indices are of the history, times in ns of its clock.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from heapq import merge
from typing import Any

import msgspec

from maxq.checkers.evidence.faults import Fault, faults
from maxq.checkers.evidence.observations import NEVER
from maxq.histories.fault_facts import Effect
from maxq.histories.history import History

ANY = ""  # as the name of heals: all of them
ENDS = "ends"  # what ends processes
# What takes a node away, the most direct first.
TAKES: tuple[Effect, ...] = (
    *("down", "order", "held", "cut", "disk", "address", "slow", "degraded", "clock"),
)


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
    def effect(self) -> Effect | None:
        return self.fault.effect

    @property
    def begun(self) -> int:
        """The index from which it may be felt."""
        return self.fault.begun

    def over(self, node: str) -> int:
        """The index by which it is surely over on a node; a cut is over where it was felt."""
        if node not in self.nodes and self.effect == "cut":
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

    def parts(self, one: str, other: str) -> bool:
        """Whether it is a cut by which one of two nodes does not hear the other."""
        return self.effect == "cut" and (other in self._unheard(one) or one in self._unheard(other))

    def _unheard(self, node: str) -> Mapping[str, Any] | Sequence[str]:
        proof = self.fault.result.get(node) if isinstance(self.fault.result, dict) else None
        unheard = proof.get("from", ()) if isinstance(proof, dict) else ()
        return unheard if isinstance(unheard, dict | list | tuple) else ()


def acts_of(history: History) -> list[Act]:
    """The acts of a history, in order of their faults."""
    return paired(faults(history))


def paired(every: Sequence[Fault]) -> list[Act]:
    """The acts among the actions of a nemesis, given in order."""
    later: dict[str, list[Fault]] = defaultdict(list)
    for action in every:
        if action.ended is not None and action.kind == "heal":
            later[action.f].append(action)
            later[ANY].append(action)
        if action.ended is not None and _ended_by(action):
            later[ENDS].append(action)
        if action.ended is not None and action.started:
            for start in action.kinds.starting:
                if action.f != start:
                    later[start].append(action)
    return [
        Act(fault=action, healed=_healed(action, later))
        for action in every
        if action.kind == "fault"
    ]


def _ended_by(action: Fault) -> frozenset[str]:
    """The nodes whose processes an action ended, for a while at least."""
    if action.effect == "down":
        return frozenset(action.nodes) if action.holds else frozenset()
    return action.started


def _named(heal: Fault, own: Sequence[str], *, ended: bool) -> Collection[str]:
    """The nodes on which an action heals a fault with heals of its own, or, if it has ended with
    the process, ends that."""
    if not own or heal.f in own:
        return heal.nodes
    return _ended_by(heal) if ended else heal.started


def _healed(fault: Fault, later: Mapping[str, Sequence[Fault]]) -> dict[str, Fault]:
    """The first heal after a fault for each of its nodes; `later` has heals by name, in order,
    and all of them as `ANY`."""
    if fault.passes and fault.ended is not None:
        return dict.fromkeys(fault.nodes, fault)
    own = fault.facts.heals if fault.facts is not None else ()
    ends = (ENDS,) if own and fault.effect == "held" else ()
    after = _by_any((*own, *ends) or (ANY,), later)
    found: dict[str, Fault] = {}
    missing = set(fault.nodes)
    for at in range(bisect_right(after, fault.begun, key=_begun), len(after)):
        heal = after[at]
        others = heal.of not in ("", fault.request)
        if others and fault.effect == "cut" and heal.effect is None:
            continue
        named = _named(heal, own, ended=bool(ends))
        for node in sorted(missing.intersection(named) if heal.nodes else missing):
            found[node] = heal
        missing -= found.keys()
        if not missing:
            break
    return found


def _by_any(names: Sequence[str], later: Mapping[str, Sequence[Fault]]) -> Sequence[Fault]:
    """The heals of some names, in order."""
    if len(names) == 1:
        return later.get(names[0], ())
    return list(merge(*(later.get(name, ()) for name in names), key=_begun))


def _begun(fault: Fault) -> int:
    return fault.begun
