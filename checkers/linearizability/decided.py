"""What happened to one key: legal or not, who found out, and which calls show it."""

from typing import Literal, NamedTuple

Means = Literal["fast test", "pre-test", "search", "dependencies"]


class Decided(NamedTuple):
    """`valid` is "unknown" where the budget was used up. `witness` are the begins of the calls that
    show what is wrong, at most four by a fast test; `why` is one sentence. `name` is the field's
    term for what is wrong."""

    valid: bool | Literal["unknown"]
    by: Means
    name: str = ""
    why: str = ""
    witness: tuple[int, ...] = ()
    frontier: int = 0  # the greatest number of configurations at a time, of a search


LEGAL = Decided(True, "fast test")
