"""Removals of stores, and what tampers with them: how often a node's were removed when it spoke.

Sources: docs/spec/controller-ha.md 6.3 (S1, S2).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

import msgspec

from maxq.checkers.evidence.observations import NEVER, shaped
from maxq.histories.fault_facts import TAMPERS, WIPE
from maxq.histories.history import History
from maxq.histories.op import Op

ANY_NODE = ""  # a removal whose victim is not known


class Held(NamedTuple):
    """An owner said, or learnt, that it holds an id.

    `low` and `high` bound how often the owner's store had been removed at that moment.
    """

    owner: str  # as shown to people: "node b0-1", "applicant x"
    low: int
    high: int
    id: int
    at: int  # index of the operation


class OfNode(msgspec.Struct):
    """The value of an operation on one node."""

    node: str


class Wipes:
    """When each node's store was removed, or may have been.

    Between a copy of another's store, or a flipped bit, and the next removal, what the node says is
    not its own word: it counts for nobody.
    """

    def __init__(self, history: History) -> None:
        self._tampered: dict[str, list[tuple[int, bool]]] = defaultdict(list)  # removed: False
        self._begins: dict[str, list[int]] = defaultdict(list)
        self._ends: dict[str, list[int]] = defaultdict(list)
        self._unsure: set[str] = set()
        self.count = 0
        for op in sorted(chain.from_iterable(map(history.of_f, TAMPERS)), key=_index):
            done = history.completion(op)
            if op.type == "fail" or (done is not None and done.index < op.index):
                continue  # a completion: taken with its invocation
            if op.is_client and op.type != "invoke":
                continue
            self._add(op, done)
        for ends in (*self._begins.values(), *self._ends.values()):
            ends.sort()

    def _add(self, begun: Op, done: Op | None) -> None:
        if done is not None and done.type == "fail":
            return
        victims = list(_victims(begun, done))
        for node, _ in victims:
            self._tampered[node].append((begun.index, begun.f != WIPE))
        if begun.f != WIPE:
            return
        self.count += 1
        for node, sure in victims:
            self._begins[node].append(begun.index)
            self._ends[node].append(done.index if sure and done is not None else NEVER)
            if not sure:
                self._unsure.add(node)

    def between(self, node: str, begun: int, at: int) -> tuple[int, int]:
        """How often a node's store had been removed at an instant between two indices."""
        low = bisect_left(self._ends.get(node, []), begun)
        high = sum(bisect_right(self._begins.get(n, []), at) for n in {node, ANY_NODE})
        return low, high

    def held(self, node: str, broker_id: int | None, begun: int, at: int) -> Held | None:
        """What a node's answer says, which is true at an instant between two indices."""
        before = bisect_left(self._tampered.get(node, []), (at, False))
        if broker_id is None or (before and self._tampered[node][before - 1][1]):
            return None
        return Held(f"node {node}", *self.between(node, begun, at), broker_id, at)

    def most(self, node: str) -> int | None:
        """How often its store was removed in the whole history, at most; None: unknown."""
        return None if ANY_NODE in self._unsure else len(self._begins.get(node, []))


def _index(op: Op) -> int:
    return op.index


def _victims(begun: Op, done: Op | None) -> Iterator[tuple[str, bool]]:
    """The nodes of a removal, and whether it surely happened."""
    if begun.is_client:
        yield shaped(begun.value, OfNode, begun.index).node, done is not None and done.type == "ok"
    elif done is None or not isinstance(done.value, dict):
        yield ANY_NODE, False
    else:
        for node, proof in done.value.items():
            yield str(node), isinstance(proof, dict) and proof.get("holds") is True
