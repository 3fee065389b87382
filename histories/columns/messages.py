"""The messages of many operations at once, as `maxq.checkers.core.elements` gives those of one.

Source: docs/spec/history-format.md 12.1.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from maxq.histories.columns.rows import INVOKE, OK, Rows
from maxq.histories.columns.scan import BEGIN, END, Grammar, Ints, Mask, bytes_of, scan

NO_OFFSET = -1  # it is not known; offsets are not negative
SOUGHT_MAX = 8  # keys that texts are searched for
_SENT_KEY, _SENT_AT, _SENT, _SENT_ONLY, _KEY, _AT, _POLLED = range(1, 8)
_NOTHING = '[["poll"]]'
_SEND, _POLL = '["send",', '["poll",{"$map":[['
_GRAMMAR = Grammar({
    f"[{_SEND}": {BEGIN: _SENT_KEY},
    ",[": {_SENT_KEY: _SENT_AT},
    ",": {_SENT_KEY: _SENT_ONLY, _SENT_AT: _SENT, _AT: _POLLED},
    f"]],{_SEND}": {_SENT: _SENT_KEY},
    f"],{_SEND}": {_SENT_ONLY: _SENT_KEY},
    "]]]": {_SENT: END},
    "]]": {_SENT_ONLY: END},
    f"[{_POLL}": {BEGIN: _KEY},
    ",[[": {_KEY: _AT},
    "],[": {_POLLED: _AT},
    "]]],[": {_POLLED: _KEY},
    ",[]],[": {_KEY: _KEY},
    "]]]]}]]": {_POLLED: END},
    ",[]]]}]]": {_KEY: END},
    f"]],{_POLL}": {_SENT: _KEY},
    f"],{_POLL}": {_SENT_ONLY: _KEY},
    f"]]]]}}],{_SEND}": {_POLLED: _SENT_KEY},
    f"]]]]}}],{_POLL}": {_POLLED: _KEY},
    _NOTHING: {BEGIN: END},
    '[["poll",{}]]': {BEGIN: END},
})  # fmt: skip


class Messages(NamedTuple):
    """Messages in order of their operations; `row` is the row of a batch that each is in.

    `foreign` are the rows that only the decoder can read, which give no messages here.
    """

    row: Ints
    key: Ints
    offset: Ints  # NO_OFFSET: not known
    value: Ints
    polled: Mask  # else sent
    foreign: Ints


def messages_of(rows: Rows, chosen: Ints) -> Messages:
    """The messages that some rows name: sends, polls and transactions that completed or never did.

    All of a batch are read at once, by whoever asks first.
    """
    m = rows.once(_messages)
    wanted = np.zeros(len(rows), np.bool_)
    wanted[chosen] = True
    mine = wanted[m.row]
    if mine.all() and wanted[m.foreign].all():
        return m
    return Messages(
        m.row[mine], m.key[mine], m.offset[mine], m.value[mine], m.polled[mine],
        m.foreign[wanted[m.foreign]],
    )  # fmt: skip


def messages_on(rows: Rows, keys: Collection[int]) -> Messages:
    """The messages of some queues alone, which takes a fraction of the time where they are few."""
    chosen = _telling(rows)
    if len(keys) <= SOUGHT_MAX:
        texts, any_ = rows.values(chosen), np.zeros(len(chosen), np.bool_)
        for text in (f"{before}{key}," for key in keys for before in "[,"):
            found: Any = pc.match_substring(texts, text)
            any_ |= found.fill_null(False).to_numpy(zero_copy_only=False)
        chosen = chosen[any_]
    m = _scanned(rows, chosen)
    mine = np.isin(m.key, list(keys))
    return Messages(
        m.row[mine], m.key[mine], m.offset[mine], m.value[mine], m.polled[mine], m.foreign
    )


def _telling(rows: Rows) -> Ints:
    chosen = np.flatnonzero(rows.client & ((rows.type != INVOKE) | rows.open))
    return chosen[rows.is_of(chosen, "send", "poll", "txn")]


def _messages(rows: Rows) -> Messages:
    return _scanned(rows, _telling(rows))


def _scanned(rows: Rows, chosen: Ints) -> Messages:
    texts = rows.values(chosen)
    found = scan(texts, _GRAMMAR)
    polled = found.role == _POLLED
    kind = rows.type[chosen]
    # What was polled is in completions alone, and an ok poll says what that was.
    lengths = np.diff(bytes_of(texts)[1])
    nothing = found.plain & (np.diff(found.first) == 0) & (lengths == len(_NOTHING))
    odd = ~found.plain | (nothing & (kind == OK))
    maps = found.role == _KEY
    odd[found.row[maps][kind[found.row[maps]] == INVOKE]] = True
    odd[_twice(found.row[maps], found.value[maps])] = True

    at = np.flatnonzero(polled | (found.role == _SENT) | (found.role == _SENT_ONLY))
    at = at[~odd[found.row[at]]]
    number = np.arange(len(found.role))
    heads = np.where((found.role == _KEY) | (found.role == _SENT_KEY), number, 0)
    key = found.value[np.maximum.accumulate(heads)[at]] if len(heads) else found.value
    bare = found.role[at] == _SENT_ONLY
    return Messages(
        row=chosen[found.row[at]],
        key=key,
        offset=np.where(bare, NO_OFFSET, found.value[at - 1]) if len(at) else at,
        value=found.value[at],
        polled=polled[at],
        foreign=chosen[odd],
    )


def _twice(row: Ints, key: Ints) -> Ints:
    """The rows in which a key comes twice: of a map the last one counts."""
    order = np.lexsort((key, row))
    row, key = row[order], key[order]
    again: Ints = row[1:][(row[1:] == row[:-1]) & (key[1:] == key[:-1])]
    return again
