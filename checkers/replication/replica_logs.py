"""The stores of one broker set: where two replicas' logs part, and what one of them lacks.

Pure functions of one set's `ReplicaLog` values. Two replicas with an epoch of equal (number, start)
took its bytes from one master, so one log is the beginning of the other. Of bytes without a label
(epoch 0) that is known only if the next epochs are the same as well. Digests stand for 64 KiB
from the start of the epoch; the last one covers what is left, so it compares only if both end at
one place. What is left of the shorter one else is compared by its records: each is in the longer
one, and the longer one has no other before them (queue offsets of a key rise along the log). Where
first files are deleted logs are compared from the byte at which both have begun.

Offsets are bytes of the commit log, ends exclusive; queue offsets are said to be so.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from msgspec import UnsetType

from maxq.checkers.evidence.observations import Sighting
from maxq.histories.observed import DIGEST_BYTES, ReplicaLog
from maxq.histories.op import HistoryError

Piece = Sighting[ReplicaLog]  # one epoch of one replica, and who read it when
Records = dict[tuple[int, int], Any]  # key, queue offset -> value


class Parting(NamedTuple):
    """Two logs of one epoch differ in the block that begins at `offset`, or in a record."""

    a: Piece
    b: Piece
    offset: int
    said: str

    @property
    def at_start(self) -> bool:
        """Whether the logs differ from the begin of the epoch on: no equal message is before."""
        mine, theirs = self.a.view.records, self.b.view.records
        return self.offset == self.b.view.start and (mine[:1] != theirs[:1] or not mine)


class Store(NamedTuple):
    """All epochs of one replica, in order."""

    node: str
    id: int | None
    pieces: tuple[Piece, ...]

    @property
    def start(self) -> int:
        return self.pieces[0].view.start

    @property
    def end(self) -> int:
        return self.pieces[-1].view.end

    @property
    def read_at(self) -> int:
        """Before which index the reading had not begun."""
        return min(p.begun for p in self.pieces)

    @property
    def complete(self) -> bool:
        """Whether no epoch is missing: a reading may fail for one of them."""
        views = [p.view for p in self.pieces]
        joined = all(a.end == b.start for a, b in pairwise(views))
        return joined and views[-1].last and not any(v.last for v in views[:-1])

    def records(self) -> Records:
        """Every message of the run's topics."""
        return {(key, at): held for p in self.pieces for key, at, held in p.view.records}


def stores_of(pieces: Iterable[Piece]) -> list[Store]:
    """Sort pieces by replica; of an epoch read twice the later reading counts.

    Raises:
        HistoryError: a piece has a number of digests that its length does not allow.
    """
    latest: dict[str, dict[int, Piece]] = defaultdict(dict)
    for p in sorted(pieces, key=lambda p: p.at):
        v = p.view
        if v.end < v.start or len(v.digests) != -(-(v.end - v.start) // DIGEST_BYTES):
            raise HistoryError(f"value of {p.at} has {len(v.digests)} digests of {v.start}-{v.end}")
        latest[v.node][v.epoch] = p
    stores = []
    for node, epochs in sorted(latest.items()):
        ordered = tuple(epochs[e] for e in sorted(epochs))
        stores.append(Store(node, ordered[-1].view.id, ordered))
    return stores


def begun(log: ReplicaLog) -> int:
    """Where an epoch began, also in a log that begins later."""
    return log.start if isinstance(log.begun, UnsetType) else log.begun


def label_of(store: Store, piece: Piece) -> tuple[int, ...] | None:
    """What pieces of equal logs have in common; None: nothing is known of it."""
    label = (piece.view.epoch, begun(piece.view))
    if piece.view.epoch:
        return label
    following = next((p for p in store.pieces if p.view.epoch), None)
    return None if following is None else (*label, following.view.epoch, following.view.start)


def partings(
    stores: Sequence[Store], part: Callable[[Piece, Piece], str | None] | None = None
) -> tuple[list[Parting], int]:
    """Where logs of one epoch differ; and how many bytes were compared.

    Each is compared with the longest. Those that end at one place also with one another: only they
    have comparable last digests.

    Args:
        stores: of one set.
        part: says in which record a log and one that is not longer differ; None: by what the pieces
            hold.
    """
    part = part or _records_part
    epochs: dict[tuple[int, ...], list[Piece]] = defaultdict(list)
    for store in stores:
        for p in store.pieces:
            label = label_of(store, p)
            if label is not None:
                epochs[label].append(p)
    found: list[Parting] = []
    compared = 0
    for _, pieces in sorted(epochs.items()):
        ranked = sorted(pieces, key=lambda p: (-p.view.end, p.view.node))
        first_at: dict[int, Piece] = {}
        for p in ranked:
            others = [ranked[0], first_at.setdefault(p.view.end, p)]
            if p is ranked[0]:
                continue
            compared += max(p.view.end - max(p.view.start, ranked[0].view.start), 0)
            parting = _parting(others[0], p, part)
            if parting is None and others[1] not in (p, others[0]):
                parting = _parting(others[1], p, part)
            found += [] if parting is None else [parting]
    return found, compared


def _parting(a: Piece, b: Piece, part: Callable[[Piece, Piece], str | None]) -> Parting | None:
    """The first difference between a log and one that is not longer."""
    base = max(a.view.start, b.view.start)
    if b.view.end <= base:
        return None
    mine, theirs = _blocks(a.view, base), _blocks(b.view, base)
    same_end = a.view.end == b.view.end
    whole = (b.view.end - base) // DIGEST_BYTES
    for i, (x, y) in enumerate(zip(mine, theirs if same_end else theirs[:whole], strict=False)):
        if x != y:
            offset = base + i * DIGEST_BYTES
            return Parting(a, b, offset, f"the block at byte {offset} differs")
    said = None if same_end and mine and theirs else part(a, b)
    return None if said is None else Parting(a, b, base + whole * DIGEST_BYTES, said)


def _blocks(log: ReplicaLog, base: int) -> tuple[str, ...]:
    """The digests of a log from a byte on; none where no block begins there."""
    before, rest = divmod(base - log.start, DIGEST_BYTES)
    return () if rest else log.digests[before:]


def _records_part(longer: Piece, shorter: Piece) -> str | None:
    held, mine = _records(longer.view), _records(shorter.view)
    if longer.view.start != shorter.view.start:
        held, mine = _from_later(held, mine)
    last: dict[int, int] = {}
    for (key, at), value in mine.items():
        last[key] = max(at, last.get(key, at))
        where = f"queue {key} at offset {at}"
        if (key, at) not in held:
            return f"{where}: value {value} is only in the shorter log"
        if held[key, at] != value:
            return f"{where}: values {held[key, at]} and {value}"
    for (key, at), value in held.items():
        if at < last.get(key, -1) and (key, at) not in mine:
            return f"queue {key} at offset {at}: value {value} is not in the shorter log"
    return None


def _records(log: ReplicaLog) -> Records:
    return {(key, at): value for key, at, value in log.records}


def _from_later(a: Records, b: Records) -> tuple[Records, Records]:
    """Of each key what both logs can have, by the first message that each has."""
    firsts: list[dict[int, int]] = [{}, {}]
    for first, records in zip(firsts, (a, b), strict=True):
        for key, at in records:
            first[key] = min(at, first.get(key, at))
    low = {k: max(firsts[0][k], firsts[1][k]) for k in firsts[0].keys() & firsts[1].keys()}
    kept = [{place: value for place, value in records.items()
             if place[0] in low and place[1] >= low[place[0]]} for records in (a, b)]  # fmt: skip
    return kept[0], kept[1]


Span = tuple[int, int, int]  # epoch, start, end


def spans(store: Store, low: int, high: int) -> list[Span]:
    """The epochs of a replica that have bytes in ``[low, high)``, cut to it."""
    cut = ((p.view.epoch, max(p.view.start, low), min(p.view.end, high)) for p in store.pieces)
    return [(epoch, start, end) for epoch, start, end in cut if start < end]


def first_other_span(a: Store, b: Store) -> tuple[Span | None, Span | None] | None:
    """The first epochs in which two replicas differ over the bytes that both hold."""
    low, high = max(a.start, b.start), min(a.end, b.end)
    mine, theirs = spans(a, low, high), spans(b, low, high)
    for x, y in _paired(mine, theirs):
        if x != y:
            return x, y
    return None


def _paired(a: list[Span], b: list[Span]) -> Iterator[tuple[Span | None, Span | None]]:
    for i in range(max(len(a), len(b))):
        yield a[i] if i < len(a) else None, b[i] if i < len(b) else None
