"""The acts of a history's nemesis, each with what came of it.

Each action of the nemesis is a pair of `info` operations: begun, and completed once a probe saw it
take effect (or, for a heal, end). The completion's value is a map from node to what was done there,
with ``"holds": true`` where the probe saw it. An action that never completed, touched no node, or
does not hold on each, is without proof (`maxq.checkers.judgement.fault_proof`).

Sources: docs/spec/history-format.md 5, docs/spec/checkers.md 7.
"""

from typing import Any, NamedTuple

import msgspec

from maxq.histories.fault_facts import (
    BUILT_IN,
    Effect,
    FaultFacts,
    Kind,
    Kinds,
)
from maxq.histories.history import History
from maxq.histories.op import Op

HOLDS = "holds"


# Keys of a proof that hold the exit code of a node that had ended by itself; the second is of
# histories of older versions, and so is the reason.
ENDED = ("ended_by_itself", "had_ended_by_itself")
BY_ITSELF = "it had ended by itself"


class Ended(NamedTuple):
    """A node had ended by itself, or, `starts`, was started and ended again."""

    code: object
    starts: bool


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One action of the nemesis, for reports. Indices and times (ns) of its two operations. `asked`
    is what a schedule asked beside the request, which is then the act's id; empty otherwise.
    `kinds` are those of its history."""

    f: str
    process: str
    begun: int
    ended: int | None
    begun_ns: int
    ended_ns: int | None
    nodes: tuple[str, ...]
    request: Any
    result: Any
    holds: bool
    asked: dict[str, Any] = {}
    kinds: Kinds = BUILT_IN

    @property
    def kind(self) -> Kind:
        """What it is; of an unknown act as its name suggests."""
        return self.kinds.kind(self.f)

    @property
    def known(self) -> bool:
        """Whether the act is in the table of facts."""
        return self.kinds.knows(self.f)

    @property
    def facts(self) -> FaultFacts | None:
        """Its facts; None where it heals, or is unknown."""
        return self.kinds.of(self.f)

    @property
    def ends(self) -> tuple[FaultFacts, ...]:
        """The kinds of faults that it heals."""
        return self.kinds.ended_by(self.f)

    @property
    def effect(self) -> Effect | None:
        """Its effect on its nodes; None where it heals, or is unknown."""
        return self.kinds.effect(self.f)

    @property
    def harmless(self) -> bool:
        """Whether it leaves every node sound, and so did what it heals."""
        return self.kinds.harmless(self.f)

    @property
    def silences(self) -> bool:
        """Whether its nodes are silent until a heal."""
        return self.facts is not None and self.facts.silences

    @property
    def brings_down(self) -> bool:
        """Whether its nodes are down until a heal."""
        return self.silences and self.effect == "down"

    @property
    def passes(self) -> bool:
        """Whether it ends with its own completion."""
        return self.facts is not None and self.facts.passes

    @property
    def ends_connections(self) -> bool:
        """Whether processes end and their machines close the connections."""
        return self.brings_down and not self.kinds.loses_unsynced(self.f)

    @property
    def may_start(self) -> bool:
        """Whether it may start the processes of its nodes."""
        return self.kinds.may_start(self.f)

    @property
    def changes_address(self) -> bool:
        """Whether it changes addresses, or changes them back."""
        return self.kinds.concerns(self.f, "address")

    @property
    def cuts(self) -> bool:
        """Whether it cuts, or ends a cut."""
        return self.kinds.concerns(self.f, "cut")

    @property
    def done(self) -> bool:
        """Whether the nemesis did what it had to: each node's proof holds, or the node had ended by
        itself or ended again when it was started, which is the node's doing (S15)."""
        proofs = self.result.values() if isinstance(self.result, dict) else ()
        return bool(proofs) and all(held(p) or self.by_itself(p) is not None for p in proofs)

    def by_itself(self, proof: object) -> Ended | None:
        """What its proof of one node says of an end that it did not cause; None: nothing."""
        if not isinstance(proof, dict):
            return None
        for key in ENDED:
            if proof.get(key) is not None:
                return Ended(proof[key], starts=False)
        if proof.get("reason") == BY_ITSELF:
            return Ended(proof.get("code"), starts=False)
        if proof.get(HOLDS):
            return None
        started = proof.get("started", proof if self.f in self.kinds.starting else None)
        if isinstance(started, dict) and started.get("code") is not None:
            return Ended(started["code"], starts=True)
        return None

    @property
    def started(self) -> frozenset[str]:
        """The nodes that it started beside what it is for, as a change of address may."""
        result = self.result if isinstance(self.result, dict) else {}
        return frozenset(
            str(node)
            for node, proof in result.items()
            if isinstance(proof, dict) and isinstance(proof.get("started"), dict)
        )

    @property
    def of(self) -> str:
        """The act whose fault this one heals, where a schedule names it."""
        who = self.asked.get("who")
        return str(who.get("of", "")) if isinstance(who, dict) else ""

    @property
    def args(self) -> dict[str, Any]:
        """What a schedule gave the action; empty otherwise."""
        args = self.asked.get("args")
        return args if isinstance(args, dict) else {}


def may_start(act: Fault, node: str) -> bool:
    """Whether an act may have started a node. To change an address may be to start anew."""
    named = act.ended is None or not isinstance(act.result, dict) or node in act.result
    return named and act.may_start


def faults(history: History) -> list[Fault]:
    """Every action of the nemesis, in order."""
    return list(history.once(Fault, lambda: _faults(history)))


def _faults(history: History) -> list[Fault]:
    found: list[Fault] = []
    for op in history.nemesis:
        done = history.completion(op)
        if done is None or done.index > op.index:
            found.append(_fault(op, done, history.kinds))
    return found


def _fault(begun: Op, done: Op | None, kinds: Kinds) -> Fault:
    result = None if done is None else done.value
    nodes = tuple(sorted(map(str, result))) if isinstance(result, dict) else ()
    return Fault(
        f=begun.f,
        process=str(begun.process),
        begun=begun.index,
        ended=None if done is None else done.index,
        begun_ns=begun.time,
        ended_ns=None if done is None else done.time,
        nodes=nodes,
        request=begun.value,
        result=result,
        holds=isinstance(result, dict) and bool(result) and all(map(held, result.values())),
        asked=begun.ext or {},
        kinds=kinds,
    )


def held(done: Any) -> bool:
    """Whether a node's proof says that the act took effect there."""
    return isinstance(done, dict) and done.get(HOLDS) is True
