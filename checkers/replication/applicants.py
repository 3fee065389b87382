"""Applicants for broker ids by arrays: whether each of a set has one id, and nobody else's.

The workload names sets and register codes by numbers, `a12` and `maxq-7;36`, so that a text of an
application is numbers between fixed strings. Any other one is left to the decoder, and its set to
its rows.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from maxq.checkers.core.columnar import Dealing, Groups, keys_of
from maxq.checkers.core.keyed import Event
from maxq.histories.columns.rows import INFO, OK, Rows
from maxq.histories.columns.scan import BEGIN, END, Grammar, Ints, scan
from maxq.histories.observed import APPLY_ID

PREFIX = "a"  # of the names of made-up sets
_SET, _PROCESS, _COUNT, _ID = 1, 2, 3, 4
_GRAMMAR = Grammar({
    f'{{"set":"{PREFIX}': {BEGIN: _SET},
    '","code":"maxq-': {_SET: _PROCESS},
    ";": {_PROCESS: _COUNT},
    '","id":': {_COUNT: _ID},
    '"}': {_COUNT: END},
    "}": {_ID: END},
})  # fmt: skip
_BITS = 31  # of each half of a register code


def elements(
    rows: Rows,
    chosen: Ints,
    sets: frozenset[str],
    named: frozenset[str],
    said: Callable[[Event], Iterable[tuple[str, Any]]],
) -> Dealing:
    """The ids that applicants were given in a batch, an element a row.

    Args:
        rows: a batch.
        chosen: operations on ids, by row.
        sets: those of the cluster.
        named: sets of which anything but an applicant says something, in the whole history.
        said: what an event says of which sets, if only the decoder can read it.

    Raises:
        HistoryError: a value has another shape.
    """
    applies = rows.is_of(chosen, APPLY_ID)
    ok = rows.type[chosen] == OK
    given = chosen[applies & ok]
    found = scan(rows.values(given), _GRAMMAR)
    plain = np.diff(found.first) == _ID
    numbers = found.value[found.first[:-1][plain][:, None] + np.arange(_ID)]
    fits = (numbers[:, 1:3] < 1 << _BITS).all(axis=1)
    numbers, plain[plain] = numbers[fits], fits
    odd = np.concatenate([given[~plain], _applying(rows, chosen[applies & ~ok], sets)])
    unsure = set(named)
    for at, op, begun in rows.events(np.sort(odd)):
        unsure |= keys_of(said(Event(op, begun, bool(rows.open[at]))))
    arrays = {"owner": numbers[:, 1] << _BITS | numbers[:, 2], "id": numbers[:, 3]}
    foreign = np.sort(np.concatenate([odd, chosen[~applies & ok]]))
    return Dealing(numbers[:, 0], given[plain], arrays, foreign, frozenset(unsure), prefix=PREFIX)


def _applying(rows: Rows, without: Ints, sets: frozenset[str]) -> Ints:
    """Of applications that were not answered, those that may be for a set of the cluster."""
    done = without[rows.type[without] == INFO]
    unknown, done = done[rows.begun[done] < 0], done[rows.begun[done] >= 0]
    open_ = without[rows.open[without]]
    row = np.concatenate([open_, done])
    if any(name.startswith(PREFIX) for name in sets):
        return np.concatenate([row, unknown])
    plain = [scan(texts, _GRAMMAR).plain for texts in (rows.values(open_), rows.begun_values(done))]
    return np.concatenate([row[~np.concatenate(plain)], unknown])


def owners(groups: Groups) -> tuple[list[int], list[int]]:
    """How many applicants have an id of each set, -1 where that is not sure; and how many answers
    said so. Sure is a set in which each has one id, and no two have the same."""
    number, owner, ids = groups.number, groups.arrays["owner"], groups.arrays["id"]
    count = np.diff(groups.bounds)
    again, changed = _repeated(number, owner, ids)
    _, shared = _repeated(number, ids, owner)
    found = count - np.bincount(number[again], minlength=len(count))
    found[number[changed]] = -1
    found[number[shared]] = -1
    return found.tolist(), count.tolist()


def _repeated(number: Ints, what: Ints, other: Ints) -> tuple[Ints, Ints]:
    """The elements of a group that have the same as an earlier one; and those of them that differ
    from the one before in something else."""
    order = np.lexsort((what, number))
    same = (number[order][1:] == number[order][:-1]) & (what[order][1:] == what[order][:-1])
    differs = same & (other[order][1:] != other[order][:-1])
    return order[1:][same], order[1:][differs]
