"""What was recorded beside the values of operations (`ext`), which is the same for most of them.

An acknowledged send also says where in the log it is (``byte``), so that no two of their texts are
equal. That number is cut out; nothing that is looked for by way of this module depends on it.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxq.histories.columns.rows import Rows
from maxq.histories.columns.scan import Ints
from maxq.histories.text import decode_value

_NUMBERED = '"byte":'
_DIGITS = "0123456789"


class Beside(NamedTuple):
    """The different things that were said, and which of them each row says."""

    said: list[dict[str, Any]]
    code: Ints


def beside(rows: Rows, chosen: Ints) -> Beside:
    """What was recorded beside the values of some rows, but for ``byte``.

    Raises:
        HistoryError: a text is no JSON.
    """
    texts, code = rows.once(_encoded)
    mine = code[chosen]
    used = np.flatnonzero(np.bincount(mine + 1)[1:])
    said: list[dict[str, Any]] = [{}]
    for text in texts.take(pa.array(used)).to_pylist():
        found = decode_value(str(text))
        said.append(found if isinstance(found, dict) else {})
    return Beside(said, np.where(mine >= 0, np.searchsorted(used, mine) + 1, 0))


def _encoded(rows: Rows) -> tuple[Any, Ints]:
    """The different texts of a batch, and which of them each row has; -1: none."""
    texts: Any = rows.exts(np.arange(len(rows)))
    if pc.any(pc.match_substring(texts, _NUMBERED)).as_py():
        texts = _cut(texts)
    encoded = texts.dictionary_encode()
    code = np.asarray(encoded.indices.fill_null(-1).to_numpy(), np.int64)
    return encoded.dictionary, code


def _cut(texts: pa.StringArray) -> Any:
    """Texts with 0 for each such number that is a whole one."""
    parts: Any = pc.split_pattern(texts, _NUMBERED, max_splits=1)
    two: Any = pc.equal(pc.list_value_length(parts), pa.scalar(2))
    parts = pc.if_else(two, parts, pa.scalar(["", ""], parts.type))
    before, behind = pc.list_element(parts, 0), pc.list_element(parts, 1)
    rest: Any = pc.ascii_ltrim(behind, characters=_DIGITS)
    whole = pc.and_(
        pc.less(pc.binary_length(rest), pc.binary_length(behind)),
        pc.or_(pc.starts_with(rest, ","), pc.starts_with(rest, "}")),
    )
    joined = pc.binary_join_element_wise(before, rest, f"{_NUMBERED}0")
    return pc.if_else(pc.and_(two, whole), joined, texts)
