"""How much memory a judgement may take."""

from typing import NamedTuple

from maxq.histories.op import HistoryError


class Memory(NamedTuple):
    """What rows that are dealt out may take at a time, in bytes: as is aimed at, and at most."""

    aim: int
    most: int


class TooLargeError(HistoryError):
    """One key of a history takes more memory than there is."""
