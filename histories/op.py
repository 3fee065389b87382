"""The operation: one event of a history, and the words it is made of.

A history is a totally ordered list of operations. Each logical operation appears twice, as an
invocation and as a completion; the order of the list is the only order checkers may rely on.
`fail` needs proof that nothing happened; whatever is unsure is `info`.

Field semantics follow Jepsen's (jepsen-io/history), so that its checkers read our histories.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import msgspec

OpType = Literal["invoke", "ok", "fail", "info"]
Process = int | str  # an integer is a client or observer; "nemesis" is the fault injector
NEMESIS = "nemesis"
# In the `ext` of a completion without an answer: what became of it, as logs read at rest show.
RESOLVED, COMMITTED, ABSENT = "resolved", "committed", "absent"


Progress = Callable[[int], None]  # is given how many bytes more of a file have been read


class HistoryError(ValueError):
    """A stored history that cannot be trusted: damaged, or not a history at all."""


class Op(msgspec.Struct, frozen=True, omit_defaults=False, forbid_unknown_fields=True):
    """One event.

    `index` is dense from 0; -1 until recorded. `time` is nanoseconds since the start of the run on
    the harness's monotonic clock; -1 if unknown. `value` is the argument on invocation and the
    result on completion, in the shape its workload documents; it holds None, bool, int, float,
    str, list, dict and nothing else (dict keys may be int), and a frozenset where an imported
    history has a set. `ext` holds every other key; an empty one and None mean the same.
    """

    type: OpType
    process: Process
    f: str
    value: Any = None
    error: Any = None
    index: int = -1
    time: int = -1
    ext: dict[str, Any] | None = None

    @property
    def is_client(self) -> bool:
        return isinstance(self.process, int)


Held = Callable[[Iterable[Op]], Sequence[Op]]  # how the operations of a history are kept


@contextmanager
def without_cycles() -> Iterator[None]:
    """Without the search for cycles of garbage, which would look at every operation held again and
    again: half of the time of a large history. Operations hold no cycles."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
