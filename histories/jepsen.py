"""Histories as Jepsen keeps them: ``history.edn``, an operation a line, in both directions.

We have no keywords: the position of a string says whether it is one (see `maxq.histories.text`).
Written as keywords are `type`, `f`, a process that is no number, the names of keys, and the names
that begin the parts of a `send`, `poll` or `txn`. Whatever else an imported history has as a
keyword stays one. So what we recorded comes back equal; of a foreign history tags, records and the
difference of lists and vectors are lost, and a string as a key of a map becomes a keyword where it
can be one.

Source: docs/spec/history-format.md 8 and 9.3.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from maxq.histories.aliases import current_f
from maxq.histories.edn import Keyword, name_of, to_edn
from maxq.histories.edn_read import read_edn
from maxq.histories.op import HistoryError, Op
from maxq.histories.text import FIXED, RESERVED, TYPES, check_numbers

MICRO = frozenset(("send", "poll", "txn"))  # whose values are vectors of [:name ...]


def encode_edn(ops: Iterable[Op]) -> bytes:
    """The file.

    Raises:
        ValueError: a value is none that a history may hold.
    """
    return "".join(f"{to_edn(_form(op))}\n" for op in ops).encode()


def _form(op: Op) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "index": op.index,
        "time": op.time,
        "type": Keyword(op.type),
        "process": op.process if op.is_client else name_of(str(op.process)),
        "f": name_of(op.f),
        "value": _micro(op.value) if op.f in MICRO else op.value,
    }
    if op.error is not None:
        fields["error"] = op.error
    for key, value in sorted((op.ext or {}).items()):
        if key in RESERVED:
            raise ValueError(f"ext redefines a key of the operation: {key}")
        fields[key] = value
    return fields


def _micro(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    return [
        [name_of(part[0]), *part[1:]]
        if isinstance(part, list | tuple) and part and type(part[0]) is str
        else part
        for part in value
    ]


def ops_of(path: Path) -> Iterator[Op]:
    """The operations of a file, one by one: a form each, or all in one vector or list. Where the
    text is no EDN that is what is wrong, also if an operation before it is none.

    Raises:
        HistoryError: it is no history, maybe after some operations; with the line, or the number of
            the operation.
    """
    wrong: HistoryError | None = None
    forms = _forms(path)
    try:
        try:
            yield from ops_of_forms(forms)
        except HistoryError as error:
            wrong = error
        for _ in forms:  # raises where the text ends early
            pass
    except HistoryError as error:
        wrong = error
    if wrong is not None:
        raise HistoryError(f"{path.name}: {wrong}")


def ops_of_forms(forms: Iterable[Any]) -> Iterator[Op]:
    """The operations that forms are, one by one.

    Raises:
        HistoryError: one is none; with its number.
    """
    indexed, nameless, beside = False, False, 2
    for at, form in enumerate(forms):
        if at == 0 and isinstance(form, dict):  # as upstream: the first shows what is there
            indexed = type(form.get("index")) is int
            nameless = "process" not in form
            beside = 2 if form.get("type") == "invoke" else 1
        if nameless and isinstance(form, dict):  # a call and its answer stand side by side
            form = {"process": at // beside, **form}
        try:
            yield op_of_form(form, None if indexed else at)
        except HistoryError as error:
            raise HistoryError(f"operation {at}: {error}") from None


def _forms(path: Path) -> Iterator[Any]:
    data = path.read_bytes()
    try:
        forms = read_edn(data.decode("utf-8-sig"))
        first = list(islice(forms, 2))
        if len(first) == 1 and isinstance(first[0], list):
            yield from first[0]
        else:
            yield from first
            yield from forms
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise HistoryError(f"line {line}: not UTF-8: {error.reason}") from None


def op_of_form(form: Any, index: int | None) -> Op:
    """The operation that a form is.

    Args:
        form: a map.
        index: of the operation; None: as the form says.

    Raises:
        HistoryError: it is none.
    """
    if not isinstance(form, dict):
        raise HistoryError(f"no map: {form!r:.100}")
    fields = dict(form)
    index = fields.pop("index", None) if index is None else index
    if type(index) is not int:
        raise HistoryError("no :index, and others have one")
    op_type, process, f = (fields.pop(key, None) for key in ("type", "process", "f"))
    if not isinstance(op_type, str) or str(op_type) not in TYPES:
        raise HistoryError(f"unknown :type {op_type!r}")
    if type(process) is not int and not isinstance(process, str):
        raise HistoryError(f":process is neither a number nor a name: {process!r}")
    time, value, error = (fields.pop(key, None) for key in ("time", "value", "error"))
    if time is not None and type(time) is not int:
        raise HistoryError(f":time is no integer: {time!r}")
    check_numbers(index, -1 if time is None else time, process)
    fields.pop("index", None)
    strange = [key for key in fields if type(key) is not str or key in FIXED]
    if strange:
        raise HistoryError(f"a key that is no keyword: {strange[0]!r}")
    process = process if type(process) is int else str(process)
    f = "" if f is None else current_f(str(f), process)
    return Op(
        type=str(op_type),  # type: ignore[arg-type]
        process=process,
        f=f,
        value=_plain_micro(value) if f in MICRO else value,
        error=error,
        index=index,
        time=-1 if time is None else time,
        ext=fields or None,
    )


def _plain_micro(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [
        [str(part[0]), *part[1:]]
        if isinstance(part, list) and part and isinstance(part[0], Keyword)
        else part
        for part in value
    ]
