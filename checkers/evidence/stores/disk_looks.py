"""What observers saw of brokers' files, and which messages were gone with the first of them.

A look says where a log begins. What lies before may have been deleted from the look before that
one on, if the broker may have come beyond its share of the disk meanwhile, or emptied its log.
Else nobody had a right to it (`maxq.checkers.messages.shares`).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from maxq.checkers.core.elements import elements_of, node_of
from maxq.checkers.evidence.observations import NEVER, Sighting, replica_sightings, sightings
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_DISK, DiskView, ReplicaView

Look = Sighting[DiskView]
# RocketMQ deletes ten files at a time, each 100 ms after the one before, and looks again a second
# later at the soonest.
DELETING_NS = 2_000_000_000


class Begin(NamedTuple):
    """From an index on the log of a broker may begin at a byte."""

    begun: int
    node: str
    set: str
    byte: int


def looks_of(history: History) -> dict[str, list[Look]]:
    """The looks at each broker, none of which overlaps with the one before.

    Raises:
        HistoryError: a value has another shape.
    """
    found = defaultdict[str, list[Look]](list)
    for look in sightings(history, OBSERVE_DISK, DiskView):
        of = found[look.view.node]
        if not of or of[-1].at < look.begun:
            of.append(look)
    return dict(sorted(found.items()))


def most(view: DiskView) -> int:
    """What a broker may have of its share at rest."""
    return int(view.share.threshold * view.share.part * view.partition)


def within(looks: Sequence[Look], number: int) -> bool:
    """Whether a broker had no more than that at any time between a look, by its number, and the one
    before, nor shortly before that: what is decided to go then goes file by file."""
    last = looks[number]
    since_ns = looks[number - 1].begun_ns - DELETING_NS
    earlier = (a.view for a in looks[:number] if a.begun_ns >= since_ns)
    return all(a.used + max(0, last.view.made - a.made) <= most(last.view) for a in earlier)


def may_be_new(said: Sequence[Sighting[ReplicaView]], a: Look, b: Look) -> bool:
    """Whether a broker may have emptied its log between two looks, to begin where its master's
    begins by now: who leads does not. `said` is what brokers said of themselves."""
    own = [s for s in said if s.view.node == b.view.node]
    before = next((s.view.leads for s in reversed(own) if s.at < a.begun), False)
    after = next((s.view.leads for s in own if s.begun > b.at), False)
    return b.view.start >= a.view.end and not (before and after)


def begins_of(history: History) -> Iterator[Begin]:
    """Where each broker's log began at first, and each time that it rightly began further on."""
    said = replica_sightings(history)
    for node, looks in looks_of(history).items():
        first = looks[0].view
        yield Begin(-1, node, first.set, first.start if first.made > most(first) else 0)
        for number, (a, b) in enumerate(pairwise(looks), start=1):
            moved = b.view.start > a.view.start
            if moved and (not within(looks, number) or may_be_new(said, a, b)):
                yield Begin(a.begun, node, first.set, b.view.start)


class Kept(NamedTuple):
    """The acknowledged messages of a key, in order of their bytes: these, and of each the smallest
    queue offset from it on."""

    data: Sequence[int]
    least: Sequence[int]

    def first(self, byte: int) -> int:
        """The first offset that must be there in a log that begins at a byte; `NEVER` if none."""
        at = bisect_left(self.data, byte)
        return self.least[at] if at < len(self.least) else NEVER


def kept_by_set(history: History) -> Mapping[str, Mapping[int, Kept]]:
    """The keys of each broker set of which a message was acknowledged, with its place in the log.

    Raises:
        HistoryError: a value has another shape.
    """
    found = defaultdict[str, dict[int, list[tuple[int, int]]]](dict)
    for op in history.of_f("send"):
        byte = (op.ext or {}).get("byte")
        if op.type != "ok" or not isinstance(byte, int):
            continue
        for sent in elements_of(op, None):
            if sent.offset is not None:
                of = found[str(node_of(op.ext or {}))].setdefault(sent.key, [])
                of.append((byte, sent.offset))
    return {name: {key: _kept(of) for key, of in keys.items()} for name, keys in found.items()}


def _kept(sent: list[tuple[int, int]]) -> Kept:
    sent.sort()
    least = [*accumulate((offset for _, offset in reversed(sent)), min)][::-1]
    return Kept([byte for byte, _ in sent], least)
