"""Numbers out of texts: many rows of JSON at once, by looks at bytes instead of a parser.

A text that our writer gave is numbers with a few fixed strings between them, as in
`[["send",3,[17,9]]]`. So it is cut at its runs of digits. What stands before, between and behind
them must be one of the strings of a `Grammar`, each where the grammar allows it; then the text is
*plain*, and its numbers are what a decoder would have given. Any other text is *foreign*, and is
left to the decoder: another spacing, an escape, a float, a sign, a leading zero, more than 18
digits.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]

BEGIN, END = 0, -1  # roles: of what precedes the first number, and of what follows the last
_NO_ROLE = -2
_WORDS_MAX = 4  # of eight bytes: the longest string between two numbers
_SLOT_BITS = 10
_SLOTS, _FACTORS = 1 << _SLOT_BITS, 100
DIGITS_MAX = 18  # always fit 64 bits
_SLICE = 1 << 22  # bytes that are looked at together
FRONT = 24  # bytes that may be read before a text
_ZERO, _ZEROS = np.uint8(ord("0")), np.uint64(0x3030303030303030)
_PAIRS = np.uint64(0x000000FF000000FF)
_LOW_BYTES = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_HIGH_BYTES = ~_LOW_BYTES[::-1]


def distinct(numbers: Ints) -> Ints:
    """The different ones in order; many times faster than `numpy.unique` where many are equal."""
    ordered = np.sort(numbers)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    found: Ints = ordered[first]
    return found


def order_of(numbers: Ints) -> Ints:
    """As `numpy.argsort` of kind stable; many times faster where numbers have 16 bits."""
    small = len(numbers) > 0 and int(numbers.min()) >= 0 and int(numbers.max()) < 1 << 16
    found: Ints = np.argsort(numbers.astype(np.uint16) if small else numbers, kind="stable")
    return found


class Grammar:
    """Which strings may stand where.

    Args:
        rules: by string, which role it gives to the number behind it, by the role of the number
            before it; `BEGIN` and `END` where there is none. Roles are numbers from 1 on.

    What role a number has must follow from the string before it, or from that and the role of the
    number before, which then must follow from its own string.
    """

    def __init__(self, rules: Mapping[str, Mapping[int, int]]) -> None:
        self.texts = [text.encode() for text in rules]
        if max(map(len, self.texts)) > 8 * _WORDS_MAX:
            raise ValueError(f"a string is longer than {8 * _WORDS_MAX} bytes")
        roles = 1 + max(max(max(rule), max(rule.values())) for rule in rules.values())
        self.next = np.full((roles, len(rules)), _NO_ROLE, np.int8)
        for number, rule in enumerate(rules.values()):
            for before, after in rule.items():
                self.next[before, number] = after
        given = [set(rule.values()) for rule in rules.values()]
        self.sure = np.array([g.pop() if len(g) == 1 else _NO_ROLE for g in given], np.int8)
        self._words = _words_of_texts(self.texts)
        self._lengths = np.array([len(text) for text in self.texts], np.int64)
        self._factor, self._slots = _slots(self._words[0], self._lengths)

    def number_of(self, padded: Bytes, begins: Ints, lengths: Ints) -> npt.NDArray[np.int16]:
        """Which of the strings is at each place, so many bytes long; -1: none."""
        at = begins + FRONT
        head = word_at(padded, at) & _LOW_BYTES[np.minimum(lengths, 8)]
        found = self._slots[_slot(head, lengths, self._factor)]
        same = (self._words[0][found] == head) & (self._lengths[found] == lengths)
        long = np.flatnonzero(same & (lengths > 8))
        for w in range(1, _WORDS_MAX):
            long = long[lengths[long] > 8 * w]
            if not len(long):
                break
            word = word_at(padded, at[long] + 8 * w)
            word &= _LOW_BYTES[np.minimum(lengths[long] - 8 * w, 8)]
            same[long] &= word == self._words[w][found[long]]
        return np.where(same, found, np.int16(-1))


class Numbers(NamedTuple):
    """The numbers of plain texts, in order.

    `row` is the text that each is in, `value` the number, `role` what the grammar calls it; `first`
    is where each text's numbers begin, one more than there are texts. `plain` says of each text
    whether it is; foreign ones have no numbers here.
    """

    row: Ints
    value: Ints
    role: npt.NDArray[np.int8]
    first: Ints
    plain: Mask


def scan(texts: pa.StringArray, grammar: Grammar) -> Numbers:
    """Cut every text into numbers; a null is foreign. Few at a time where they are long, as each
    byte takes many more while it is looked at."""
    bounds = bytes_of(texts)[1]
    cuts = np.arange(_SLICE, bounds[-1], _SLICE)
    begins = [0, *distinct(np.searchsorted(bounds, cuts, "right") - 1).tolist(), len(texts)]
    parts = [
        _scanned(texts[begin:end], grammar, begin)
        for begin, end in pairwise(begins) if end > begin
    ]  # fmt: skip
    return _joined(parts) if parts else _scanned(texts, grammar, 0)


def _joined(parts: Sequence[Numbers]) -> Numbers:
    if len(parts) == 1:
        return parts[0]
    whole = [np.concatenate(of_all) for of_all in zip(*parts, strict=True)]
    counts = np.concatenate([np.diff(part.first) for part in parts])
    return Numbers(*whole)._replace(first=np.concatenate([[0], np.cumsum(counts)]))


def _scanned(texts: pa.StringArray, grammar: Grammar, begin: int) -> Numbers:
    """Some texts, of which the first has this number."""
    count = len(texts)
    data, bounds = bytes_of(texts)
    digit = (data - _ZERO) < 10
    starts, ends = _runs(digit, bounds)
    first = np.searchsorted(starts, bounds)
    row = np.repeat(np.arange(count), np.diff(first))
    padded = np.concatenate([np.zeros(FRONT, np.uint8), data, np.zeros(8 * _WORDS_MAX, np.uint8)])

    gaps = _gaps(padded, grammar, starts, ends, first, bounds)
    role, good = _roles(grammar, gaps, first)
    value = values_of(padded, starts, ends)
    lengths = ends - starts
    good &= (lengths <= DIGITS_MAX) & ~((lengths > 1) & (data[starts] == _ZERO))

    plain = _tails(grammar, gaps, role, first) & _mask_of(texts.is_valid())
    plain[row[~good]] = False
    kept = plain[row]
    per_row = np.where(plain, np.diff(first), 0)
    return Numbers(
        row=row[kept] + begin,
        value=value[kept],
        role=role[kept],
        first=np.concatenate([np.zeros(1, np.int64), np.cumsum(per_row)]),
        plain=plain,
    )


class _Gaps(NamedTuple):
    """Which string stands before each number, and at the end of each text."""

    before: npt.NDArray[np.int16]
    tail: npt.NDArray[np.int16]


def bytes_of(texts: pa.StringArray) -> tuple[Bytes, Ints]:
    """All bytes, and where each text begins; one more than there are texts."""
    if not len(texts):
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    buffers: Any = texts.buffers()
    bounds = np.frombuffer(buffers[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    none = buffers[2] is None
    everything = np.zeros(0, np.uint8) if none else np.frombuffer(buffers[2], np.uint8)
    begin = int(bounds[0])
    return everything[begin : int(bounds[-1])], bounds.astype(np.int64) - begin


def _mask_of(array: Any) -> Mask:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)


def _runs(digit: Mask, bounds: Ints) -> tuple[Ints, Ints]:
    """Where runs of digits begin and end; none goes on from one text to the next."""
    edge = np.zeros(len(digit) + 1, np.bool_)  # at each of them a run begins or ends
    edge[:-1] = digit
    edge[1:] ^= digit
    inner = bounds[(bounds > 0) & (bounds < len(digit))]
    through = distinct(inner[digit[inner - 1] & digit[inner]])
    edges = np.flatnonzero(edge)
    if len(through):  # one run ends there and another begins
        edges = np.sort(np.concatenate([edges, through, through]))
    return edges[::2], edges[1::2]


def _gaps(
    padded: Bytes, grammar: Grammar, starts: Ints, ends: Ints, first: Ints, bounds: Ints
) -> _Gaps:
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends
    has = np.diff(first) > 0
    begins[first[:-1][has]] = bounds[:-1][has]
    tails = bounds[:-1].copy()
    tails[has] = ends[first[1:][has] - 1]
    before = grammar.number_of(padded, begins, starts - begins)
    return _Gaps(before, grammar.number_of(padded, tails, bounds[1:] - tails))


def word_at(padded: Bytes, at: Ints) -> Words:
    """The eight bytes from each position on, the first the lowest."""
    every: Any = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    return np.asarray(every[at], np.uint64)


def _roles(grammar: Grammar, gaps: _Gaps, first: Ints) -> tuple[npt.NDArray[np.int8], Mask]:
    """Each number's role, and whether it may stand there."""
    known = np.maximum(gaps.before, 0)
    role = grammar.sure[known]
    leads = np.zeros(len(role), np.bool_)
    leads[first[:-1][np.diff(first) > 0]] = True
    at = np.flatnonzero(role == _NO_ROLE)  # those depend on their neighbour's
    neighbour = np.where(leads[at], BEGIN, role[at - 1])
    role[at] = grammar.next[np.maximum(neighbour, BEGIN), known[at]]
    previous = np.zeros(len(role), np.int8)
    previous[1:] = np.maximum(role[:-1], BEGIN)
    previous[leads] = BEGIN
    allowed = grammar.next[previous, known]
    return role, (gaps.before >= 0) & (role > 0) & (allowed == role)


def _tails(grammar: Grammar, gaps: _Gaps, role: npt.NDArray[np.int8], first: Ints) -> Mask:
    last = np.zeros(len(first) - 1, np.int8)
    has = np.diff(first) > 0
    last[has] = np.maximum(role[first[1:][has] - 1], 0)
    after = grammar.next[last, np.maximum(gaps.tail, 0)]
    return np.asarray((gaps.tail >= 0) & (after == END), np.bool_)


def values_of(padded: Bytes, starts: Ints, ends: Ints) -> Ints:
    """The numbers of runs of digits, eight digits at a time, the last ones first.

    `FRONT` bytes precede the text in `padded`, and eight more follow it.
    """
    lengths = np.minimum(ends - starts, DIGITS_MAX)
    value = _eight_digits(word_at(padded, ends + (FRONT - 8)), np.minimum(lengths, 8))
    for w, scale in ((1, 10**8), (2, 10**16)):
        long = np.flatnonzero(lengths > 8 * w)
        if not len(long):
            break
        kept = np.minimum(lengths[long] - 8 * w, 8)
        word = word_at(padded, ends[long] + (FRONT - 8 * (w + 1)))
        value[long] += _eight_digits(word, kept) * np.uint64(scale)
    return value.view(np.int64)


def _eight_digits(word: Words, kept: Ints) -> Words:
    """The number that the last `kept` of eight characters are."""
    word = (word ^ _ZEROS) & _HIGH_BYTES[kept]
    word = word * np.uint64(10) + (word >> np.uint64(8))
    upper = (word & _PAIRS) * np.uint64(100 + (1_000_000 << 32))
    word >>= np.uint64(16)
    word &= _PAIRS
    word *= np.uint64(1 + (10_000 << 32))
    word += upper
    word >>= np.uint64(32)
    return word


def _words_of_texts(texts: Sequence[bytes]) -> list[Words]:
    whole = [text.ljust(8 * _WORDS_MAX, b"\0") for text in texts]
    table = np.frombuffer(b"".join(whole), "<u8").reshape(len(texts), _WORDS_MAX)
    return [np.ascontiguousarray(table[:, w], np.uint64) for w in range(_WORDS_MAX)]


def _slots(heads: Words, lengths: Ints) -> tuple[np.uint64, npt.NDArray[np.int16]]:
    """A table that has each string in a slot of its own, and the factor by which it is found."""
    random = np.random.default_rng(1)
    for _ in range(_FACTORS):
        factor = random.integers(1 << 63, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        at = _slot(heads, lengths, factor)
        if len(distinct(at)) == len(heads):
            slots = np.zeros(_SLOTS, np.int16)  # what is found is compared
            slots[at] = np.arange(len(heads))
            return factor, slots
    raise ValueError("two strings of one length begin with the same eight bytes")


def _slot(heads: Words, lengths: Ints, factor: np.uint64) -> Ints:
    mixed = (heads ^ (lengths.astype(np.uint64) << np.uint64(56))) * factor
    return (mixed >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
