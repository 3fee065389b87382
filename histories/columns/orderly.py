"""Whether a history keeps the rules of well-formedness, by its columns; see
`maxq.histories.history.wellformed`, which says what is wrong where it does not."""

from collections.abc import Mapping
from typing import Any

from maxq.histories.columns.rows import INFO, INVOKE, Outline
from maxq.histories.history import Breach, History, wellformed
from maxq.histories.op import Op
from maxq.histories.text import TYPES


def breaches_of(outline: Outline, others: Mapping[int, Op]) -> list[Breach]:
    """Every breach of W1 to W8, in order of the history.

    Args:
        outline: of the history.
        others: the operations of processes that are no clients, by position.
    """
    if _orderly(outline):
        return []
    return wellformed(History(_op(outline, at, others) for at in range(len(outline.index))))


def _orderly(o: Outline) -> bool:
    """Whether no rule is broken, and nothing is to be warned of."""
    known = o.time if not len(o.time) or o.time.min() >= 0 else o.time[o.time != -1]
    index = o.index
    if (index[:1] < 0).any() or (index[1:] <= index[:-1]).any() or (known[1:] < known[:-1]).any():
        return False  # W1, W8
    if (o.type[~o.client] != INFO).any():
        return False  # W7
    paired = o.pair >= 0
    done = o.client & (o.type != INVOKE)
    if not paired[done].all() or (o.f[done] != o.f[o.pair[done]]).any():
        return False  # W4, W5
    ends = o.client & (((o.type == INVOKE) & ~paired) | (o.type == INFO))
    return not (ends & ~o.last).any()  # W3, W6


def _op(o: Outline, at: int, others: Mapping[int, Op]) -> Op:
    if not o.client[at]:
        return others[at]
    kind: Any = TYPES[o.type[at]]
    process, f = int(o.process[at]), o.names[o.f[at]]
    return Op(kind, process, f, None, None, int(o.index[at]), int(o.time[at]))
