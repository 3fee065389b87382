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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from maxq.checkers.evidence.log import LogOp, Step
from maxq.checkers.evidence.log_key import Finding, Order
from maxq.checkers.evidence.reigns import Unrest
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


# Of a poll and a place: which poll of its run of reading first came there; None: of it nothing is
# known.
Reached = Callable[[int, int], Sequence[int] | None]


def rests_on(
    finding: Finding, order: Order, reached: Reached, expired: Sequence[Expiry] = ()
) -> Sequence[int]:
    """The operations that must have been answered by one master for a finding to be inexcusable,
    beside its own: those that show in which order the log holds what it compares, or by which a
    reader went past what is lost. `UNKNOWN_OP` where that is not known.

    Args:
        finding: what was found.
        order: the log of its key.
        reached: how far its readers had come.
        expired: what of the log may be deleted, from when on.
    """
    if finding.name not in WITHIN or finding.name == "inconsistent-offsets":
        return ()
    if finding.name in READER:
        place = finding.detail.get("index")
        by = None if place is None else reached(finding.detail[READER[finding.name]], place)
        if place is None or by is None:
            return (UNKNOWN_OP,)
        offset = order.offsets[place] if expired else 0
        return (UNKNOWN_OP,) if any(offset < first_young(expired, at) for at in by) else by
    values = finding.detail.get("values")
    if not isinstance(values, list):
        return ()
    places = [order.place[v] for v in values if v in order.place]
    return order.shown[min(places) : max(places) + 1] if len(places) == len(values) else ()


class Excuses:
    """Of one key.

    Args:
        ops: its operations, by index; those on which findings rest are enough.
        unrest: when another master may have been elected.
    """

    def __init__(self, ops: Mapping[int, LogOp], unrest: Unrest) -> None:
        self._ops = ops
        self._unrest = unrest

    def marked(self, finding: Finding, rests: Iterable[int]) -> Finding:
        """The same, with whether no setting excuses it."""
        name = finding.name
        sure = name in ALWAYS or (name in WITHIN and self._of_one_reign({*finding.ops, *rests}))
        return finding._replace(inexcusable=True) if sure else finding

    def _of_one_reign(self, ops: Iterable[int]) -> bool:
        """Whether everything was answered by one master that led all the while."""
        rows = [self._ops.get(at) for at in ops]
        answers = [(r.begun, r.at, r.node, r.broker) for r in rows if r is not None]
        homes = {node for _, _, node, _ in answers}
        home = next(iter(homes)) if len(homes) == 1 else None
        if len(answers) < len(rows) or home is None:
            return False
        low, high = min(a[0] for a in answers), max(a[1] for a in answers)
        masters = self._unrest.led_by(home, low, high)
        return all(broker in masters for _, _, _, broker in answers)


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
