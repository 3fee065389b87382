"""Runs of reading, by arrays: where each process began to read a key, and began again.

The same as `maxq.checkers.evidence.log.read_key` and `maxq.checkers.messages.log_order` have of
rows. Elements of one process follow one another. It forgot a key between two of them if it was
assigned something there, for had that listed the key it would be an element itself. So of all
assignments only their processes and indices need to be known.
"""

from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.core.columnar import Arrays
from maxq.checkers.core.groups import before, order_in
from maxq.checkers.evidence.log import LogFacts
from maxq.histories.columns.rows import OK
from maxq.histories.columns.scan import Ints, Mask
from maxq.histories.history import Reassigned

SENT, POLLED, ENDED, ASSIGNED = range(4)  # kinds of elements
_SLICE = 1 << 18  # elements that are looked at together


class Runs(NamedTuple):
    """Of each run of reading its key, whether it began at the start of the log, and the invocation
    of its seek, -1 where there was none. Numbered by key, process and order."""

    key: Ints
    from_start: Mask
    seek: Ints


def runs_of(a: Arrays, known: LogFacts) -> tuple[Runs, Any, Any]:
    """Cut them. Beside them, of each element its run, and its era: what a process sent in one is
    compared.

    Args:
        a: elements by `key`, in order of judgement.
        known: of the whole history.
    """
    order = order_in(a["key"], a["process"])
    new = np.ones(len(order), np.bool_)
    new[1:] = False
    for name in ("key", "process"):
        column = a[name][order]
        new[1:] |= column[1:] != column[:-1]
        del column
    forgot = new | _forgotten(a, order, known.reassigned)
    assigned = np.flatnonzero(a["kind"][order] == ASSIGNED)
    seeks = np.zeros(len(order), np.bool_)
    seeks[assigned] = a["value"][order[assigned]] != 0
    begins = forgot | seeks
    heads = np.flatnonzero(begins)
    sure = seeks[heads] & (a["type"][order[heads]] == OK)  # another's seek proves nothing
    runs = Runs(
        key=a["key"][order[heads]],
        from_start=np.where(seeks[heads], sure, known.plain),
        seek=np.where(sure, a["begun"][order[heads]], -1),
    )
    run, era = (np.empty(len(order), np.int32) for _ in range(2))  # one of each element
    for numbers, first in ((run, begins), (era, forgot)):
        numbers[order] = np.cumsum(first, dtype=np.int32) - np.int32(1)
    return runs, run, era


def _forgotten(a: Arrays, order: Ints, reassigned: Reassigned) -> Mask:
    """Of elements in an order by process: whether it was assigned something since the last one."""
    found = np.zeros(len(order), np.bool_)
    if not len(reassigned.at) or not len(order):
        return found
    who, when = (np.asarray(column, np.int64) for column in reassigned)
    last = max(int(a["at"].max()), int(when.max())) + 1
    for begin in range(1, len(order), _SLICE):  # it takes several numbers of each
        part = order[begin - 1 : begin + _SLICE]
        process, at, open_ = (a[name][part] for name in ("process", "at", "open"))
        at += last * open_  # what never completed comes last
        since = _last_before(process, at, who, when)
        found[begin : begin + _SLICE] = since[1:] > at[:-1]
    return found


def _last_before(process: Ints, at: Ints, who: Ints, when: Ints) -> Ints:
    """When each process was last assigned something before a time; -1: never."""
    first = np.searchsorted(who, process)
    some = np.flatnonzero(first < len(who))
    some = some[who[first[some]] == process[some]]
    count, begin = before(np.searchsorted(who, who), when, first[some], at[some])
    since = np.full(len(at), -1, np.int64)
    since[some] = np.where(count > 0, when[begin + count - 1], -1)
    return since
