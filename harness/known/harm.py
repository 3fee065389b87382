"""Where an anomaly did its harm, and when: what a line of a log must fit to be its cause.

Of a message that was acknowledged and is gone that is the broker which acknowledged it, the bytes
of the log among which it must lie (by what that broker said of its end before and after), and the
time between the acknowledgement and the operation by which the harm was certain. Other anomalies
name their nodes and bytes themselves, and may have begun at any time before.

Times are ns of the run. Times of day in logs are brought to them by `Clock`: all nodes of a run
write by one clock, in the time zone of their machine.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from maxq.checkers.core.api import Anomaly
from maxq.harness.known.run_artifacts import DAY_S, Event, seconds
from maxq.histories.history import History
from maxq.histories.observed import OBSERVE_REPLICA, ReplicaView, decoded
from maxq.histories.op import Op

ZONE_STEP_S = 900  # time zones differ by quarters of an hour
LISTED = ("values", "messages")
REPLACED = frozenset(("inconsistent-offsets", "duplicate"))
END = 1 << 62  # of a log, where it is unknown


class Harm(NamedTuple):
    """What was harmed. `by` acknowledged what is gone, empty: none, or unknown;
    `nodes` are those that the anomaly names; `low` and `high` bound the bytes."""

    set: str
    by: str
    nodes: frozenset[str]
    since_ns: int  # its acknowledgement, or 0
    until_ns: int  # when it was certain
    low: int
    high: int

    def touches(self, low: int, high: int) -> bool:
        """Whether some of its bytes may lie in a range."""
        return self.low < high and low < self.high


class Clock:
    """From times of day, as logs have them, to ns of a run.

    Args:
        zero_wall_ms: the wall clock at time 0 of the history, in ms since 1970; None: unknown,
            as of runs of older versions.
        logs: of all nodes, which begin soon after.
    """

    def __init__(self, zero_wall_ms: int | None, logs: Mapping[str, Sequence[Event]]) -> None:
        first = [seconds(log[0].at) for log in logs.values() if log]
        self._zero_s: float | None = None
        if zero_wall_ms is not None and first:
            zero_s = zero_wall_ms / 1000 % DAY_S
            later = min((s - zero_s) % DAY_S for s in first)
            # Rounded down: hours of the time zone, and not those that a node waits to be started.
            self._zero_s = zero_s + later // ZONE_STEP_S * ZONE_STEP_S

    @property
    def known(self) -> bool:
        """Whether times are known; not where there are no logs."""
        return self._zero_s is not None

    def ns(self, at: str) -> int | None:
        """The time of an event; None where it is unknown."""
        return None if self._zero_s is None else round((seconds(at) - self._zero_s) % DAY_S * 1e9)


class Sent(NamedTuple):
    """A message that was acknowledged."""

    begun_ns: int
    at_ns: int
    set: str
    broker: str  # its address


class Scene:
    """What a history shows of brokers and of acknowledged messages.

    Args:
        history: of the run.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._views: dict[str, list[tuple[int, int, ReplicaView]]] = defaultdict(list)
        for op in history.of_f(OBSERVE_REPLICA):
            if op.type == "ok":
                begun = history.invocation(op)
                view = decoded(op, ReplicaView)
                self._views[view.node].append((begun.time if begun else op.time, op.time, view))
        self._sent: dict[tuple[int, Any], Sent] = {}
        for op in history.of_f("send"):
            begun = history.invocation(op)
            if op.type == "ok" and begun is not None:
                for key, value in _messages(op):
                    ext = op.ext or {}
                    reported = str(ext.get("node", "")), str(ext.get("broker", ""))
                    self._sent[key, value] = Sent(begun.time, op.time, *reported)

    def set_of(self, node: str) -> str:
        """The broker set of a node; empty: it never answered."""
        views = self._views.get(node)
        return views[0][2].set if views else ""

    def sets_of(self, anomaly: Anomaly) -> set[str]:
        """The broker sets of those that answered in the operations of an anomaly."""
        asked = self.brokers_of(anomaly)
        return {v.set for of in self._views.values() for _, _, v in of if v.address in asked}

    def id_of(self, node: str) -> int | None:
        """The last id that a broker is known to have had."""
        ids = [v.id for _, _, v in self._views.get(node, ()) if v.id is not None]
        return ids[-1] if ids else None

    def end_between(self, node: str, after_ns: int, before_ns: int) -> int | None:
        """The last that a broker said of the end of its log between two times."""
        views = self._views.get(node, ())
        ends = [v.end for begun, done, v in views if after_ns < begun and done < before_ns]
        return ends[-1] if ends else None

    def follows(self, node: str, at_ns: int) -> bool:
        """Whether a broker said last before a time that it does not lead."""
        leads = [v.leads for _, done, v in self._views.get(node, ()) if done <= at_ns]
        return bool(leads) and not leads[-1]

    def brokers_of(self, anomaly: Anomaly) -> set[str]:
        """The addresses that answered in the operations of an anomaly."""
        reported = (op.ext or {} for op in self._ops(anomaly))
        return {str(ext["broker"]) for ext in reported if "broker" in ext}

    def errors(self, anomaly: Anomaly) -> set[str]:
        """By what names the operations of an anomaly failed."""
        failed = (op.error for op in self._ops(anomaly) if op.error)
        return {
            str(error[0]) if isinstance(error, list | tuple) else str(error) for error in failed
        }

    def harms(self, anomaly: Anomaly) -> list[Harm]:
        """What an anomaly harmed: each message that was acknowledged, or what it names."""
        until_ns = max((op.time for op in self._ops(anomaly)), default=0)
        sent = [self._sent[m] for m in _named(anomaly.detail) if m in self._sent]
        if anomaly.name in REPLACED:  # the later ones stand in the place of the first
            sent = sorted([*sent, *self._shown(anomaly)], key=lambda s: s.at_ns)[:1]
        sent = sent or self._shown(anomaly)[:1]
        if not sent:
            return [self._named_by(anomaly.detail, until_ns)]
        nodes = _nodes(anomaly.detail)
        return [self._lost(message, nodes, until_ns) for message in sent]

    def span_ns(self, anomaly: Anomaly) -> tuple[int, int]:
        """When the first and the last of its operations ended."""
        times = [op.time for op in self._ops(anomaly)]
        return min(times, default=0), max(times, default=0)

    def _ops(self, anomaly: Anomaly) -> Iterator[Op]:
        for index in anomaly.ops:
            with suppress(KeyError):
                yield self._history[index]

    def _shown(self, anomaly: Anomaly) -> list[Sent]:
        """What was shown to consumers and perhaps never acknowledged: by whom, and when."""
        shown = []
        for op in self._ops(anomaly):
            ext = op.ext or {}
            if op.f == "poll" and op.type == "ok" and "broker" in ext:
                shown.append(Sent(0, op.time, str(ext.get("node", "")), str(ext["broker"])))
        return shown

    def _lost(self, sent: Sent, nodes: frozenset[str], until_ns: int) -> Harm:
        by, low, high = "", 0, END
        for node, views in self._views.items():
            where = [v for v in views if v[2].address == sent.broker and v[2].set == sent.set]
            before = [v.end for _, done_ns, v in where if done_ns < sent.begun_ns]
            after = [v.end for begun_ns, _, v in where if begun_ns > sent.at_ns]
            if where and (not by or before):
                by = node
                low = before[-1] if before else 0
                high = max(after[0], low + 1) if after else END
        return Harm(sent.set, by, nodes, sent.at_ns, until_ns, low, high)

    def _named_by(self, detail: Mapping[str, Any], until_ns: int) -> Harm:
        nodes = _nodes(detail)
        name = str(detail.get("set") or next((self.set_of(n) for n in sorted(nodes)), ""))
        low, high = _bytes(detail)
        return Harm(name, "", nodes, 0, until_ns, low, high)


def _messages(op: Op) -> Iterator[tuple[int, Any]]:
    """Key and value of each message of a send."""
    for part in op.value if isinstance(op.value, list | tuple) else ():
        match part:
            case ["send", int(key), [_, value]] | ("send", int(key), (_, value)):
                yield key, value
            case ["send", int(key), value] | ("send", int(key), value):
                yield key, value


def _named(detail: Mapping[str, Any]) -> Iterator[tuple[int, Any]]:
    """Key and value of each message that an anomaly names."""
    key = detail.get("key")
    if not isinstance(key, int):
        return
    values: Iterable[Any] = [detail["value"]] if "value" in detail else []
    values = [*values, *(v for name in LISTED for v in detail.get(name) or ())]
    yield from ((key, v) for v in values if isinstance(v, int | str))


def _nodes(detail: Mapping[str, Any]) -> frozenset[str]:
    one = [detail[k] for k in ("node", "owner", "reader") if isinstance(detail.get(k), str)]
    many: Collection[Any] = detail.get("nodes") or ()
    return frozenset(map(str, [*one, *many]))


def _bytes(detail: Mapping[str, Any]) -> tuple[int, int]:
    """Which bytes of a log an anomaly of replicas is about; all, where it does not say."""
    match detail:
        case {"offset": int(offset), "start": int()}:
            return offset, END
        case {"end": int(end), "confirmed": int(confirmed)}:
            return end, max(confirmed, end + 1)
        case {"epochs": [[_, int(a), int(b)], [_, int(c), int(d)]]}:
            return max(a, c), min(b, d)
    return 0, END
