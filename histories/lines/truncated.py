"""What can be read of a foreign history that was cut off, or is damaged: all before the damage.

EDN and JSON, a form after the other or in one vector whose end is missing.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from maxq.histories.edn_read import read_edn
from maxq.histories.jepsen import ops_of, ops_of_forms
from maxq.histories.op import HistoryError, Op

Part = tuple[tuple[Op, ...], str]  # the operations, and what is wrong behind them; empty: nothing


def _edn(path: Path) -> Part:
    """Of Jepsen's EDN."""
    found, damage = _until_wrong(ops_of(path))
    if found or not damage:
        return found, damage
    text = path.read_bytes().decode("utf-8-sig", errors="replace").lstrip()
    found, later = _until_wrong(
        ops_of_forms(read_edn(text[1:] if text[:1] in ("[", "(") else text))
    )
    return found, later or damage


def _json(path: Path) -> Part:
    """Of a vector of maps."""
    text = path.read_bytes().decode("utf-8-sig", errors="replace")
    return _until_wrong(ops_of_forms(_forms(text)))


def _forms(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    start = text.find("[") + 1
    while (start := _behind_commas(text, start)) < len(text) and text[start] != "]":
        try:
            form, start = decoder.raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError) as error:
            raise HistoryError(str(error)) from None
        yield form
    if start >= len(text):
        raise HistoryError("the end of the vector is missing")


def _behind_commas(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _until_wrong(ops: Iterator[Op]) -> Part:
    found: list[Op] = []
    try:
        for op in ops:
            found.append(op)
    except HistoryError as error:
        return tuple(found), str(error)
    return tuple(found), ""


READABLE: Mapping[str, Callable[[Path], Part]] = {"edn": _edn, "json": _json}
