"""What is asked of each of many keys by itself, of the arrays of all at once.

Where a history has many small keys, a call of numpy for each costs more than all their elements.
"""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from maxq.histories.columns.scan import Ints, order_of

_FITS = 1 << 62


def chosen(arrays: Mapping[str, Any], which: Any) -> dict[str, Any]:
    """Some elements of each array."""
    return {name: column[which] for name, column in arrays.items()}


def order_in(group: Ints, values: Ints) -> Ints:
    """As `numpy.argsort` of kind stable, in each group alone; groups ascend."""
    if not len(group) or group[0] == group[-1]:
        return order_of(values)
    return np.asarray(np.lexsort((values, group)), np.int64)


def starts(group: Ints) -> Ints:
    """Where the group of each element begins; groups ascend."""
    heads = np.flatnonzero(np.diff(group, prepend=group[:1] - 1))
    return np.repeat(heads, np.diff(heads, append=len(group)))


def codes(group: Ints, values: Ints) -> Ints:
    """Numbers of which two are equal where both the group and the value are."""
    return _apart(group, values)[0]


def before(
    group: Ints, ascending: Ints, of: Ints, wanted: Ints, side: Literal["left", "right"] = "left"
) -> tuple[Ints, Ints]:
    """How many elements of a group come before a value, as by `np.searchsorted` in the group alone.

    Args:
        group: the group of each element, ascending.
        ascending: the elements, ascending in each group.
        of: the group of each value that is looked up.
        wanted: these values.
        side: `right` if equal ones come before.

    Returns:
        That, and where the group's elements begin.
    """
    if len(group) and group[0] == group[-1] and (of == group[0]).all():
        return np.searchsorted(ascending, wanted, side), np.zeros(len(of), np.int64)
    both, _, _ = _apart(np.concatenate([group, of]), np.concatenate([ascending, wanted]))
    place = np.searchsorted(both[: len(group)], both[len(group) :], side)
    first = np.searchsorted(group, of)
    return place - first, first


def running_max(group: Ints, values: Ints) -> Ints:
    """Of each element the highest one of its group up to it; groups ascend."""
    both, back, width = _apart(group, values)
    return back[np.maximum.accumulate(both) - group * width]


class _Back:
    """From numbers of `_apart` to the values that they stand for."""

    def __init__(self, low: int, values: Ints | None = None) -> None:
        self._low, self._values = low, values

    def __getitem__(self, at: Ints) -> Ints:
        return at + self._low if self._values is None else self._values[at]


def _apart(group: Ints, values: Ints) -> tuple[Ints, _Back, int]:
    """Numbers of which those of a later group are higher, and in a group as values are; how to come
    back, and how far groups are apart. Where sums would not fit 64 bits they stand for ranks."""
    if not len(values):
        return values, _Back(0), 0
    low, high = int(values.min()), int(values.max())
    width = high - low + 1
    if width * (int(group.max()) + 1) < _FITS:
        return values - low + group * width, _Back(low), width
    known, rank = np.unique(values, return_inverse=True)
    return rank + group * len(known), _Back(0, known), len(known)
