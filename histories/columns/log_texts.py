"""The texts of `replica-log`, which are long: their records as numbers, all else as a short text.

A text that our writer gave holds ``"records":[[key,offset,value],…]`` once, and no escape beside
it. Any other is *foreign*, and is left to the decoder: a value that is a string, a sign, a leading
zero, a space.

Source: docs/spec/history-format.md 12.2.
"""

from typing import Any, NamedTuple

import numpy as np

from maxq.histories.columns.scan import Ints, distinct
from maxq.histories.op import HistoryError
from maxq.histories.text import decode_value, encode_value

_NAME, _OPENS, _NONE, _CLOSES = b'"records":', b'"records":[[', b'"records":[]', b"]]"
_BETWEEN, _DIGITS = b"],[", b"0123456789"
_POWERS = tuple(10**n for n in range(1, 18))
_TOO_LARGE = 10**18  # as in `maxq.histories.columns.scan`: no more than 18 digits


class StoredLog(NamedTuple):
    """One text: `head` is what it says but for its records, of which it has none; `body` is what
    stands between the outermost brackets of the records."""

    head: dict[Any, Any]
    body: bytes


class Bodies:
    """The records of bodies, of which many are equal: each is read once, and is one array."""

    def __init__(self) -> None:
        self._known: dict[bytes, Ints | None] = {}

    def records(self, body: bytes) -> Ints | None:
        """Key, queue offset and value of each message, a row each; None: they are foreign."""
        if body not in self._known:
            self._known[body] = triples(body)
        return self._known[body]


def stored_log(text: bytes | None) -> StoredLog | None:
    """Take the records out of the value of a `replica-log`; None: it is foreign."""
    if text is None:
        return None
    begin = text.find(_OPENS)
    head, body = text, b""
    if begin >= 0:
        end = text.find(_CLOSES, begin)
        if end < 0:
            return None
        body = text[begin + len(_OPENS) : end]
        head = text[:begin] + _NONE + text[end + len(_CLOSES) :]
    if head.count(_NAME) > 1 or b"\\" in head:
        return None
    try:
        said = decode_value(head)
    except HistoryError:
        return None
    if not isinstance(said, dict) or said.get("records", None if body else []) != []:
        return None  # records of something within
    return StoredLog(said, body)


def triples(body: bytes) -> Ints | None:
    """The numbers of ``1,2,3],[4,5,6``, three a row; None: it is something else."""
    if not body:
        return np.zeros((0, 3), np.int64)
    if b";" in body:
        return None
    flat = body.replace(_BETWEEN, b";")
    marks = flat.translate(None, _DIGITS)
    rows = (len(marks) + 1) // 3
    if marks != (b",,;" * rows)[:-1] or _lacks_a_number(flat):
        return None
    found = np.fromstring(flat.replace(b";", b","), np.int64, sep=",")
    if len(found) != 3 * rows or int(found.max()) >= _TOO_LARGE:
        return None
    # As many digits as the numbers have: so none of them has a leading zero.
    most = int(found.max())
    powers = [power for power in _POWERS if power <= most]
    digits = len(found) + sum(int(np.count_nonzero(found >= power)) for power in powers)
    return found.reshape(-1, 3) if digits == len(flat) - len(marks) else None


def _lacks_a_number(flat: bytes) -> bool:
    ends = flat.startswith((b",", b";")) or flat.endswith((b",", b";"))
    return ends or any(two in flat for two in (b",,", b",;", b";,", b";;"))


def slimmed(text: bytes | None, bodies: Bodies) -> str | None:
    """A `replica-log` without its digests, of whose records there is one of each key, at offset 0
    and without a value; None: it is foreign."""
    found = stored_log(text)
    records = None if found is None else bodies.records(found.body)
    if found is None or records is None:
        return None
    keys = distinct(records[:, 0]).tolist()
    slim = {"digests": [], "records": [[key, 0, None] for key in keys]}
    return encode_value(found.head | slim).decode()
