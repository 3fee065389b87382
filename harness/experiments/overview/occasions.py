"""How often the runs of a batch put each claim to the test.

A claim that is hardly ever judged is hardly ever seen broken, however good its checker: most bugs
that random runs miss are missed so. A run judges a claim if it comes to *kept* or *broken*; a claim
that it names at all is one that runs of its mode can judge. Of those a quota of all runs should.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from maxq.checkers.core.api import Status
from maxq.checkers.core.claims import BY_ID
from maxq.checkers.core.titles import status_in_words, titled

QUOTA = 5  # one of so many runs at least should judge a claim
JUDGED: tuple[Status, ...] = ("kept", "broken")
STATUSES: tuple[Status, ...] = get_args(Status)
COLUMNS = ("judged", *map(status_in_words, STATUSES))


class Occasions:
    """What became of each claim in many runs, counted in runs."""

    def __init__(self) -> None:
        self.runs = 0
        self._claims: dict[str, Counter[str]] = {claim: Counter() for claim in BY_ID}

    def add(self, claims: Mapping[str, str]) -> None:
        """Count one run by the statuses of its claims; one without a verdict has none."""
        self.runs += bool(claims)
        for claim, status in claims.items():
            self._claims.setdefault(claim, Counter())[status] += 1

    def judged(self) -> dict[str, int]:
        """How many runs judged each claim, of the claims that some run named."""
        return {
            claim: sum(counts[status] for status in JUDGED)
            for claim, counts in self._claims.items()
            if counts
        }

    def under_quota(self) -> dict[str, int]:
        """The claims that fewer than one of `QUOTA` runs judged, and how many did."""
        return {claim: n for claim, n in self.judged().items() if n * QUOTA < self.runs}

    def lines(self) -> Iterator[str]:
        """The table, and what is under the quota, for people; nothing without a verdict."""
        if not self.runs:
            return
        yield "".join(f"{name:>13}" for name in COLUMNS) + "  claim, by runs"
        for claim, judged in self.judged().items():
            counts = [judged, *(self._claims[claim][status] for status in STATUSES)]
            yield "".join(f"{n:13,}" for n in counts) + f"  {titled([claim])}"
        under = [f"{titled([c])}: {n}" for c, n in self.under_quota().items()]
        if under:
            yield (
                f"seldom put to the test, in fewer than one of {QUOTA} of {self.runs:,} runs, so "
                f"that they were kept says little: {'; '.join(under)}"
            )

    def to_json(self) -> dict[str, Any]:
        """The table as plain values: how many runs judged each claim, what became of it in how
        many, and the claims under the quota."""
        judged = self.judged()
        return {
            "runs": self.runs,
            "quota": f"1 of {QUOTA}",
            "claims": [
                {"claim": claim, "judged": n, **{s: self._claims[claim][s] for s in STATUSES}}
                for claim, n in judged.items()
            ],
            "under_quota": list(self.under_quota()),
        }
