"""How observers' answers name a broker: by its id, or by its address.

Controllers know a broker by an id that it keeps; up to 5.1.0 by the address where it is, so that
one that moves is another. What is judged of masters and members is the same: here addresses are
given numbers that stand for ids, and every finding about such a broker names its address.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from maxq.checkers.core.api import Context
from maxq.checkers.evidence.eras import eras_of
from maxq.checkers.evidence.observations import (
    SetSighting,
    Sighting,
    listed,
    registered,
    replica_sightings,
    set_sightings,
    sightings,
)
from maxq.histories.history import History
from maxq.histories.observed import (
    OBSERVE_CONTROLLER,
    AddressedSet,
    ControllerView,
    ReplicaView,
    SetView,
)

Answers = dict[str, list[SetSighting]]  # by broker set
Replicas = Sequence[Sighting[ReplicaView]]


class KnownBy:
    """What controllers said of sets and brokers of themselves, by one kind of ids.

    Args:
        history: what was recorded.
        context: whether its brokers have ids.

    Raises:
        HistoryError: a value has another shape (W9).
    """

    def __init__(self, history: History, context: Context) -> None:
        self._addresses: dict[tuple[str, int], str] = {}
        self.answers: Answers
        self.replicas: Replicas = replica_sightings(history)
        if context.has_ids:
            self.answers = set_sightings(history)
            return
        numbers: dict[tuple[str, str], int] = {}
        self.answers = _numbered(history, numbers)
        self._addresses = {(name, n): address for (name, address), n in numbers.items()}
        self.replicas = [
            s._replace(
                view=msgspec.structs.replace(s.view, id=numbers.get((s.view.set, s.view.address)))
            )
            for s in self.replicas
        ]

    def one(self, name: str, broker_id: int | None) -> int | str | None:
        """A broker of a set: its id, or its address."""
        return None if broker_id is None else self._addresses.get((name, broker_id), broker_id)

    def each(self, name: str, ids: Iterable[int]) -> list[int | str | None]:
        """Members of a set, likewise."""
        return [self.one(name, i) for i in ids]

    def called(self, name: str, broker_id: int | None) -> str:
        """A broker of a set, in words."""
        who = self.one(name, broker_id)
        return who if isinstance(who, str) else f"broker {who}"

    def listed(self, name: str, ids: Iterable[int]) -> str:
        """Members of a set, in words."""
        return listed(self.each(name, ids)) or "none"


def _numbered(history: History, numbers: dict[tuple[str, str], int]) -> Answers:
    """What controllers said, in order; every address that is met gets a number."""
    answers: Answers = {}
    eras = eras_of(history)
    for s in sightings(history, OBSERVE_CONTROLLER, ControllerView):
        for name, reported in _by_address(s):
            view = _view(name, reported, numbers)
            era = eras.of(s.begun)
            seen = SetSighting(s.begun, s.at, s.begun_ns, s.at_ns, s.view.node, view, era)
            answers.setdefault(name, []).append(seen)
    return dict(sorted(answers.items()))


def _by_address(s: Sighting[ControllerView]) -> Iterator[tuple[str, AddressedSet]]:
    """A controller's answer by addresses alone, whatever ids it has for them: 5.0.0 and 5.1.0 call
    a master 0 in some answers."""
    yield from s.view.by_address.items()
    for name, view in s.view.sets.items():
        known = registered(view, s.at)
        members = {known[i] for i in view.sync_state_set if known.get(i)}
        if not members:  # of 5.1.0 observers of older versions noted no addresses
            continue
        yield (
            name,
            AddressedSet(
                master_address=view.master_address,
                master_epoch=view.master_epoch,
                sync_state_set=tuple(sorted(members)),
                sync_state_set_epoch=view.sync_state_set_epoch,
            ),
        )


def _view(name: str, reported: AddressedSet, numbers: dict[tuple[str, str], int]) -> SetView:
    def number(address: str) -> int:
        return numbers.setdefault((name, address), len(numbers) + 1)

    members = {number(address): address for address in reported.sync_state_set}
    return SetView(
        master=number(reported.master_address) if reported.master_address else None,
        master_address=reported.master_address,
        master_epoch=reported.master_epoch,
        sync_state_set=tuple(sorted(members)),
        sync_state_set_epoch=reported.sync_state_set_epoch,
        replicas={str(i): address for i, address in sorted(members.items())},
    )
