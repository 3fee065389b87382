"""Faults within a fault: what one leaves half done, the next one meets.

A broker that cannot register is killed; all lose their power while a disk is slow; a controller
that was left behind comes back while the others restart. One fault after the other as
`maxq.harness.sampling.draw` draws them rarely does so: here a fault that lasts is drawn, then one
to three that strike while it is in effect, and in half of the cases it is healed only after them.
An order to elect, where a run has such, is among them: while controllers are struck they should
have something to decide.
"""

from collections.abc import Iterator, Sequence

import msgspec

from maxq.harness.contracts.keyed_draws import Keyed
from maxq.harness.contracts.target import Node
from maxq.harness.sampling.factors import Row
from maxq.harness.sampling.faults import OVER_AT_ONCE, Fault
from maxq.harness.schedule.format import Act, When

MOST = 40  # faults of a run, those within others counted
PART = 70  # of a hundred: in how much of a run they may begin
WITHIN = (1, 3)
OUTLASTS = 50  # of a hundred: how many are healed after those within them
LATE_MS = (200, 40_000)  # how long after them


class NestedFaults:
    """The faults of a run that come so.

    Args:
        draws: of the run.
        row: its factors.
        nodes: whom faults may strike.
        kinds: of faults; one at least takes time.
        most: so many faults; None: as many as there is time for.
    """

    def __init__(
        self,
        draws: Keyed,
        row: Row,
        nodes: Sequence[Node],
        kinds: Sequence[str],
        *,
        most: int | None = None,
    ) -> None:
        self._draws = draws
        self._row = row
        self._nodes = nodes
        self._kinds = kinds
        self._few = most is not None  # then each kind comes once before one of them comes twice
        self._most = MOST if most is None else most
        self._seen: set[str] = set()
        self._number = 0
        self._before = ""

    def acts(self, length: int) -> Iterator[Act]:
        """All of them.

        Args:
            length: of the run, in ms.
        """
        lasting = [kind for kind in self._kinds if kind not in OVER_AT_ONCE]
        until, at = length * PART / 100_000, 0.0
        while (self._number + 1 < self._most and at < until) or self._lacking():
            outer, key = self._fault(), self._number
            strike, *heals = outer.of(self._kind(lasting))
            self._before, self._number = strike.id, key + 1
            within, took = self._within(key)
            hold = sum(heal.when.at for heal in heals)
            if heals and within and self._draws.chance(OUTLASTS, "outlasts", key):
                late = self._draws.log_uniform(*LATE_MS, "late", key) / 1000
                hold += took + late - heals[0].when.at
                heals[0] = msgspec.structs.replace(
                    heals[0], when=When(after=within[-1].id, at=late)
                )
            yield from (strike, *within, *heals)
            self._before = (heals or within)[-1].id
            at += strike.when.at + max(took, hold)

    def _lacking(self) -> bool:
        """Whether a kind that comes in its turn has not come yet."""
        left = self._number < self._most
        return left and self._few and not self._seen.issuperset(self._kinds)

    def _within(self, key: int) -> tuple[list[Act], float]:
        """Those within a fault, and how long they take, in seconds."""
        count = min(self._draws.between(*WITHIN, "within", key), self._most - self._number)
        ordered = self._row["order"] == "on" and not self._few  # else it comes in its turn
        decides = self._draws.below(count, "decides", key) if ordered else None
        acts: list[Act] = []
        took = 0.0
        for place in range(count):
            fault = self._fault(within=True)
            made = fault.of("order" if place == decides else self._kind(self._kinds))
            counted = made[:1] if fault.overlapped else made
            self._before, self._number = counted[-1].id, self._number + 1
            took += sum(act.when.at for act in counted)
            acts += made
        return acts, took

    def _fault(self, *, within: bool = False) -> Fault:
        return Fault(self._draws, self._row, self._number, self._before, self._nodes, within=within)

    def _kind(self, among: Sequence[str]) -> str:
        unseen = [kind for kind in among if kind not in self._seen] if self._few else []
        kind = self._draws.choice(unseen or among, "kind", self._number)
        self._seen.add(kind)
        return kind
