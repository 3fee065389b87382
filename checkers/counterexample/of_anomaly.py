"""The smallest part of a history that shows an anomaly by itself.

Whole operations are left out, never a completion alone. What is left must be judged invalid for the
same promise, by the same name, about the same message, lock, node or set; and nothing may be found
in it that was not found in the whole history: a read whose writer was left out, or a replica
without its log, is no other anomaly.

It begins with what the anomaly names. If that does not show it, what concerns no load is taken in,
then polls of the same queue just before and behind, and the sender of what is shown. Where more
than `LONG` operations are left, most of them wrote what one read shows: then messages are left out
too (`without`), and that is said.

How much is tried is counted in operations judged, not in time, so equal histories give equal
counterexamples.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from maxq.checkers.core.api import Anomaly, Verdict
from maxq.checkers.counterexample.fewer import fewer
from maxq.checkers.counterexample.looked_at import Log, broken_by, held, logs_near, small_near
from maxq.checkers.counterexample.messages import Message, messages_of, without
from maxq.histories.grounds import RUN
from maxq.histories.history import History
from maxq.histories.op import Op

LONG, MANY = 20, 60  # operations
ROUNDS = 2
WORK_MAX = 150_000  # operations judged, for one anomaly
# What an anomaly is about, as far as its detail says so.
SUBJECT = ("key", "set", "value", "offset", "node", "id", "lock", "group", "address")

Subject = tuple[str, ...]
Units = list[list[Op]]  # whole operations
Shows = Callable[[Units], bool]
Judge = Callable[[History, str], Sequence[Verdict]]


class Counterexample(NamedTuple):
    """Some operations of a history that show an anomaly by themselves.

    `ops` are in order, without the run's own, and `length` counts whole ones. `minimal`: none can
    be left out alone. `left_out`: so many messages are in none of them that the history has there.
    """

    anomaly: Anomaly
    ops: tuple[Op, ...]
    length: int
    minimal: bool
    left_out: int

    def to_json(self) -> dict[str, Any]:
        """It as plain values, its operations by index."""
        return {
            "claim": self.anomaly.claim,
            "name": self.anomaly.name,
            "operations": self.length,
            "minimal": self.minimal,
            "messages_left_out": self.left_out,
            "ops": [op.index for op in self.ops],
        }


class _Work:
    """Counts the operations that are judged."""

    def __init__(self, most: int) -> None:
        self.left = most

    def may(self, units: Units) -> bool:
        """Whether so many more may be judged."""
        return sum(map(len, units)) <= self.left

    def __call__(self) -> bool:
        return self.left > 0


def subject_of(anomaly: Anomaly) -> Subject:
    """What makes two findings one: the promise, the name, and what it is about."""
    about = (repr(anomaly.detail.get(name)) for name in SUBJECT)
    return (anomaly.claim, anomaly.name, *about)


class Searching:
    """The search in one judged history.

    Args:
        history: all of it, or what is left of it (`PartHistory`).
        verdicts: what was found in it.
        judge: by whom it was judged: asks the checker with a name.
    """

    def __init__(self, history: History, verdicts: Sequence[Verdict], judge: Judge) -> None:
        self._history = history
        self._judge = judge
        self._found_by = {id(a): v.checker for v in verdicts for a in v.anomalies}
        self._known = {subject_of(a) for v in verdicts for a in v.anomalies}
        self._run = [op for op in history if op.process == RUN]
        self._log = Log(history)

    def of(self, anomaly: Anomaly, work: int = WORK_MAX) -> Counterexample | None:
        """The smallest part that was found; None: too little of the history is here to show it, or
        too much to be tried.

        Args:
            anomaly: one of the verdicts.
            work: how many operations may be judged.
        """
        left = _Work(work)
        shows = self._trial(anomaly, left)
        for units, lacks in self._candidates(anomaly):
            if left.may(units) and shows(units):
                return _reduced(anomaly, units, lacks, shows, left)
        return None

    def _trial(self, anomaly: Anomaly, left: _Work) -> Shows:
        wanted = subject_of(anomaly)
        checker = self._found_by[id(anomaly)]

        def shows(units: Units) -> bool:
            ops = [*self._run, *(op for unit in units for op in unit)]
            left.left -= len(ops)
            history = History(sorted(ops, key=lambda op: op.index))
            verdicts = self._judge(history, checker)
            subjects = {subject_of(a) for v in verdicts for a in v.anomalies}
            if wanted not in subjects or not subjects <= self._known:
                return False
            return anomaly.claim in broken_by(verdicts)

        return shows

    def _candidates(self, anomaly: Anomaly) -> Iterator[tuple[Units, int]]:
        """Parts of the history, and how many messages each lacks. What is left out first comes
        first."""
        cited = anomaly.cited
        named = self._units(op for at in cited if (op := held(self._history, at)) is not None)
        last = max(cited, default=0)
        small = self._units([*small_near(self._history, last), *logs_near(self._history, anomaly)])
        parts = [list(named.values()), _joined(small, named)]
        polls = self._log.polls(anomaly)
        if beside := polls | self._log.senders(anomaly, polls):
            same = self._units(self._history[at] for at in sorted(beside))
            parts += [_joined(same, named), _joined(same, small, named)]
        for units in parts:
            yield units, 0
            if strange := _unsent(units, anomaly):
                yield _projected(units, strange), len(strange)

    def _units(self, ops: Iterable[Op]) -> dict[int, list[Op]]:
        """Whole operations, by the index at which each begins."""
        found: dict[int, list[Op]] = {}
        for op in ops:
            both = [op]
            other = self._history.pair_index(op)
            if other >= 0:
                both.append(self._history[other])
            both.sort(key=lambda op: op.index)
            found[both[0].index] = both
        return dict(sorted(found.items()))


def _reduced(
    anomaly: Anomaly, units: Units, lacks: int, shows: Shows, goes_on: _Work
) -> Counterexample:
    """The smallest part of one that shows it. Of many operations whole kinds are left out first,
    and then messages, each of which takes several with it; of few, messages only if need be."""
    kept, minimal, gone = _without_kinds(units, shows, goes_on), False, set[Message]()
    if len(kept) <= MANY:
        kept, minimal = _fewer(kept, shows, goes_on)
    for _ in range(ROUNDS):  # what is gone may have needed other messages
        if len(kept) > LONG and goes_on():
            more = _without_messages(anomaly, kept, shows, goes_on)
            kept, minimal = _fewer(_projected(kept, more), shows, goes_on)
            gone |= more
    ops = sorted((op for unit in kept for op in unit), key=lambda op: op.index)
    return Counterexample(anomaly, tuple(ops), len(kept), minimal, lacks + len(gone))


def _without_kinds(units: Units, shows: Shows, goes_on: _Work) -> Units:
    """What is left without all operations of each kind that need not be there."""
    for f, count in Counter(unit[0].f for unit in units).most_common():
        without = [unit for unit in units if unit[0].f != f]
        if count > 1 and without and goes_on() and shows(without):
            units = without
    return units


def _without_messages(
    anomaly: Anomaly, units: Units, shows: Shows, goes_on: _Work
) -> set[Message]:  # fmt: skip
    """The messages that need not be there, the anomaly's own tried last."""
    own = _own(anomaly)
    messages = sorted(messages_of(op for unit in units for op in unit), key=lambda m: m[1] in own)

    def shows_of(at: Sequence[int]) -> bool:
        return shows(_projected(units, {*messages} - {messages[n] for n in at}))

    found = fewer(len(messages), shows_of, goes_on)
    return {*messages} - {messages[n] for n in found.kept}


def _own(anomaly: Anomaly) -> set[str]:
    return {repr(anomaly.detail.get("value")), *map(repr, anomaly.detail.get("values") or ())}


def _fewer(units: Units, shows: Shows, goes_on: _Work) -> tuple[Units, bool]:
    found = fewer(len(units), lambda at: shows([units[n] for n in at]), goes_on)
    return [units[n] for n in found.kept], found.minimal


def _unsent(units: Units, anomaly: Anomaly) -> set[Message]:
    """The messages that these operations show and none of them sends, but for the anomaly's own."""
    ops = [op for unit in units for op in unit]
    own = _own(anomaly)
    sent = set(messages_of(op for op in ops if op.type == "invoke"))
    return {m for m in messages_of(ops) if m not in sent and m[1] not in own}


def _projected(units: Units, gone: Collection[Message]) -> Units:
    """Whole operations without some messages; one whose completion showed no other is gone."""
    return [left for unit in units if len(left := without(unit, gone)) == len(unit)]


def _joined(*parts: Mapping[int, list[Op]]) -> Units:
    """All of them, each once, those of the last part last."""
    last: dict[int, int] = {}
    for number, part in enumerate(parts):
        last.update(dict.fromkeys(part, number))
    return [
        unit
        for number, part in enumerate(parts)
        for begun, unit in part.items()
        if last[begun] == number
    ]
