"""Replicas by arrays: whether the stores of a set show nothing that is wrong.

Of a log all but its records is a short text, and what is said by that is judged as ever. Records
are arrays of numbers, and those that are equal are one array. Each acknowledged message is looked
for among the sorted records of each member. Where one is missing, or it is not cheap to decide, the
set is left to its rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from maxq.checkers.core.columnar import Arrays, Dealing, keys_of
from maxq.checkers.core.elements import node_of
from maxq.checkers.core.keyed import Event
from maxq.checkers.evidence.observations import sighting
from maxq.checkers.evidence.stores.settling import Message, Unanswered
from maxq.checkers.replication.replica_logs import Piece, Store
from maxq.histories.columns.beside import beside
from maxq.histories.columns.log_texts import Bodies, stored_log
from maxq.histories.columns.messages import NO_OFFSET, messages_of
from maxq.histories.columns.rows import INFO, OK, Rows
from maxq.histories.columns.scan import Ints, Mask, distinct
from maxq.histories.observed import REPLICA_LOG, ReplicaLog
from maxq.histories.op import HistoryError

_OFFSET_BITS, _KEY_BITS = 40, 22  # of a place, which is one number then
_NOWHERE = -1


class StoredPiece(NamedTuple):
    """One epoch of one replica; its view has no records, which are beside it."""

    piece: Piece
    records: Ints  # key, queue offset, value


def elements(
    rows: Rows,
    chosen: Ints,
    sets: frozenset[str],
    of_key: Mapping[int, frozenset[str]],
    said: Callable[[Event], Iterable[tuple[str, Any]]],
) -> Dealing:
    """What acknowledged sends and stores of a batch say of each set.

    Args:
        rows: a batch.
        chosen: sends and `replica-log`, by row.
        sets: whose stores were read.
        of_key: in the stores of which sets messages of a key are.
        said: what an event says of which sets, if only the decoder can read it.

    Raises:
        HistoryError: a value has another shape.
    """
    names = tuple(sorted(sets))
    if not names:
        return _dealing(rows, _no_sends(), {}, chosen[:0], names)
    ok = chosen[rows.type[chosen] == OK]
    stored = rows.is_of(ok, REPLICA_LOG)
    pieces, foreign = _pieces(rows, ok[stored])
    sends, odd = _sends(rows, ok[~stored], names, of_key)
    foreign = np.union1d(foreign, odd)
    open_ = chosen[(rows.type[chosen] == INFO) | rows.open[chosen]]
    silent, odd = _silent(rows, open_[rows.is_of(open_, "send")], names, of_key)
    foreign = np.union1d(foreign, odd)
    unsure = set[str]()
    for at, op, begun in rows.events(foreign):
        unsure |= keys_of(said(Event(op, begun, bool(rows.open[at]))))
    dealing = _dealing(rows, _joined(sends, silent), pieces, foreign, names)
    return dealing._replace(unsure=frozenset(unsure))


class _Sends(NamedTuple):
    """Acknowledged messages, and in which set each must be, by its number."""

    row: Ints
    key: Ints
    offset: Ints
    value: Ints
    home: Ints


def _no_sends() -> _Sends:
    return _Sends(*([np.zeros(0, np.int64)] * 5))


def _dealing(
    rows: Rows,
    sends: _Sends,
    pieces: Mapping[int, StoredPiece],
    foreign: Ints,
    names: tuple[str, ...],
) -> Dealing:
    count = len(sends.row)
    piece = np.full(count + len(pieces), None, object)
    for at, each in enumerate(pieces.values(), count):
        piece[at] = each
    none = np.zeros(len(pieces), np.int64)
    home = np.array([names.index(p.piece.view.set) for p in pieces.values()], np.int64)
    row = np.concatenate([sends.row, np.array([*pieces], np.int64)])
    order = np.argsort(row, kind="stable")
    silent = rows.type[row[order]] != OK
    arrays = {
        "at": rows.index[row[order]],
        "silent": silent,
        "over": silent & ~rows.open[row[order]],
        "key": np.concatenate([sends.key, none])[order],
        "offset": np.concatenate([sends.offset, none])[order],
        "value": np.concatenate([sends.value, none])[order],
        "stored": (np.arange(len(row)) >= count)[order],
        "piece": piece[order],
    }
    return Dealing(np.concatenate([sends.home, home])[order], row[order], arrays, foreign,
                   names=names)  # fmt: skip


def _pieces(rows: Rows, stored: Ints) -> tuple[dict[int, StoredPiece], Ints]:
    """What some rows hold, and the rows that only the decoder can read."""
    bodies, found, odd = Bodies(), dict[int, StoredPiece](), list[int]()
    for at, bare, begun in rows.events(stored, bare=True):
        log = stored_log(rows.value(at))
        records = None if log is None else bodies.records(log.body)
        if log is None or records is None:
            odd.append(at)
            continue
        try:
            view = sighting(msgspec.structs.replace(bare, value=log.head), begun, ReplicaLog)
            found[at] = StoredPiece(view, records)
        except HistoryError:
            odd.append(at)  # what is wrong is said in order of rows
    return found, np.array(odd, np.int64)


def _sends(
    rows: Rows, sent: Ints, names: tuple[str, ...], of_key: Mapping[int, frozenset[str]]
) -> tuple[_Sends, Ints]:
    """The messages of some sends with a known place in a known set, and the rows that only the
    decoder can read."""
    m = messages_of(rows, sent)
    placed = m.offset != NO_OFFSET
    row, key = m.row[placed], m.key[placed]
    number = {name: at for at, name in enumerate(names)}
    answered = beside(rows, row)
    nodes = [node_of(ext) for ext in answered.said]
    by_node = [_NOWHERE if node is None else number.get(node, _NOWHERE) for node in nodes]
    home = np.array(by_node, np.int64)[answered.code]
    lacks = np.flatnonzero(home == _NOWHERE)
    for each in distinct(key[lacks]).tolist():
        there = of_key.get(each, frozenset())
        if len(there) == 1:
            home[lacks[key[lacks] == each]] = number[next(iter(there))]
    kept = home != _NOWHERE
    columns = (row, key, m.offset[placed], m.value[placed], home)
    return _Sends(*(column[kept] for column in columns)), m.foreign


def _silent(
    rows: Rows, sent: Ints, names: tuple[str, ...], of_key: Mapping[int, frozenset[str]]
) -> tuple[_Sends, Ints]:
    """The messages of sends without an answer, of keys that one set has."""
    m = messages_of(rows, sent)
    home = np.full(len(m.key), _NOWHERE, np.int64)
    for each in distinct(m.key).tolist():
        there = of_key.get(each, frozenset())
        if len(there) == 1:
            home[m.key == each] = names.index(next(iter(there)))
    kept = home != _NOWHERE
    columns = (m.row, m.key, m.offset, m.value, home)
    return _Sends(*(column[kept] for column in columns)), m.foreign


def _joined(one: _Sends, two: _Sends) -> _Sends:
    return _Sends(*(np.concatenate(both) for both in zip(one, two, strict=True)))


# The proof.


def unanswered_of(a: Arrays) -> list[Unanswered]:
    """The sends without an answer."""
    names = ("key", "value", "at", "over")
    columns = (a[name][a["silent"]].tolist() for name in names)
    return [Unanswered(*each) for each in zip(*columns, strict=True)]


def sent_at(a: Arrays) -> list[int]:
    """The index of the last acknowledged send, if there is one."""
    at = a["at"][~a["stored"] & ~a["silent"]]
    return [int(at.max())] if len(at) else []


def held(unsure: Sequence[Unanswered], records: Mapping[int, Ints], store: Store) -> set[Message]:
    """Which of those messages a store has."""
    parts = [records[piece.at] for piece in store.pieces]
    if not parts or not unsure:
        return set()
    stored = np.concatenate(parts)
    values = np.array([u.value for u in unsure], np.int64)
    there = stored[np.isin(stored[:, 2], values)]  # once: it sorts the values each time
    return {(key, value) for key, _, value in there.tolist()}


def pieces_of(a: Arrays) -> list[StoredPiece]:
    """The stores' epochs among the elements of a set."""
    return [*a["piece"][a["stored"]]]


def may_part(records: Mapping[int, Ints]) -> Callable[[Piece, Piece], str | None]:
    """Whether the records of two pieces, each by its index, are not surely those of one log; for
    `maxq.checkers.replication.replica_logs.partings`."""

    def part(longer: Piece, shorter: Piece) -> str | None:
        held, mine = records[longer.at], records[shorter.at]
        if longer.view.start != shorter.view.start:
            held, mine = _from_later(held, mine)
        return None if _begins(held, mine) else "records are not surely equal"

    return part


def _begins(held: Ints, mine: Ints) -> bool:
    """Whether a log holds the records of a shorter one, and before their last ones no other."""
    if len(held) == len(mine) and np.array_equal(held, mine):
        return True
    theirs, ours = _placed(held), _placed(mine)
    if theirs is None or ours is None:
        return False
    found = _found(theirs, ours.place)
    if (found < 0).any() or (theirs.value[found] != ours.value).any():
        return False
    for key in distinct(mine[:, 0]).tolist():
        last = int(mine[mine[:, 0] == key, 1].max())
        before = (held[:, 0] == key) & (held[:, 1] < last)
        if int(before.sum()) != int((mine[:, 0] == key).sum()) - 1:
            return False
    return True


def _from_later(a: Ints, b: Ints) -> tuple[Ints, Ints]:
    """Of each key what both logs can have, by the first message that each has."""
    kept = [np.zeros(len(a), np.bool_), np.zeros(len(b), np.bool_)]
    for key in np.intersect1d(a[:, 0], b[:, 0]).tolist():
        mine, theirs = a[:, 0] == key, b[:, 0] == key
        low = max(int(a[mine, 1].min()), int(b[theirs, 1].min()))
        kept[0] |= mine & (a[:, 1] >= low)
        kept[1] |= theirs & (b[:, 1] >= low)
    return a[kept[0]], b[kept[1]]


class _Places(NamedTuple):
    """Records in order of places, each of which is there once."""

    place: Ints
    value: Ints


def _placed(records: Ints) -> _Places | None:
    """Records in order; None where a place has two, or is not one number."""
    place = _place(records[:, 0], records[:, 1])
    if place is None:
        return None
    order = np.argsort(place, kind="stable")
    place = place[order]
    return None if (place[1:] == place[:-1]).any() else _Places(place, records[order, 2])


def _place(key: Ints, offset: Ints) -> Ints | None:
    if len(key) and (int(key.max()) >> _KEY_BITS or int(offset.max()) >> _OFFSET_BITS):
        return None
    return (key << _OFFSET_BITS) | offset


def _found(places: _Places, wanted: Ints) -> Ints:
    """Where each place stands; -1: it is not there."""
    if not len(places.place):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(places.place, wanted), len(places.place) - 1)
    return np.where(places.place[at] == wanted, at, -1)


def looked_up(
    a: Arrays,
    whole: Sequence[tuple[Store, Mapping[int, int]]],
    records: Mapping[int, Ints],
) -> int | None:
    """How many acknowledged messages were looked for; None where one may be missing.

    Args:
        a: the elements of the set, which are given away.
        whole: each member's store, and the first offset of each key that it must hold.
        records: of each piece, by its index.
    """
    asked = ~a["stored"] & ~a["silent"]
    at, key, offset, value = (a.pop(name)[asked] for name in ("at", "key", "offset", "value"))
    place = _place(key, offset)
    if place is None:
        return None
    looked = np.zeros(len(at), np.bool_)
    there: dict[tuple[int, ...], Mask] = {}  # by which arrays a store is made of
    for store, first in whole:
        parts = [records[piece.at] for piece in store.pieces]
        same = tuple(map(id, parts))
        if same not in there:
            held = _placed(np.concatenate(parts))
            if held is None:
                return None
            found = _found(held, place)
            there[same] = (
                (found >= 0) & (held.value[found] == value) if len(held.value) else found >= 0
            )
        mine = at < store.read_at
        for each, young in first.items():
            mine &= (key != each) | (offset >= young)
        if (mine & ~there[same]).any():
            return None
        looked |= mine
    return int(looked.sum())
