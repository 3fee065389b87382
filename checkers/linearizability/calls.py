"""The calls on one object, as arrays: what was asked, what was answered, and when.

A *call* is an operation as a model sees it: an invocation with its completion. Positions are
indices of the history, so no two are equal; call A precedes B if A's end is before B's begin. A
call whose outcome is unknown has no end: it may take effect at any time after its begin, or never.

Values are interned: two are one code if they are equal and of one type (1 is not True).
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
OK, OPEN, FAILED = 0, 1, 2  # outcomes: it happened; it may happen; it did not
NEVER = np.iinfo(np.int64).max  # the end of a call that has none
WORD_MAX = 80  # characters of a value in a story
NOTHING = -1  # the code of a value that is not there


class Row(NamedTuple):
    """What a model reads out of one operation: a call on one key.

    `argument` is what was asked for, `other` a second argument (the new value of a
    compare-and-set), `result` what was answered. None is "nothing", not a value.
    """

    key: Any
    kind: str
    argument: Any = None
    result: Any = None
    other: Any = None


class Call(NamedTuple):
    """One call, decoded; `begun` and `ended` are indices of the history, `ended` NEVER if it has no
    end, `outcome` one of OK, OPEN and FAILED."""

    kind: str
    argument: Any
    result: Any
    other: Any
    begun: int
    ended: int
    outcome: int
    process: int

    def said(self) -> str:
        """In words, for a story."""
        asked = " ".join(_word(v) for v in (self.argument, self.other) if v is not None)
        text = f"{self.kind} {asked}".strip()
        if self.result is not None:
            text += f" returned {_word(self.result)}"
        how = {OK: "", OPEN: ", without an answer", FAILED: ", which failed"}[self.outcome]
        return f"op {self.begun} ({text}{how})"


def _word(value: Any) -> str:
    if isinstance(value, str):
        return shortened(value)
    try:
        text = msgspec.json.encode(value, enc_hook=str, order="deterministic")  # keywords are texts
    except TypeError:  # a set of values that have no order among each other
        return shortened(stated(value))
    return shortened(text.decode())


def stated(state: Any) -> str:
    """A state of an object in words, the same in every process: sets in order."""
    match state:
        case list():
            return f"[{', '.join(map(stated, state))}]"
        case frozenset():
            return f"{{{', '.join(sorted(map(stated, state)))}}}"
        case tuple():
            return f"({', '.join(map(stated, state))})"
        case None:
            return "nil"
    return repr(state)


def shortened(text: str) -> str:
    """A text as long as a story can bear: its begin and its end."""
    half = WORD_MAX // 2
    return text if len(text) <= WORD_MAX else f"{text[:half]} … {text[-half:]}"


class Calls(NamedTuple):
    """The calls on one key, in order of their begins; shapes are (n,).

    `kind` are places in `kinds`; `argument`, `other` and `result` codes of `values` or NOTHING.
    """

    kinds: tuple[str, ...]
    values: Sequence[Any]
    kind: Ints
    argument: Ints
    other: Ints
    result: Ints
    begun: Ints
    ended: Ints
    outcome: Ints
    process: Ints

    @property
    def size(self) -> int:
        """How many calls there are; `len` is that of the tuple."""
        return len(self.kind)

    def of(self, *kinds: str) -> Mask:
        """Which calls are of some kinds."""
        wanted = [number for number, name in enumerate(self.kinds) if name in kinds]
        if len(wanted) == 1:
            return np.asarray(self.kind == wanted[0])
        return np.array([n in wanted for n in range(len(self.kinds))] or [False])[self.kind]

    def take(self, at: Ints | Mask) -> "Calls":
        """Some of the calls, in order."""
        return Calls(self.kinds, self.values, *(column[at] for column in self[2:]))

    def by_process(self) -> Ints:
        """The order of processes, and for each that of its begins."""
        small = self.process.astype(np.int16)  # of these a stable sort takes linear time
        fits = bool(np.all(small == self.process))
        return np.argsort(small if fits else self.process, kind="stable")

    def numbers(self, codes: Ints) -> Ints:
        """The values of some codes, all of which are whole numbers."""
        values = self.values
        if isinstance(values, range):
            if values.start == 0 and values.step == 1:
                return codes
            found: Ints = codes * values.step + values.start
            return found
        return np.fromiter(map(values.__getitem__, codes.tolist()), np.int64, len(codes))

    def call(self, at: int) -> Call:
        """One call."""
        argument, result, other = (
            None if column[at] == NOTHING else self.values[column[at]]
            for column in (self.argument, self.result, self.other)
        )
        return Call(
            kind=self.kinds[self.kind[at]], argument=argument, result=result, other=other,
            begun=int(self.begun[at]), ended=int(self.ended[at]),
            outcome=int(self.outcome[at]), process=int(self.process[at]),
        )  # fmt: skip


class Codes:
    """Gives each different value a number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._known: dict[Any, int] = {}

    def code(self, value: Any) -> int:
        """The number of a value, which can be hashed; NOTHING for None."""
        if value is None:
            return NOTHING
        key = value if type(value) is int or type(value) is str else (type(value), value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.values)
            self.values.append(value)
        return found


class CallsMaker:
    """Collects the calls on one key."""

    def __init__(self) -> None:
        self._codes = Codes()
        self._kinds: dict[str, int] = {}
        self._rows = array("q")  # eight numbers of each

    def add(self, row: Row, begun: int, ended: int, outcome: int, process: int) -> None:
        """Take a call."""
        kind = self._kinds.setdefault(row.kind, len(self._kinds))
        code = self._codes.code
        self._rows.extend((kind, code(row.argument), code(row.other), code(row.result), begun,
                           NEVER if outcome == OPEN else ended, outcome, process))  # fmt: skip

    def done(self) -> Calls:
        """All of them."""
        rows = np.array(self._rows, np.int64).reshape(-1, 8)
        rows = rows[np.argsort(rows[:, 4], kind="stable")]
        return Calls(tuple(self._kinds), self._codes.values, *np.ascontiguousarray(rows.T))


def calls_of(rows: Iterable[tuple[Row, int, int, int]]) -> Calls:
    """Calls of (row, begin, end, outcome), each of a process of its own: for tests and examples."""
    maker = CallsMaker()
    for process, (row, begun, ended, outcome) in enumerate(rows):
        maker.add(row, begun, ended, outcome, process)
    return maker.done()
