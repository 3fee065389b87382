"""A history as a model takes it: the names and the values that people write for its operations.

Jepsen's tests of independent keys give every operation the value [key value], and ask for a read as
[key nil]: these become calls on each key. An operation that a model does not know leaves open what
happened to the object, unless it failed or only observed.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import msgspec

from maxq.checkers.linearizability.model import Model
from maxq.histories.history import History
from maxq.histories.observed import BESIDE
from maxq.histories.op import HistoryError, Op

COMPARES = ("cas", "compare-and-set", "compare-and-swap")  # also written as [key old new]
TUPLE = {"key", "value"}  # of an independent key, printed as a record


class Intake(NamedTuple):
    """What is said of a history beside its model.

    `independent` is whether values are [key value]; None: found out. `ignored` are operations that
    change nothing, though the model does not know them. `initial` is what an object begins with;
    None: what the model says; SHOWN_FIRST: what is shown first and nobody wrote.
    """

    independent: bool | None = None
    ignored: Collection[str] = frozenset()
    initial: Any = None


class Taking:
    """Takes the operations of one history for one model."""

    def __init__(self, model: Model, history: History, how: Intake) -> None:
        self._model = model
        self._ignored = how.ignored
        found = model.by_key and has_independent_keys(op for op in history if op.is_client)
        self.independent = found if how.independent is None else how.independent

    def pair(self, begun: Op, ended: Op | None) -> tuple[Op, Op | None]:
        """An invocation and its completion, under the model's names.

        Raises:
            HistoryError: an operation has no key, and was said to have one.
        """
        f = self._model.synonyms.get(begun.f, begun.f)
        if self.independent:
            begun = _with_key(begun)
            ended = None if ended is None else _with_key(ended, (begun.ext or {})["key"])
        value = _asked(begun, ended) if f in self._model.asks else begun.value
        if f != begun.f or value is not begun.value:
            begun = msgspec.structs.replace(begun, f=f, value=value)
        return begun, ended

    def leaves_open(self, begun: Op, ended: Op | None) -> bool:
        """Whether an operation that the model does not know may have changed an object."""
        if ended is not None and ended.type == "fail":
            return False
        known = (self._ignored, self._model.harmless, BESIDE)
        return not any(begun.f in names for names in known)


class Others:
    """The operations that a model does not know: `passed` counts all by name, `open_names` those
    that may have changed something."""

    def __init__(self) -> None:
        self.passed, self.open_names = Counter[str](), Counter[str]()

    def add(self, taking: Taking, begun: Op, ended: Op | None) -> None:
        """Count one."""
        self.passed[begun.f] += 1
        if taking.leaves_open(begun, ended):
            self.open_names[begun.f] += 1

    def why(self, model: Model) -> str:
        """Why nothing can be said of the whole."""
        names = ", ".join(f"{count:,} {f}" for f, count in sorted(self.open_names.items()))
        ignore = ",".join(sorted(self.open_names))
        return (f"{model.name} does not know {names}, which may have changed what is judged "
                f"(--ignore {ignore}, if not)")  # fmt: skip


def has_independent_keys(ops: Iterable[Op]) -> bool:
    """Whether all values are [key value], of which some operation asks for [key nil].

    Without the latter nobody can tell them from values that are pairs.
    """
    asks = False
    for op in ops:
        pair = _pair(op)
        if pair is None or "key" in (op.ext or {}):
            if op.value is None and op.type in ("fail", "info"):
                continue  # as clients write an operation that failed
            return False
        asks = asks or (op.type == "invoke" and pair[1] is None)
    return asks


def _pair(op: Op) -> tuple[Any, Any] | None:
    value = op.value
    if isinstance(value, list | tuple) and len(value) == 2:
        return value[0], value[1]
    if isinstance(value, list | tuple) and len(value) == 3 and op.f in COMPARES:
        return value[0], list(value[1:])
    if isinstance(value, dict) and value.keys() == TUPLE:
        return value["key"], value["value"]
    return None


def _with_key(op: Op, key: Any = None) -> Op:
    pair = _pair(op)
    if pair is None:
        if op.value is not None or op.type in ("invoke", "ok"):
            raise HistoryError(f"op {op.index}: {op.f} wants [key value], not {op.value!r:.100}")
        pair = key, None
    return msgspec.structs.replace(op, value=pair[1], ext={**(op.ext or {}), "key": pair[0]})


def _asked(begun: Op, ended: Op | None) -> Any:
    """What an operation asked for: as Knossos has it, what the completion says, if that can be."""
    if ended is None or ended.type != "ok" or ended.value is None:
        return begun.value
    alike = begun.value is None or type(ended.value) is type(begun.value)
    return ended.value if alike else begun.value
