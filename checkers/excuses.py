"""What no setting excuses: anomalies that no fail-over and no loss of power can have brought about.

Without all-ack an election may take the end of a log away, and then an offset gets another message,
readers skip, and producers' messages change their order. It cannot while one master leads, and it
cannot put a message into a log twice, nor one that nobody sent. Claim: S16.
"""

from collections.abc import Iterable, Sequence

from checkers.log import LogOp
from checkers.log_key import Finding, Order
from checkers.reigns import Unrest

WHATEVER = "S16"  # the claim that every setting makes
# Wrong at any time.
ALWAYS = frozenset(("phantom", "duplicate", "precommitted-read", "G1a", "int-nonmonotonic-poll"))
# Wrong while one master leads.
WITHIN = frozenset(
    (
        *("lost-write", "lost-tail", "inconsistent-offsets", "poll-skip", "int-poll-skip"),
        *("nonmonotonic-poll", "nonmonotonic-send", "int-nonmonotonic-send"),
    )
)


class Excuses:
    """Of one key.

    Args:
        rows: its operations.
        order: its log.
        unrest: when there may have been another master.
    """

    def __init__(self, rows: Sequence[LogOp], order: Order, unrest: Unrest) -> None:
        self._ops = {row.at: row for row in rows}
        self._order = order
        self._unrest = unrest

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
        """The operations by which the order is known of what a finding compares."""
        values = finding.detail.get("values")
        if finding.name == "inconsistent-offsets" or not isinstance(values, list):
            return ()
        places = [self._order.place[v] for v in values if v in self._order.place]
        if len(places) < len(values):
            return ()
        return self._order.shown[min(places) : max(places) + 1]
