"""Every kind of fault there is, by name, and every act.

A kind that is not Max-Q's own is added by one call of `register`; from then on it can be asked for
by name, is drawn, performed, replayed and healed like any other, and each run that has acts of it
declares its facts.
"""

import importlib
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import get_args

import msgspec

from maxq.harness.contracts.cluster import Part
from maxq.harness.contracts.environment import Capability
from maxq.harness.contracts.nearest import nearest
from maxq.harness.schedule.format import Act
from maxq.histories.aliases import THEN, current
from maxq.histories.fault_facts import BUILT_IN as BUILT_IN_KINDS
from maxq.histories.fault_facts import BUMP_CLOCK, FaultFacts
from maxq.histories.fault_facts import complaint as complaint_of
from maxq.nemeses.kind import ActKind, Kind
from maxq.nemeses.kinds.address import CHANGE_ADDRESS
from maxq.nemeses.kinds.containers import FAILURE, REMOVAL
from maxq.nemeses.kinds.epochs import REMOVED_EPOCHS
from maxq.nemeses.kinds.fill import FILL
from maxq.nemeses.kinds.machine import CLOCK, DELAY, DISK, LOSS
from maxq.nemeses.kinds.orders import ORDERS
from maxq.nemeses.kinds.partition import PARTITION, PARTITION_ANY, PARTITION_CLIENTS
from maxq.nemeses.kinds.permission import PERMISSION
from maxq.nemeses.kinds.power import POWER
from maxq.nemeses.kinds.process import CHANGE, KILL, PAUSE, REPLACE, RESTART, STOP
from maxq.nemeses.kinds.resets import RESETS
from maxq.nemeses.kinds.retention import RETENTION
from maxq.nemeses.kinds.slaves_away import SLAVES_AWAY_KILL, SLAVES_AWAY_POWER
from maxq.nemeses.kinds.store import STORE
from maxq.reference.records import some

NO_FAULT = "none"
LAST_VICTIM, LAST_REJOINED = "last-victim", "last-rejoined"
PARTS: tuple[str, ...] = (*get_args(Part), LAST_VICTIM, LAST_REJOINED)
BUILT_IN = (
    *(PARTITION, PARTITION_CLIENTS, PARTITION_ANY, PAUSE, CHANGE_ADDRESS),
    *(SLAVES_AWAY_KILL, SLAVES_AWAY_POWER),
    *(KILL, STOP, RESTART, REPLACE, CHANGE, POWER, CLOCK, DISK, DELAY, LOSS, STORE),
    *(REMOVED_EPOCHS, RESETS, PERMISSION, RETENTION, ORDERS, REMOVAL, FAILURE, FILL),
)
_kinds: dict[str, Kind] = {kind.name: kind for kind in BUILT_IN}


def register(kind: Kind) -> None:
    """Add a kind of fault.

    Raises:
        ValueError: its name is taken, one of its acts is another kind's, nothing has the name of
            its stand-in, or its facts cannot be declared.
    """
    if kind.name in (*_kinds, NO_FAULT) or THEN in kind.name or current(kind.name) != kind.name:
        raise ValueError(f"fault {kind.name!r}: the name is taken")
    known = acts()
    for act in kind.acts:
        if known.get(act.f, act) is not act or current(act.f) != act.f:
            raise ValueError(f"fault {kind.name!r}: act {act.f!r} is another kind's")
    if kind.stand_in and kind.stand_in not in _kinds:
        raise ValueError(f"fault {kind.name!r}: no fault {kind.stand_in!r} can take its place")
    for facts in kind.facts:
        if wrong := complaint_of(facts):
            raise ValueError(f"facts of fault {facts.strikes!r}: {wrong}")
    _kinds[kind.name] = kind


def forget(name: str) -> None:
    """Take a registered kind away again.

    Raises:
        ValueError: there is none, or it is built in.
    """
    if name not in _kinds or _kinds[name] in BUILT_IN:
        raise ValueError(f"no fault {name!r} was registered")
    del _kinds[name]


def references() -> list[tuple[str, str]]:
    """Where each registered kind is, as a module and a name in it, so that another process finds
    it. One that no module holds is left out."""
    return [
        (name, attribute)
        for kind in registered()
        for name, module in sorted(sys.modules.items())
        for attribute, value in list(vars(module).items())
        if value is kind and name != "__main__"
    ]


def adopt(where: Iterable[tuple[str, str]]) -> None:
    """Register kinds by reference; those that are known already stay as they are."""
    for module, attribute in where:
        kind = getattr(importlib.import_module(module), attribute)
        if kind not in registered():
            register(kind)


def registered() -> tuple[Kind, ...]:
    """The kinds that are not built in, as they came."""
    return tuple(kind for kind in _kinds.values() if kind not in BUILT_IN)


def acts() -> dict[str, ActKind]:
    """Every act, by name."""
    return {act.f: act for kind in _kinds.values() for act in kind.acts}


def fault_names() -> tuple[str, ...]:
    """What a run may ask for."""
    return (*sorted(name for name, kind in _kinds.items() if kind.rounds is not None), NO_FAULT)


def unasked() -> frozenset[str]:
    """The kinds that are not meant where a run asks for all."""
    return frozenset(name for name, kind in _kinds.items() if kind.asked_only)


def kinds_of(name: str) -> tuple[Kind, ...]:
    """The kind of a name, or both of a pair.

    Raises:
        ValueError: there is none.
    """
    found = []
    for each in name.split(THEN):
        kind = _kinds.get(each)
        if kind is None or kind.rounds is None:
            raise ValueError(f"no fault {each!r}{nearest(each, fault_names())}")
        found.append(kind)
    return tuple(found)


def needs_of(names: Iterable[str]) -> frozenset[Capability]:
    """What an environment must be able to do for these faults."""
    asked = [kind for name in names if name != NO_FAULT for kind in kinds_of(name)]
    return frozenset[Capability]().union(*(kind.needs for kind in asked))


def facts_of(acts: Iterable[Act], *, by_wall_clock: bool = False) -> tuple[FaultFacts, ...]:
    """What a run with these acts must declare: the facts of those that are not built in, and of
    wrong clocks, where nodes go by the wall clock, that they feel them."""
    names = {act.f for act in acts}
    felt = [some(BUILT_IN_KINDS.of(BUMP_CLOCK), "it is built in")] if by_wall_clock else []
    rows = [*(facts for kind in registered() for facts in kind.facts),
            *(msgspec.structs.replace(facts, felt=True) for facts in felt)]  # fmt: skip
    return tuple(facts for facts in rows if names & {facts.strikes, *facts.heals})


def complaint(act: Act, nodes: Collection[str]) -> str:
    """What of an act can never be done; empty if there is nothing.

    Args:
        act: what shall be done.
        nodes: the names of all nodes.
    """
    known: dict[str, ActKind] = acts()
    if act.f not in known:
        return f"no act {act.f!r}; there are: {', '.join(sorted(known))}"
    if act.who.part and act.who.part not in PARTS:
        return f"no part {act.who.part!r}; there are: {', '.join(sorted(PARTS))}"
    names: Sequence[str] = list(nodes)
    return known[act.f].complaint(act.args, names)
