"""Durability by arrays: what sends, polls, transactions and assignments say of the keys.

Here is what a batch says of each key; `maxq.checkers.messages.arrays.log_clean` judges it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maxq.checkers.core.columnar import Arrays, Dealing, keys_of
from maxq.checkers.core.groups import chosen
from maxq.checkers.core.keyed import Event
from maxq.checkers.evidence.log import LogFacts, ends_said, steps_said
from maxq.checkers.messages.arrays.log_runs import ASSIGNED, ENDED, POLLED, SENT
from maxq.histories.columns.messages import NO_OFFSET, messages_of
from maxq.histories.columns.rows import INFO, INVOKE, OK, Rows
from maxq.histories.columns.scan import BEGIN, END, Grammar, Ints, Mask, scan
from maxq.histories.observed import ASSIGNMENTS, SEEK
from maxq.histories.text import decode_value

_KEY = 1
_LISTS = Grammar({"[": {BEGIN: _KEY}, ",": {_KEY: _KEY}, "]": {_KEY: END}, "[]": {BEGIN: END}})


class _Said(NamedTuple):
    """A part of what a batch says, an element a row; and rows that only the decoder can read."""

    elements: Arrays
    foreign: Ints


def _said(
    kind: int | Ints,
    row: Ints,
    key: Ints,
    value: Ints,
    foreign: Ints,
    offset: int | Ints = NO_OFFSET,
) -> _Said:
    columns = {"row": row, "key": key, "value": value, "offset": offset, "kind": kind}
    whole = (np.broadcast_to(np.asarray(column, np.int64), len(row)) for column in columns.values())
    return _Said(dict(zip(columns, whole, strict=True)), foreign)


def elements(rows: Rows, wanted: Ints, known: LogFacts) -> Dealing:
    """What sends, polls, transactions and assignments of a batch say of each key, an element a
    row."""
    wanted = wanted[(rows.type[wanted] != INVOKE) | rows.open[wanted]]
    assigns = rows.of(ASSIGNMENTS)[wanted]
    assigned, wanted = wanted[assigns], wanted[~assigns]
    m = messages_of(rows, wanted)
    messages = _said(np.where(m.polled, POLLED, SENT), m.row, m.key, m.value, m.foreign, m.offset)
    parts = [messages, _ends_of(rows, wanted, known), _assigned(rows, assigned, known)]
    foreign = np.unique(np.concatenate([part.foreign for part in parts]))
    said = _in_order(
        [part.elements for part in parts if len(part.elements["row"])] or [messages.elements]
    )
    row = said["row"]
    begun = np.where(rows.begun >= 0, rows.begun, rows.index)
    outcome = np.where(rows.type == INVOKE, INFO, rows.type)
    unsure = set[int]()
    for _, op, first in rows.events(foreign):
        event = Event(op, first, op.type == "invoke")
        unsure |= keys_of(steps_said(event, known.healed))
    arrays = {
        "at": rows.index[row],
        "begun": begun[row],
        "process": rows.process[row],
        "value": said["value"],
        "offset": said["offset"],
        "kind": said["kind"].astype(np.int8),
        "type": outcome[row].astype(np.int8),
        "open": rows.open[row],
        "shared": _shared(row, said["key"]),
        "mixed": _mixed(row, said["kind"]),
    }
    return Dealing(said["key"], row, arrays, foreign, frozenset(unsure))


def _in_order(parts: Sequence[Arrays]) -> Arrays:
    """One table, by row."""
    if len(parts) == 1:
        return parts[0]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return chosen(whole, np.argsort(whole["row"], kind="stable"))


def _ends_of(rows: Rows, wanted: Ints, known: LogFacts) -> _Said:
    """The confirmed ends; rows of a rebalance are left to the decoder."""
    may = wanted[rows.ext_has(wanted, "end") & (rows.type[wanted] == OK)]
    begun = np.where(rows.begun[may] >= 0, rows.begun[may], rows.index[may])
    may = may[begun > known.healed]
    found: list[tuple[int, int, int]] = []
    for row, text in zip(may.tolist(), rows.exts(may).to_pylist(), strict=True):
        ext = decode_value(text or "null")
        if "end" in ext:
            at = int(rows.index[row])
            found += [(row, key, end) for key, end in ends_said(at, ext["end"])]
    table = np.array(found or np.zeros((0, 3)), np.int64)
    rebalanced = wanted[rows.ext_has(wanted, "rebalance-log")]
    return _said(ENDED, table[:, 0], table[:, 1], table[:, 2], rebalanced)


def _assigned(rows: Rows, asked: Ints, known: LogFacts) -> _Said:
    """What assignments list; `value` is whether they seek. Of those that change nothing, as their
    process had done nothing before and it seeks nothing, one for each key is enough."""
    asked = asked[(rows.type[asked] == OK) | (rows.type[asked] == INFO)]
    texts = rows.values(asked)
    found = scan(texts, _LISTS)
    nowhere = (rows.type[asked] == INFO) & ~texts.is_valid().to_numpy(zero_copy_only=False)
    seeks = np.zeros(len(asked), np.bool_)
    may = np.flatnonzero(rows.ext_has(asked, SEEK))
    for at, text in zip(may.tolist(), rows.exts(asked[may]).to_pylist(), strict=True):
        seeks[at] = decode_value(text or "null").get(SEEK) is True
    changes = seeks | np.isin(rows.index[asked], np.asarray(known.reassigned.at, np.int64))
    kept = changes[found.row]
    kept[np.unique(found.value, return_index=True)[1]] = True
    row, key = found.row[kept], found.value[kept]
    return _said(
        ASSIGNED, asked[row], key, seeks[row].astype(np.int64),
        asked[~found.plain & ~nowhere],
    )  # fmt: skip


def _shared(row: Ints, key: Ints) -> Mask:
    """Whether an operation is on several keys."""
    if not len(row):
        return np.zeros(0, np.bool_)
    heads = np.flatnonzero(np.diff(row, prepend=row[:1] - 1))
    several = np.minimum.reduceat(key, heads) != np.maximum.reduceat(key, heads)
    return np.repeat(several, np.diff(heads, append=len(row)))


def _mixed(row: Ints, kind: Ints) -> Mask:
    """Whether an operation both sent and polled."""
    count = int(row.max()) + 1 if len(row) else 0
    sent, polled = (np.bincount(row[kind == k], minlength=count) > 0 for k in (SENT, POLLED))
    return np.asarray((sent & polled)[row])
