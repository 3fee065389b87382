"""What was recorded beside the values of operations (`ext`), which is the same for most of them but
for ``byte``, on which nothing depends that is looked for by way of this module."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from maxq.histories.columns.rows import Rows
from maxq.histories.columns.scan import Ints
from maxq.histories.text import decode_value


class Beside(NamedTuple):
    """The different things that were said, and which of them each row says."""

    said: list[dict[str, Any]]
    code: Ints


def beside(rows: Rows, chosen: Ints) -> Beside:
    """What was recorded beside the values of some rows, but for ``byte``.

    Raises:
        HistoryError: a text is no JSON.
    """
    texts, code = rows.beside()
    mine = code[chosen]
    used = np.flatnonzero(np.bincount(mine + 1)[1:])
    said: list[dict[str, Any]] = [{}]
    for text in texts.take(pa.array(used)).to_pylist():
        found = decode_value(str(text))
        said.append(found if isinstance(found, dict) else {})
    return Beside(said, np.where(mine >= 0, np.searchsorted(used, mine) + 1, 0))
