"""Lines of text as shapes: what is left of a line when each run of digits is one zero.

A history has millions of lines and few shapes. What the one text of a shape says to a decoder, each
of its lines says, with other numbers (`maxq.histories.lines.forms`).
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from maxq.histories.columns.scan import DIGITS_MAX, Bytes, Ints, Mask

_ZERO, _END = np.uint8(ord("0")), np.uint8(ord("\n"))
_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")


class Lines(NamedTuple):
    """Whole lines, each with its end.

    `bounds` is where each begins, one more than there are; `begin` and `end` of the runs of digits,
    of which `first` says where those of each line begin. `code` is the number of a line's shape in
    `shapes`. `odd` are lines with a number that not every reader reads alike: of more than 18
    digits, or with a zero in front.
    """

    data: Bytes
    bounds: Ints
    begin: Ints
    end: Ints
    first: Ints
    code: Ints
    shapes: list[bytes]
    odd: Mask

    def __len__(self) -> int:
        return len(self.code)

    def text(self, line: int) -> bytes:
        """One line."""
        return self.data[self.bounds[line] : self.bounds[line + 1]].tobytes()


def cut(text: bytes) -> Lines:
    """Cut a text, which ends with the end of a line."""
    data = np.frombuffer(text, np.uint8)
    digit = (data - _ZERO) < 10
    begins, ends = digit.copy(), digit.copy()
    begins[1:] &= ~digit[:-1]
    ends[:-1] &= ~digit[1:]
    begin, end = np.flatnonzero(begins), np.flatnonzero(ends) + 1
    bounds = _after_each_line(data)
    first = np.searchsorted(begin, bounds)
    lengths = end - begin
    strange = (lengths > DIGITS_MAX) | ((lengths > 1) & (data[begin] == _ZERO))
    odd = np.zeros(len(bounds) - 1, np.bool_)
    odd[np.searchsorted(first, np.flatnonzero(strange), "right") - 1] = True

    plain = data[~digit | begins].tobytes().translate(_TO_ZERO)
    within = _after_each_line(np.frombuffer(plain, np.uint8)).astype(np.int32)
    shapes = pa.Array.from_buffers(
        pa.binary(), len(within) - 1, [None, pa.py_buffer(within.tobytes()), pa.py_buffer(plain)]
    )
    encoded = shapes.dictionary_encode()
    code = np.asarray(encoded.indices.to_numpy(), np.int64)
    known: Any = encoded.dictionary.to_pylist()
    return Lines(data, bounds, begin, end, first, code, known, odd)


def _after_each_line(data: Bytes) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.flatnonzero(data == _END) + 1])
