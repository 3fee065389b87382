"""What is wrong with logs that are sent to and polled: anomalies by the names of Jepsen's checker.

Offsets may have gaps, and no order of real time is asked for. What a consumer was shown counts
whatever happened to its operation; what was sent counts if the operation was acknowledged, or if
some of it was polled.

Source: docs/spec/checkers.md 2.2.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, OK, OPEN, Call
from maxq.checkers.models.logs.copies import (
    ASSIGN,
    POLL,
    SEND,
    Message,
    Part,
    readings,
)
from maxq.checkers.transactions.components import components, cyclic

READINGS_MAX = 32  # of which values sent again were polled; above them nothing is said, ...
CALLS_MAX = 100_000  # ... unless all of them have no more calls than this
UNSEEN = "unseen"  # the name of what was sent, and shown by no poll


class Found(NamedTuple):
    """An anomaly, and calls that show it; `lasting` is False where nobody can say yet."""

    name: str
    why: str
    calls: tuple[Call, ...]
    lasting: bool = True


def anomalies(every: Sequence[Call]) -> list[Found]:
    """All that are wrong, one of each name, the worst first.

    Args:
        every: sends, polls and transactions of both with their parts in `result`, in `other` the
            keys that were dealt anew meanwhile; assignments with keys in `argument`, and in `other`
            whether they seek. Ascending by their begins.
    """
    most = max(READINGS_MAX, CALLS_MAX // max(len(every), 1))
    found = [_of_reading(one) for one in islice(readings(every), most)]
    broken = [one for one in found if any(anomaly.lasting for anomaly in one)]
    if len(broken) in (0, len(found)) and len(found) < most:
        return max(found, key=len)
    why = "values were sent again, and offsets do not say which of them were polled"
    shown = [one for some in broken[:1] for one in some if one.lasting][:1]
    why += "".join(f"; perhaps {one.why}" for one in shown)
    return [Found("sent-again", why, shown[0].calls if shown else (), lasting=False)]


def _of_reading(every: Sequence[Call]) -> list[Found]:
    log = _Log([call for call in every if call.kind != ASSIGN])
    steps = _Steps(log, every)
    found = [*log.sources(), *log.offsets(), *log.losses(), *log.cycles(), *steps.found,
             *log.unseen()]  # fmt: skip
    return list({one.name: one for one in reversed(found)}.values())[::-1]


def parts(call: Call, f: str) -> list[Part]:
    """What a call sent, or polled, in order."""
    return [Part(*part) for part in call.result or () if part[0] == f]


class _Log:
    """All that is known of all logs."""

    def __init__(self, every: Sequence[Call]) -> None:
        self._every = every
        self._writers: dict[Message, Call] = {}
        self._readers: dict[Message, list[Call]] = defaultdict(list)
        for call in every:
            for part in parts(call, SEND):
                self._writers.setdefault((part.key, part.value), call)
            for part in parts(call, POLL):
                self._readers[part.key, part.value].append(call)
        self._read = {
            m for m, calls in self._readers.items() if any(c.outcome == OK for c in calls)
        }
        self._at: dict[Any, dict[int, dict[Any, Call]]] = defaultdict(lambda: defaultdict(dict))
        for call in every:
            for part in call.result or ():
                self._show(call, Part(*part))
        self._first: dict[Message, int] = {}
        self._last: dict[Message, int] = {}
        self._place: dict[Message, int] = {}  # the last of those where it is the first that is seen
        for key, offsets in self._at.items():
            for place, offset in enumerate(sorted(offsets)):
                self._place[key, next(iter(offsets[offset]))] = place
                for value in offsets[offset]:
                    self._first.setdefault((key, value), place)
                    self._last[key, value] = place

    def _show(self, call: Call, part: Part) -> None:
        if part.offset is not None and (part.f == POLL or self._committed(call)):
            self._at[part.key][part.offset].setdefault(part.value, call)

    def _committed(self, call: Call) -> bool:
        return call.outcome == OK or (
            call.outcome == OPEN and any((p.key, p.value) in self._read for p in parts(call, SEND))
        )

    def delta(self, key: Any, one: Any, two: Any) -> int:
        """How many places one value is before another one; 1 if that is not known."""
        place = self._place
        if (key, one) not in place or (key, two) not in place:
            return 1
        return place[key, two] - place[key, one]

    def sources(self) -> Iterator[Found]:
        """Who read what nobody sent, what failed, or what is not yet sent."""
        for message, readers in self._readers.items():
            writer, ok = self._writers.get(message), [c for c in readers if c.outcome == OK]
            of = f"value {message[1]} of key {message[0]}"
            if writer is None:
                yield Found("phantom", f"{_op(readers[0])} polled {of}, which nobody sent",
                            (readers[0],))  # fmt: skip
            elif writer.outcome == FAILED and ok:
                why = f"{_op(ok[0])} polled {of}, whose {_op(writer)} failed"
                yield Found("G1a", why, (writer, ok[0]))
            elif any(c is writer for c in readers):
                yield Found("precommitted-read", f"{_op(writer)} polled {of}, which it sent itself",
                            (writer,))  # fmt: skip
            elif early := [c for c in readers if c.outcome == OK and c.ended < writer.begun]:
                why = f"{_op(early[0])} polled {of} before {_op(writer)} began"
                yield Found("G1c-realtime", why, (early[0], writer))

    def offsets(self) -> Iterator[Found]:
        """Offsets with two values, and values at two offsets."""
        places: dict[Message, list[tuple[int, Call]]] = defaultdict(list)
        for key, offsets in self._at.items():
            for offset, values in sorted(offsets.items()):
                if len(values) > 1:
                    (one, first), (two, second) = list(values.items())[:2]
                    why = f"offset {offset} of key {key} is {one} to {_op(first)}, {two} to " \
                          f"{_op(second)}"  # fmt: skip
                    yield Found("inconsistent-offsets", why, (first, second))
                for value, call in values.items():
                    places[key, value].append((offset, call))
        for (key, value), shown in places.items():
            if len(shown) > 1:
                at = ", ".join(str(offset) for offset, _ in shown)
                why = f"value {value} of key {key} is at offsets {at}"
                yield Found("duplicate", why, tuple(call for _, call in shown[:4]))

    def losses(self) -> Iterator[Found]:
        """What was committed, and passed by every reader."""
        bound: dict[Any, tuple[int, Message]] = {}
        for message in self._read & self._first.keys():
            one = (self._first[message], message)
            bound[message[0]] = max(bound.get(message[0], one), one, key=lambda pair: pair[0])
        for (key, value), first in self._first.items():
            writer = self._writers.get((key, value))
            if key not in bound or (key, value) in self._read or writer is None:
                continue
            most, last = bound[key]
            if not self._committed(writer) or first > most:
                continue
            reader = next(c for c in self._readers[last] if c.outcome == OK)
            why = f"{_op(writer)} sent value {value} of key {key}, nobody polled it, and " \
                  f"{_op(reader)} polled {last[1]} behind it"  # fmt: skip
            if self._last[key, value] <= most:
                yield Found("lost-write", why, (writer, reader))
            else:
                why += "; a later copy of it may still come"
                yield Found("hidden-loss", why, (writer, reader), lasting=False)

    def cycles(self) -> Iterator[Found]:
        """Operations that each polled what another one sent, in a circle."""
        number = {id(call): n for n, call in enumerate(self._every)}
        edges = [
            (number[id(writer)], number[id(reader)])
            for message, readers in self._readers.items()
            if (writer := self._writers.get(message)) is not None
            for reader in readers
            if reader is not writer and FAILED not in (reader.outcome, writer.outcome)
        ]
        if not edges:
            return
        source, target = np.array(edges, np.int64).T
        labels = components(len(self._every), source, target)
        there = np.flatnonzero(cyclic(labels))
        if len(there):
            own = [self._every[n] for n in there.tolist() if labels[n] == labels[there[0]]]
            why = ", ".join(map(_op, own[:4])) + " each polled what another one of them sent"
            yield Found("G1c", why, tuple(own[:4]))

    def unseen(self) -> Iterator[Found]:
        """What was acknowledged, and polled by nobody."""
        for message, writer in self._writers.items():
            if writer.outcome == OK and message not in self._read:
                why = f"{_op(writer)} sent value {message[1]} of key {message[0]}, and no poll " \
                      "shows it"  # fmt: skip
                yield Found(UNSEEN, why, (writer,))


class _Steps:
    """Where producers and consumers skip, or go back: each beside what its process did before."""

    def __init__(self, log: _Log, every: Sequence[Call]) -> None:
        self._log, self.found = log, list[Found]()
        sent: dict[int, dict[Any, tuple[Any, Call]]] = defaultdict(dict)
        polled: dict[int, dict[Any, tuple[Any, Call]]] = defaultdict(dict)
        for call in every:
            if call.kind == ASSIGN:
                for before in (sent[call.process], polled[call.process]):
                    kept = () if call.other else call.argument
                    for key in set(before) - set(kept):
                        del before[key]
                continue
            self._step(call, SEND, sent[call.process], call.outcome != FAILED)
            self._step(call, POLL, polled[call.process], call.outcome == OK)

    def _step(self, call: Call, f: str, before: dict[Any, tuple[Any, Call]], moves: bool) -> None:
        by_key: dict[Any, list[Any]] = defaultdict(list)
        for part in parts(call, f):
            by_key[part.key].append(part.value)
        if f == SEND and call.outcome == FAILED:
            return
        for key, values in by_key.items():
            if key in before:
                value, other = before[key]
                self._compare(f, key, (value, values[0]), (other, call))
            if key not in (call.other or ()):  # else it was dealt anew meanwhile
                for pair in pairwise(values):
                    self._compare(f"int-{f}", key, pair, (call,))
            if moves:
                before[key] = values[-1], call

    def _compare(self, f: str, key: Any, values: tuple[Any, Any], calls: tuple[Call, ...]) -> None:
        delta = self._log.delta(key, *values)
        if delta == 1 or (f.endswith(SEND) and (delta > 1 or values[0] == values[1])):
            return  # others may send in between, and a log may know a copy that is sent again
        inside, own = f.startswith("int-"), f.removeprefix("int-")
        name = f"{'int-' if inside else ''}{f'nonmonotonic-{own}' if delta < 1 else f'{own}-skip'}"
        where = f"{_op(calls[0])}" if inside else f"{_op(calls[0])} and then {_op(calls[1])}"
        how = f"went back by {-delta}" if delta < 1 else f"passed over {delta - 1}"
        why = f"{where} {how} from value {values[0]} to {values[1]} of key {key}"
        self.found.append(Found(name, why, calls))


def _op(call: Call) -> str:
    return f"op {call.begun} ({call.kind})"
