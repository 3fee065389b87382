"""Tells what happened in words: one paragraph that a person understands without the code.

Everything said comes from the history: who answered, when, in which epoch, at which offset, and
which fault came before and after. Times are seconds since the start of the run.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from checkers.log_key import Finding
from histories.history import History
from histories.observed import (
    CHANGE_LEADER,
    ELECT_MASTER,
    LAST_LOOK,
    OBSERVE_CONTROLLER,
    ControllerView,
    decoded,
)
from histories.op import HistoryError, Op
from histories.tables import epoch_of, node_of

TEXT_MAX = 160  # characters of a value quoted from the history
# Of the nemesis, but neither fault nor heal.
QUESTIONS = frozenset(
    ("inspect", "await-recovery", LAST_LOOK, "check-clock-offsets", ELECT_MASTER, CHANGE_LEADER)
)
# What undoes a fault, by its last word: start, resume, heal, stop-partition, reset-clock.
HEALS = re.compile(r"(start|stop|resume|heal|reset|restore)(-.*)?")
# Which heal undoes which fault, where the names alone do not say; several faults may be at work.
UNDONE_BY = {
    "kill": "start",
    "terminate": "start",
    "power-loss": "start",
    "pause": "resume",
    "start-partition": "stop-partition",
    "change-ip": "restore-ip",
    "bump-clock": "reset-clock",
    "start-disk-fault": "stop-disk-fault",
    "start-delay": "stop-delay",
}
UNDONE_BY_ITSELF = frozenset(("restart", "order-election"))
STARTS = re.compile(r"start-.*")  # of Jepsen's packages: the begin of a partition or of bad packets

_ALREADY = {
    "lost-write": "and no ok poll ever returned it, although reading went on past its place",
    "lost-tail": "and it is not in the log that was read to its confirmed end afterwards",
}


class Storyteller:
    """Knows the faults of one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        pairs = ((history.completion(op), op) for op in history.nemesis)
        done = [op for other, op in pairs if other is not None and other.index < op.index]
        self._faults = [op for op in done if op.f not in QUESTIONS and not heals(op.f)]
        self._reigns = _reigns(history)
        self._heals = [op for op in done if op.f not in QUESTIONS and heals(op.f)]

    def fault_before(self, index: int) -> Op | None:
        """The last fault that was complete before this index."""
        at = bisect_left(self._faults, index, key=_index)
        return self._faults[at - 1] if at else None

    def fault_after(self, index: int) -> Op | None:
        """The first fault that was complete after this index."""
        at = bisect_right(self._faults, index, key=_index)
        return self._faults[at] if at < len(self._faults) else None

    def heal_of(self, fault: Op) -> Op | None:
        """The first heal of its kind after a fault that names one of its nodes, or none at all."""
        nodes, wanted = set(_nodes(fault)), UNDONE_BY.get(fault.f)
        for op in self._heals[bisect_right(self._heals, fault.index, key=_index) :]:
            of_its_kind = wanted in (None, op.f)
            if of_its_kind and (not _nodes(op) or nodes & set(_nodes(op))):
                return op
        return None

    def evidence(self, ops: tuple[int, ...]) -> tuple[int, ...]:
        """The operations that prove a finding, with the fault that came before the first."""
        before = self.fault_before(min(ops, default=0))
        return ops if before is None else tuple(sorted({before.index, *ops}))

    def say(self, finding: Finding) -> str:
        """The paragraph, but for the faults around it."""
        d = finding.detail
        if finding.name in _ALREADY:
            text = self._loss(finding)
        else:
            text = f"Queue {finding.key}: {_SAID[finding.name](d)}."
            text += "".join(f" {self._op(index)}." for index in finding.ops[:4])
        return text

    def _loss(self, finding: Finding) -> str:
        d = finding.detail
        sent = self._history[d["writer"]]
        verb = "acknowledged" if sent.type == "ok" else "stored"
        text = (
            f"{self._acknowledger(sent)} {verb} value {d['value']} of queue {finding.key} at "
            f"{_offset(d)}, {when(sent)} (op {sent.index}), {_ALREADY[finding.name]}."
        )
        return text + "".join(f" {self._op(i)}." for i in finding.ops if i != sent.index)

    def _acknowledger(self, sent: Op) -> str:
        """Who answered a send, and in which epoch it reigned, as far as observers knew by then."""
        broker = str((sent.ext or {}).get("broker", ""))
        known = [r for r in self._reigns.get(broker, ()) if r.at < sent.index]
        if not known or epoch_of(sent.ext or {}) is not None:
            return _who(sent)
        told = known[-1]
        later = [r for reigns in self._reigns.values() for r in reigns
                 if r.broker_set == told.broker_set and told.epoch < r.epoch]  # fmt: skip
        deposed = min((r for r in later if r.at < sent.index), default=None)
        since = f", deposed by then (op {deposed.at})" if deposed is not None else ""
        return f"{broker}, master of {told.broker_set} in epoch {told.epoch}{since},"

    def _op(self, index: int) -> str:
        op = self._history[index]
        return f"Op {index}: {op.type} {op.f} by process {op.process}, {when(op)}, {_by(op)}"

    def around(self, index: int) -> str:
        """Which faults came before and after an operation."""
        before, after = self.fault_before(index), self.fault_after(index)
        if before is None and after is None:
            return "There was no fault."
        first = f"The last fault before op {index} was the {self._fault(before)}" if before else ""
        then = f"the next after it was the {self._fault(after)}" if after else "none came after it"
        text = f"{first or f'There was no fault before op {index}'}; {then}."
        others = [_action(op) for op in self.at_work(index) if op is not before]
        return f"{text} Also at work then: the {'; the '.join(others)}." if others else text

    def at_work(self, index: int) -> list[Op]:
        """The faults that were complete before an operation and not yet undone."""
        before = self._faults[: bisect_left(self._faults, index, key=_index)]
        lasting = [f for f in before if f.f not in UNDONE_BY_ITSELF]
        return [f for f in lasting if (heal := self.heal_of(f)) is None or heal.index > index]

    def _fault(self, op: Op) -> str:
        if op.f in UNDONE_BY_ITSELF:
            return _action(op)
        heal = self.heal_of(op)
        healed = f", undone by the {_action(heal)}" if heal else ", never undone"
        return _action(op) + healed


class Reign(NamedTuple):
    """A controller said in operation `at` that a broker is master."""

    at: int
    epoch: int
    broker_set: str


def _reigns(history: History) -> dict[str, list[Reign]]:
    """By the master's address, what controllers said of it, in order."""
    found: dict[str, list[Reign]] = {}
    for op in history.clients:
        if op.f != OBSERVE_CONTROLLER or op.type != "ok":
            continue
        try:
            sets = decoded(op, ControllerView).sets
        except HistoryError:
            continue  # whoever judges it will say so
        for name, view in sets.items():
            if view.master is not None:
                reign = Reign(op.index, view.master_epoch, name)
                found.setdefault(view.master_address, []).append(reign)
    return found


def _skip(d: dict[str, Any]) -> str:
    a, b = d["values"]
    return f"value {b} came right after {a}, past {_listed(d['skipped'])}"


def _back(d: dict[str, Any]) -> str:
    a, b = d["values"]
    return f"value {b} came after {a}, but its place in the log is not behind ({d['delta']:+d})"


def _truncated(d: dict[str, Any]) -> str:
    shown = f"a consumer was shown value {d['value']} at {_offset(d)}"
    if "instead" in d:
        return f"{shown}, and later value {d['instead']} stood there"
    return f"{shown}, and a later reading to the end of the log at {d['end']} had it no more"


_SAID: dict[str, Callable[[dict[str, Any]], str]] = {
    "inconsistent-offsets": lambda d: f"offset {d['offset']} held values {_listed(d['values'])}",
    "duplicate": lambda d: f"value {d['value']} is at offsets {_listed(d['offsets'])}",
    "phantom": lambda d: f"value {d['value']} was polled at {_offset(d)}, and nobody ever sent it",
    "G1a": lambda d: f"value {d['value']} was polled at {_offset(d)}, but its send had failed",
    "precommitted-read": lambda d: f"an operation polled value {d['value']}, which it sent itself",
    "truncation": _truncated,
    "poll-skip": _skip,
    "int-poll-skip": _skip,
    "nonmonotonic-poll": _back,
    "int-nonmonotonic-poll": _back,
    "nonmonotonic-send": _back,
    "int-nonmonotonic-send": _back,
}


def when(op: Op) -> str:
    """The time of an operation, for people."""
    return f"at {op.time / 1e9:.3f} s" if op.time >= 0 else "at an unknown time"


def _offset(d: dict[str, Any]) -> str:
    return "an unknown offset" if d["offset"] is None else f"offset {d['offset']}"


def _who(op: Op) -> str:
    ext = op.ext or {}
    known = (("epoch", epoch_of(ext)), ("grade", ext.get("ack")))
    more = ", ".join(f"{name} {value}" for name, value in known if value is not None)
    node = node_of(ext) or "A broker"
    return f"{node} ({more})" if more else node


def _by(op: Op) -> str:
    node = node_of(op.ext or {})
    return f"answered by {_who(op)}" if node is not None else "no node noted"


def _action(op: Op) -> str:
    nodes = _nodes(op)
    of = f" of {_listed(nodes)}" if nodes else ""
    unsure = "" if nodes or op.error is None else f" ({_short(op.error)})"
    held = all(isinstance(d, dict) and d.get("holds") for d in op.value.values()) if nodes else True
    doubt = "" if held else ", which no probe could prove"
    return f"{op.f}{of} {when(op)} (op {op.index}){unsure}{doubt}"


def _nodes(op: Op) -> list[str]:
    return sorted(map(str, op.value)) if isinstance(op.value, dict) else []


def heals(f: str) -> bool:
    """Whether an action of the nemesis undoes a fault, by its name."""
    return HEALS.fullmatch(f) is not None and STARTS.fullmatch(f) is None


def _index(op: Op) -> int:
    return op.index


def _listed(values: Iterable[Any]) -> str:
    words = [str(v) for v in values]
    return _short(" and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0])


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
