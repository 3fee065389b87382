"""The order in which findings are listed and cut: the same, anyone who has found them.

A finding stands by what it is about (broker set, then queue or group), by its place in the history
(the operations that prove it), and by its name. Of what is equal in all of that, one check found
all, and in one order.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, TypeVar

LISTED_MAX = 100  # anomalies of one kind that are reported; all are counted


class Listed(Protocol):
    """What can be listed."""

    @property
    def name(self) -> str: ...

    @property
    def ops(self) -> tuple[int, ...]: ...

    @property
    def detail(self) -> dict[str, Any]: ...


ListedT = TypeVar("ListedT", bound=Listed)


def in_order(found: Iterable[ListedT]) -> list[ListedT]:
    """Findings as they are listed."""
    return sorted(found, key=_place)


def reported(found: Iterable[ListedT], kind: Callable[[ListedT], Hashable]) -> list[ListedT]:
    """The first `LISTED_MAX` of each kind, as they are listed."""
    counted: Counter[Hashable] = Counter()
    kept = []
    for one in in_order(found):
        counted[kind(one)] += 1
        if counted[kind(one)] <= LISTED_MAX:
            kept.append(one)
    return kept


def _place(found: Listed) -> tuple[str, bool, Any, list[int], str]:
    about = found.detail.get("key")
    numbered = type(about) is int
    return (
        str(found.detail.get("set") or ""),
        not numbered,
        about if numbered else str(about or ""),
        sorted(found.ops),
        found.name,
    )
