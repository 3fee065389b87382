"""Where something was planted, before its rows have their indices."""

from typing import NamedTuple


class Mark(NamedTuple):
    """What was planted: operations of the round that show it (`begun`: those without an answer),
    the message. Indices follow once the round is laid out."""

    key: int
    ops: tuple[int, ...] = ()
    offset: int | None = None
    value: int | None = None
    of: int | None = None  # the operation that tells offset and value, once settled
    acts: tuple[int, ...] = ()
    set: str = ""
