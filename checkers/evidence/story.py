"""Tells what happened in words: one paragraph that a person understands without the code.

Everything said comes from the history: who answered, when, in which epoch, at which offset, and
which fault came before and after. Times are seconds since the start of the run.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from maxq.checkers.core.elements import epoch_of, node_of
from maxq.checkers.evidence.acts import Act, acts_of
from maxq.checkers.evidence.eras import eras_of
from maxq.checkers.evidence.faults import Fault
from maxq.checkers.evidence.log_key import Finding
from maxq.checkers.evidence.observations import NEVER, Number
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_CONTROLLER, ControllerView, decoded
from maxq.histories.op import HistoryError, Op

TEXT_MAX = 160  # characters of a value quoted from the history
_ALREADY = {
    "lost-write": "No ok poll ever returned it, although reading went on past its place",
    "lost-tail": "It is not in the log that was read to its confirmed end afterwards",
}


class Storyteller:
    """Knows the acts of one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._acts = [act for act in acts_of(history) if act.fault.ended is not None]
        self._reigns = _reigns(history)

    def evidence(self, claim: str, ops: tuple[int, ...], of: str) -> tuple[int, ...]:
        """The operations that prove an anomaly of a claim, with the act that came before the first
        and may have to do with it; `of` is the broker set that it is about, if it is about one."""
        before, _ = self._nearest(min(ops, default=0), claim, of)
        return ops if before is None else tuple(sorted({_ended(before), *ops}))

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
            f"{_offset(d)}, {when(sent)} (op {sent.index}). {_ALREADY[finding.name]}."
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
        return f"{broker}, master of {told.broker_set} in epoch {told.epoch[1]}{since},"

    def _op(self, index: int) -> str:
        op = self._history[index]
        return f"Op {index}: {op.type} {op.f} by process {op.process}, {when(op)}, {_by(op)}"

    def around(self, index: int, claim: str = "", of: str = "") -> str:
        """Which acts came before and after an operation, of those that may have to do with it: on
        name servers only where the claim is about them, on brokers of the same set."""
        before, after = self._nearest(index, claim, of)
        struck = f"struck {f'broker set {of}' if of else 'a broker'}"
        if before is None and after is None:
            return f"No fault {struck}." if self._acts else "There was no fault."
        # Of faults elsewhere nothing is said but that they were.
        earlier = any(_ended(act) < index for act in self._acts)
        later = any(_ended(act) > index for act in self._acts)
        first = f"No fault before op {index} {struck}." if earlier else ""
        if before is not None:
            first = f"The last fault before op {index} was the {self._told(before)}"
        then = f"None after it {struck}." if later else "None came after it."
        if after is not None:
            then = f"The next after it was the {self._told(after)}"
        text = f"{first or f'There was no fault before op {index}.'} {then}"
        others = [act for act in self._at_work(index, claim, of) if act is not before]
        told = "; the ".join(self._done(act) for act in others)
        return f"{text} Also in effect then: the {told}." if told else text

    def _nearest(self, index: int, claim: str, of: str) -> tuple[Act | None, Act | None]:
        acts = [act for act in self._acts if concerns(act, claim, of)]
        at = bisect_left(acts, index, key=_ended)
        after = next((act for act in acts[at:] if _ended(act) > index), None)
        return (acts[at - 1] if at else None), after

    def _at_work(self, index: int, claim: str, of: str) -> list[Act]:
        """The acts that had been done before an operation and were not yet undone."""
        return [
            act
            for act in self._acts
            if _ended(act) < index
            and not act.fault.passes
            and concerns(act, claim, of)
            and any(act.over(node) > index for node in act.nodes)
        ]

    def act(self, act: Act) -> str:
        """An act in words: what was done to whom, and when it was undone."""
        if act.fault.ended is None:
            return f"{act.f} at {act.fault.begun_ns / 1e9:.3f} s (op {act.begun}), never completed"
        said = self._done(act)
        if act.fault.passes:
            return said
        last, more = _last_heal(act)
        if last is None:
            return f"{said}, never undone"
        return f"{said}, undone {'at the latest ' if more else ''}by the {_healing(last)}"

    def _told(self, act: Act) -> str:
        """The same of an act that was done, in sentences."""
        said = f"{self._done(act)}."
        if act.fault.passes:
            return said
        last, more = _last_heal(act)
        if last is None:
            return f"{said} Nothing undid it."
        return f"{said} The {_healing(last)} undid {'the last of it' if more else 'it'}."

    def _done(self, act: Act) -> str:
        return _action(self._history[_ended(act)], cut=act.effect == "cut")

    def moment(self, index: int) -> str:
        """Where something was first seen; empty where it never was."""
        if index >= NEVER:
            return ""
        op = self._history[index]
        return f" ({when(op).removeprefix('at ')}, op {index})"


def _last_heal(act: Act) -> tuple[Fault | None, bool]:
    """What undid an act last, and whether something had undone a part of it before."""
    heals = {heal.ended: heal for heal in act.healed.values() if heal.ended is not None}
    return (heals[max(heals)] if heals else None), len(heals) > 1


class Reign(NamedTuple):
    """A controller said in operation `at` that a broker is master."""

    at: int
    epoch: Number
    broker_set: str


def _reigns(history: History) -> dict[str, list[Reign]]:
    """By the master's address, what controllers said of it, in order."""
    found: dict[str, list[Reign]] = {}
    eras = eras_of(history)
    for op in history.clients:
        if op.f != OBSERVE_CONTROLLER or op.type != "ok":
            continue
        try:
            sets = decoded(op, ControllerView).sets
        except HistoryError:
            continue  # whoever judges it will say so
        for name, view in sets.items():
            if view.master is not None:
                reign = Reign(op.index, (eras.of(op.index), view.master_epoch), name)
                found.setdefault(view.master_address, []).append(reign)
    return found


def _skip(d: dict[str, Any]) -> str:
    a, b = d["values"]
    return f"value {b} came right after {a}, past {_listed(d['skipped'])}"


def _back(d: dict[str, Any]) -> str:
    a, b = d["values"]
    return f"value {b} came after {a}, but its place in the log is not behind ({d['delta']:+d})"


def _circle(d: dict[str, Any]) -> str:
    ops = [op for op, _ in d["cycle"]]
    ways = [
        f"op {two} polled what op {one} sent to queue {key}"
        for (one, key), two in zip(d["cycle"], [*ops[1:], ops[0]], strict=True)
    ]
    return f"operations polled each other's messages in a circle: {', '.join(ways)}"


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
    "G1c": _circle,
    "G1c-realtime": lambda d: f"value {d['value']} was polled before its send had begun",
    "truncation": _truncated,
    "poll-skip": _skip,
    "int-poll-skip": _skip,
    "nonmonotonic-poll": _back,
    "int-nonmonotonic-poll": _back,
    "nonmonotonic-send": _back,
    "int-nonmonotonic-send": _back,
    "order": lambda d: (
        f"a consumer was shown value {d['values'][0]} after {d['values'][1]}, although process "
        f"{d['producer']} sent it before"
    ),
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


def _action(op: Op, *, cut: bool) -> str:
    nodes = _nodes(op)
    of = f" of {_parted(op) if cut else _listed(nodes)}" if nodes else ""
    unsure = "" if nodes or op.error is None else f" ({_short(op.error)})"
    held = all(isinstance(d, dict) and d.get("holds") for d in op.value.values()) if nodes else True
    doubt = "" if held else ", which no probe could prove"
    return f"{op.f}{of} {when(op)} (op {op.index}){unsure}{doubt}"


def _parted(op: Op) -> str:
    """Whom a cut parts from whom, the node first that all of it is about, if there is one."""
    edges = {(str(to), str(source)) for to, what in op.value.items() if isinstance(what, dict)
             for source in what.get("from", ())}  # fmt: skip
    nodes = sorted({node for edge in edges for node in edge})
    middle = next((n for n in nodes if edges and all(n in edge for edge in edges)), None)
    if middle is None:
        return _listed(_nodes(op))
    others = [n for n in nodes if n != middle]
    one_way = len({to == middle for to, _ in edges}) == 1 and len(edges) == len(others)
    if one_way and edges and next(iter(edges))[0] == middle:
        return f"{middle}, which did not hear {_listed(others)}"
    if one_way:
        return f"{middle}, which {_listed(others)} did not hear"
    return f"{middle} from {_listed(others)}"


def _healing(heal: Fault) -> str:
    of = f" of {_listed(heal.nodes)}" if heal.nodes and not heal.cuts else ""
    ended_ns = heal.begun_ns if heal.ended_ns is None else heal.ended_ns
    return f"{heal.f}{of} at {ended_ns / 1e9:.3f} s (op {heal.ended})"


def concerns(act: Act, claim: str, of: str) -> bool:
    """Whether an act may have to do with an anomaly of a claim, about a broker set if given."""
    nodes = [n for n in act.nodes if not n.startswith("n") or claim.startswith("N")]
    brokers = [n for n in nodes if "-" in n]
    if not act.nodes:  # nobody knows whom it struck
        return True
    return bool(nodes) and (not of or not brokers or any(n.startswith(f"{of}-") for n in brokers))


def _ended(act: Act) -> int:
    return act.begun if act.fault.ended is None else act.fault.ended


def _nodes(op: Op) -> list[str]:
    return sorted(map(str, op.value)) if isinstance(op.value, dict) else []


def _index(op: Op) -> int:
    return op.index


def _listed(values: Iterable[Any]) -> str:
    words = [str(v) for v in values]
    return _short(" and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0])


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"
