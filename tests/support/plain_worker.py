"""What a worker of a cluster does with a history's rows and a key's arrays, in a process that is
nothing else.

`python plain_worker.py` reads pickled jobs from stdin, each the name of a step with its arguments,
and writes their answers with the names of all modules that were needed. What it keeps of a key
between two pieces it gives away as bytes, and takes back.

It imports what a worker needs and nothing of the tests, so that those names say something.
"""

import pickle
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from maxq.checkers.core.columnar import Arrays, Dealing, KeyArrays, Named, judged_groups

_PICKLED = {b"pickled": b""}  # marks a column of objects that Arrow has no type for


def table_of(arrays: Arrays) -> pa.RecordBatch:
    """A key's arrays, or a part of them, as Arrow has them."""
    columns: list[Any] = []
    fields: list[Any] = []
    for name, column in arrays.items():
        found: Any
        pickled = None
        if column.dtype != object:
            found = pa.array(column)
        elif all(each is None or isinstance(each, str) for each in column.tolist()):
            found = pa.array(column.tolist(), pa.string())
        else:
            found, pickled = pa.array(map(pickle.dumps, column.tolist()), pa.binary()), _PICKLED
        columns.append(found)
        fields.append(pa.field(name, found.type, metadata=pickled))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def arrays_of(table: pa.RecordBatch) -> Arrays:
    """The same for numpy; numbers are not copied, and cannot be written to."""
    found: Arrays = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        if field.metadata is not None:
            objects = np.empty(len(column), object)
            objects[:] = [None if text is None else pickle.loads(text)
                          for text in column.to_pylist()]  # fmt: skip
            found[field.name] = objects
        else:
            plain = pa.types.is_string(field.type) or pa.types.is_boolean(field.type)
            found[field.name] = column.to_numpy(zero_copy_only=not plain)
    return found


def sent(table: pa.RecordBatch) -> bytes:
    """As it travels."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_batch(table)
    return sink.getvalue().to_pybytes()


def deal(check: Any, known: Any, rows: Any) -> Dealing:
    """What one piece of a history says of which keys."""
    chosen = np.flatnonzero(rows.client & rows.of(check.reads))
    found: Dealing = check.columns(rows, chosen, known)
    return found


def take(state: bytes, number: int, named: Named, piece: bytes) -> bytes:
    """Take the next piece of a key's arrays, that key being this number in `Dealing.key`."""
    held: KeyArrays = pickle.loads(state) if state else KeyArrays()
    (table,) = pa.ipc.open_stream(piece)
    key = np.full(len(table), number, np.int64)
    nothing = np.zeros(0, np.int64)
    held.take(Dealing(key, nothing, arrays_of(table), nothing, names=named[0], prefix=named[1]))
    return pickle.dumps(held)


def judge(check: Any, key: Any, known: Any, more: Any, state: bytes) -> Any:
    """The key's answer."""
    (answer,) = judged_groups(check, pickle.loads(state).groups(), known)
    return answer


def hear(check: Any, key: Any, known: Any, state: bytes, events: Sequence[Any]) -> bytes:
    """Take the next piece of a history, of whose rows those of one key are kept."""
    held = pickle.loads(state) if state else []
    held += [row for event in events for of, row in check.rows(event, known) if of == key]
    return pickle.dumps(held)


def judge_rows(check: Any, key: Any, known: Any, more: Any, state: bytes) -> Any:
    """The answer of a key that is left to its rows."""
    return check.judge(key, pickle.loads(state), known, more)


STEPS = {step.__name__: step for step in (deal, take, judge, hear, judge_rows)}


def main() -> None:
    answers = [STEPS[name](*arguments) for name, arguments in pickle.load(sys.stdin.buffer)]
    pickle.dump((answers, sorted(sys.modules)), sys.stdout.buffer)


if __name__ == "__main__":
    main()
