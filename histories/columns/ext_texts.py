"""The different texts among what was recorded beside the values of operations (`ext`).

An acknowledged send also says where in the log it is (``byte``), so that no two of their texts are
equal. Each digit of that number becomes a 1, by looks at bytes, so that texts differ by its length
alone; a text that has it otherwise stays as it is.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxq.histories.columns.scan import DIGITS_MAX, Bytes, Ints, Mask, bytes_of, word_at

_NUMBERED = b'"byte":'
_RARE = 2  # where its rarest letter is
_WORD = np.uint64(int.from_bytes(_NUMBERED, "little"))
_LENGTH, _SEVEN = len(_NUMBERED), np.uint64((1 << 56) - 1)
_ZERO, _ONE, _COMMA, _BRACE = (np.uint8(ord(sign)) for sign in "01,}")


class Texts(NamedTuple):
    """The different texts of a batch, and which of them each row has; -1: none."""

    different: Any
    code: Ints

    def have(self, name: str) -> Mask:
        """Which rows may hold a key of that name."""
        found = pc.match_substring(self.different, f'"{name}"').to_numpy(zero_copy_only=False)
        return np.append(np.asarray(found, np.bool_), False)[self.code]


def encoded(texts: pa.StringArray) -> Texts:
    """The different ones of some texts, but for ``byte``."""
    column: Any = _leveled(texts).dictionary_encode()
    code = np.asarray(column.indices.fill_null(-1).to_numpy(), np.int64)
    if texts.null_count:
        code = np.where(texts.is_valid().to_numpy(zero_copy_only=False), code, -1)
    return Texts(column.dictionary, code)


def _leveled(texts: pa.StringArray) -> pa.StringArray:
    """Texts with ones for the digits of the first such number of each, if that is a whole one; then
    those that are none are empty."""
    data, bounds = bytes_of(texts)
    begin, length = _numbers(data, bounds)
    if not len(begin):
        return texts
    changed = data.copy()
    for n in range(int(length.max())):
        changed[begin[length > n] + n] = _ONE
    offsets = bounds.astype(np.int32)
    return pa.StringArray.from_buffers(
        len(texts), pa.py_buffer(offsets.data), pa.py_buffer(changed.data)
    )


def _numbers(data: Bytes, bounds: Ints) -> tuple[Ints, Ints]:
    """Where such numbers begin, and how many digits each has."""
    padded = np.concatenate([data, np.zeros(_LENGTH + DIGITS_MAX + 2, np.uint8)])
    at = np.flatnonzero(data == _NUMBERED[_RARE]) - _RARE
    at = at[at >= 0]
    at = at[(word_at(padded, at) & _SEVEN) == _WORD]
    text = np.searchsorted(bounds, at, "right") - 1
    at = at[np.diff(text, prepend=-1) > 0]
    begin = at + _LENGTH
    length = np.zeros(len(at), np.int64)
    more = np.arange(len(at))
    for n in range(DIGITS_MAX):
        more = more[(padded[begin[more] + n] - _ZERO) < 10]
        if not len(more):
            break
        length[more] = n + 1
    behind = padded[begin + length]
    ends = bounds[np.searchsorted(bounds, at, "right")] if len(at) else at
    good = (length > 0) & ((behind == _COMMA) | (behind == _BRACE)) & (begin + length < ends)
    return begin[good], length[good]
