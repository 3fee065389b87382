"""What observers saw, taken out of a history: who answered what, and between which two events.

An answer is true at one instant between its invocation and its completion, and which is unknown.
So one sighting is *before* another only if it had ended when the other began, by index: times order
nothing here. Leases and bounds are in ns of the harness's clock; -1 is an unknown time.

A number of a controller counts together with the era in which it was given
(`maxq.checkers.evidence.eras`): `epoch` and `set_epoch` of a sighting are compared, the bare
numbers of its view only within an era.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct, ValidationError, convert

from maxq.checkers.evidence.eras import Eras, eras_of
from maxq.histories.history import History
from maxq.histories.observed import (
    OBSERVE_CONTROLLER,
    OBSERVE_REPLICA,
    ControllerView,
    ReplicaView,
    SetView,
    T,
    decoded,
)
from maxq.histories.op import HistoryError, Op

ShapeT = TypeVar("ShapeT", bound=Struct)
NEVER = 1 << 62  # an index, or a time, that never comes


class Sighting(NamedTuple, Generic[T]):
    """One answer: true at an instant between `begun` and `at`, indices of a history."""

    begun: int  # -1 where the invocation is missing: nothing is before it
    at: int
    begun_ns: int
    at_ns: int
    view: T


Number = tuple[int, int]  # an era, and what was counted in it


class SetSighting(NamedTuple):
    """What a controller said of one broker set, and in which era."""

    begun: int
    at: int
    begun_ns: int
    at_ns: int
    node: str
    view: SetView
    era: int = 0

    @property
    def epoch(self) -> Number:
        """The master epoch, as it compares with that of any other sighting of the set."""
        return self.era, self.view.master_epoch

    @property
    def set_epoch(self) -> Number:
        """The SyncStateSet epoch, likewise."""
        return self.era, self.view.sync_state_set_epoch


def sightings(history: History, f: str, kind: type[T]) -> list[Sighting[T]]:
    """Every ok answer to one question, in order of completion.

    Raises:
        HistoryError: a value has another shape (W9).
    """
    return list(history.once((f, kind), lambda: _sightings(history, f, kind)))


def _sightings(history: History, f: str, kind: type[T]) -> list[Sighting[T]]:
    done = (op for op in history.of_f(f) if op.type == "ok" and op.is_client)
    return [sighting(op, history.invocation(op), kind) for op in done]


def sighting(done: Op, invocation: Op | None, kind: type[T]) -> Sighting[T]:
    """What one ok answer says.

    Raises:
        HistoryError: the value has another shape (W9).
    """
    begun, begun_ns = begin(done, invocation)
    return Sighting(begun, done.index, begun_ns, done.time, decoded(done, kind))


def replica_sightings(history: History) -> list[Sighting[ReplicaView]]:
    """What brokers said of themselves."""
    return sightings(history, OBSERVE_REPLICA, ReplicaView)


def set_sightings(history: History) -> dict[str, list[SetSighting]]:
    """What controllers said, by broker set."""
    found = history.once(SetSighting, lambda: _set_sightings(history))
    return {name: list(seen) for name, seen in found.items()}


def _set_sightings(history: History) -> dict[str, list[SetSighting]]:
    sets: dict[str, list[SetSighting]] = {}
    eras = eras_of(history)
    for s in sightings(history, OBSERVE_CONTROLLER, ControllerView):
        for name, seen in of_sets(s, eras):
            sets.setdefault(name, []).append(seen)
    return dict(sorted(sets.items()))


def of_sets(s: Sighting[ControllerView], eras: Eras) -> Iterator[tuple[str, SetSighting]]:
    """A controller's answer taken apart, by broker set."""
    era = eras.of(s.begun)
    for name, view in s.view.sets.items():
        yield name, SetSighting(s.begun, s.at, s.begun_ns, s.at_ns, s.view.node, view, era)


def begin(done: Op, invocation: Op | None) -> tuple[int, int]:
    """Index and time (ns) of a completion's invocation; -1 where there is none."""
    if invocation is None or invocation.index >= done.index:
        return -1, -1
    return invocation.index, invocation.time


def registered(view: SetView, at: int) -> dict[int, str]:
    """The ids of a set and their addresses, as a controller holds them.

    Raises:
        HistoryError: a key is no id.
    """
    try:
        return {int(key): address for key, address in view.replicas.items()}
    except ValueError as error:
        raise HistoryError(f"value of {at} has a key that is no broker id: {error}") from None


def shaped(value: Any, kind: type[ShapeT], at: int) -> ShapeT:
    """A value of a small documented shape.

    Raises:
        HistoryError: it has another.
    """
    try:
        return convert(value, kind)
    except ValidationError as error:
        raise HistoryError(f"value of {at} has another shape: {error}") from None


def listed(words: Iterable[object]) -> str:
    """Words as people list them."""
    texts = [str(w) for w in words]
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)
