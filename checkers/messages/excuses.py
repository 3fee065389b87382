"""What no setting excuses: anomalies that no fail-over and no loss of power can have caused.

Without all-ack an election may take the end of a log away, and then an offset gets another message,
readers skip, and producers' messages change their order. It cannot while one master leads, and it
cannot put a message into a log twice, nor one that no client sent. Claim: S16.

A reader that went on past a message proves its loss. Where it had gone past that place under an
earlier master, it read what stood there before, and the message came when it was gone already:
that it never saw the message says nothing. So the poll that first went past a place counts too;
and where the message was old enough to be deleted by then, it proves nothing either.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from maxq.checkers.evidence.log import LogFacts, LogOp, Step
from maxq.checkers.evidence.log_key import Finding, Order
from maxq.checkers.evidence.stores.trims import Expiry, first_young

WHATEVER = "S16"  # the claim that every setting makes
# Wrong at any time.
ALWAYS = frozenset((
    "phantom", "duplicate", "precommitted-read", "G1a", "G1c-realtime", "int-nonmonotonic-poll",
))  # fmt: skip
# Wrong while one master leads.
WITHIN = frozenset(
    (
        *("lost-write", "lost-tail", "inconsistent-offsets", "poll-skip", "int-poll-skip"),
        *("nonmonotonic-poll", "nonmonotonic-send", "int-nonmonotonic-send", "order"),
    )
)
READER = {"lost-write": "max-read", "lost-tail": "reader"}  # the field that names who went past
UNKNOWN_OP = -1  # as an operation: one of which nothing is known


class Passage:
    """How far a run of reading had come, by operation; places are dense indices of the log. `first`
    is the place at which it began, -1 if that was the begin of the log."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._at: list[int] = []
        self._furthest: list[int] = []

    def read(self, at: int, place: int) -> None:
        """Take the next poll."""
        self._at.append(at)
        self._furthest.append(max([place, *self._furthest[-1:]]))

    def reached(self, place: int) -> Sequence[int]:
        """The operation that first came to a place or beyond it, if one did."""
        first = bisect_left(self._furthest, place)
        return self._at[first : first + 1]


class Excuses:
    """Of one key.

    Args:
        steps: what is said of it, in order.
        order: its log.
        facts: of the whole history.
        expired: what of it may be deleted, from when on.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        order: Order,
        facts: LogFacts,
        expired: Sequence[Expiry] = (),
    ) -> None:
        self._expired = expired
        self._ops = {step.at: step for step in steps if isinstance(step, LogOp)}
        self._passages = dict(passages(steps, order, plain=facts.plain))
        self._order = order
        self._unrest = facts.unrest

    def marked(self, finding: Finding) -> Finding:
        """The same, with whether no setting excuses it."""
        name = finding.name
        sure = name in ALWAYS or (name in WITHIN and self._of_one_reign(finding))
        return finding._replace(inexcusable=True) if sure else finding

    def _of_one_reign(self, finding: Finding) -> bool:
        """Whether everything that a finding rests on was answered by one master that led all the
        while."""
        rows = [self._ops.get(at) for at in {*finding.ops, *self._showed(finding)}]
        answers = [(r.begun, r.at, r.node, r.broker) for r in rows if r is not None]
        homes = {node for _, _, node, _ in answers}
        home = next(iter(homes)) if len(homes) == 1 else None
        if len(answers) < len(rows) or home is None:
            return False
        low, high = min(a[0] for a in answers), max(a[1] for a in answers)
        masters = self._unrest.led_by(home, low, high)
        return all(broker in masters for _, _, _, broker in answers)

    def _showed(self, finding: Finding) -> Iterable[int]:
        """The operations by which the order is known of what a finding compares, or by which a
        reader went past what is lost."""
        if finding.name in READER:
            place = finding.detail.get("index")
            passage = self._passages.get(finding.detail[READER[finding.name]])
            if place is None or passage is None:
                return (UNKNOWN_OP,)
            reached, offset = passage.reached(place), self._order.offsets[place]
            old = any(offset < first_young(self._expired, at) for at in reached)
            return (UNKNOWN_OP,) if old else reached
        values = finding.detail.get("values")
        if finding.name == "inconsistent-offsets" or not isinstance(values, list):
            return ()
        places = [self._order.place[v] for v in values if v in self._order.place]
        if len(places) < len(values):
            return ()
        return self._order.shown[min(places) : max(places) + 1]


def passages(steps: Sequence[Step], order: Order, *, plain: bool) -> Iterator[tuple[int, Passage]]:
    """Of each poll that was answered the run of reading that it belongs to; in a `plain` history
    every one begins at the first offset."""
    runs: dict[int, Passage] = {}
    sought: set[int] = set()  # processes that begin, or begin again, at the first offset
    for step in steps:
        if not isinstance(step, LogOp):
            if step.seeks or not step.listed:
                runs.pop(step.process, None)
                sought.discard(step.process)
            if step.seeks and step.ok:
                sought.add(step.process)
        elif step.type == "ok" and (step.polled or step.end is not None):
            places = [order.first[e.value] for e in step.polled if e.value in order.first]
            first = (
                -1 if plain or step.process in sought else min(places, default=len(order.offsets))
            )
            passage = runs.setdefault(step.process, Passage(first))
            if places:
                passage.first = min(passage.first, *places)
                passage.read(step.at, max(places))
            yield step.at, passage
