"""How many acknowledged messages were lost, and how many were shown and then gone: decided and
worded in one place, for every table, page and file.

A number is only there where it was looked for. That nothing was found says nothing where messages
were never read, a final read is missing or no checker looked: then there is no number, and `why`
there is none. What was found without all having been looked at is a least number. It makes no
difference here whether the settings promise anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from maxq.checkers.core.api import ClaimVerdict

KEPT_ALL, STAYS, CHECKER = "S6", "S10", "durability"
NOT_JUDGED = "not judged"
NOTHING = "nothing was acknowledged"
NO_CHECKER = "no checker looked"
WHY_MAX = 60  # characters of a reason in a table


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """Of a checker's verdict, as it is stored, what this rests on."""

    checker: str = ""
    claim_verdicts: tuple[ClaimVerdict, ...] = ()
    counts: dict[str, int] = {}


class Said(Protocol):
    """A checker's verdict, or what is stored of it."""

    @property
    def checker(self) -> str: ...
    @property
    def claim_verdicts(self) -> tuple[ClaimVerdict, ...]: ...
    @property
    def counts(self) -> dict[str, int]: ...


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """What a run says of its messages.

    `lost` of `acknowledged` are in no last read; `gone` is how many a consumer was shown that were
    replaced, or had vanished, later. None: not judged. `why` says what is missing, where something
    is: then a number is the least that it can be. `never_read` is how many nobody ever read.
    """

    lost: int | None = None
    acknowledged: int = 0
    gone: int | None = None
    never_read: int = 0
    why: str = NO_CHECKER

    @property
    def reason(self) -> str:
        """`why` in a few words."""
        if self.never_read:
            return f"{self.never_read:,} never read"
        first = self.why.partition(";")[0]
        return first if len(first) <= WHY_MAX else f"{first[: WHY_MAX - 1]}…"

    @property
    def of(self) -> str:
        """``0 of 817``, ``at least 5 of 817``, or ``not judged (697 never read)``."""
        if self.lost is None:
            return f"{NOT_JUDGED} ({self.reason})"
        return f"{self._least}{self.lost:,} of {self.acknowledged:,}"

    @property
    def said(self) -> str:
        """``0 of 817 lost``, or ``losses not judged (697 never read)``."""
        return f"losses {self.of}" if self.lost is None else f"{self.of} lost"

    @property
    def number(self) -> str:
        """The same in a narrow column: ``0``, ``5+``, ``not judged``; empty without messages."""
        if self.lost is None:
            return "" if self.why == NO_CHECKER else NOT_JUDGED
        return f"{self.lost:,}{'+' if self.why else ''}"

    @property
    def shown_then_gone(self) -> str:
        """``32``, ``at least 32``, or ``not judged``."""
        return NOT_JUDGED if self.gone is None else f"{self._least}{self.gone:,}"

    @property
    def _least(self) -> str:
        return "at least " if self.why else ""

    def plain(self) -> dict[str, Any]:
        """For JSON (docs/json.md)."""
        return {
            "lost": self.lost,
            "acknowledged": self.acknowledged,
            "shown_then_gone": self.gone,
            "lost_not_judged": self.why,
            "lost_in_words": self.said,
        }

    @property
    def sentence(self) -> str:
        """``443 of 1,839 acknowledged messages (24 %) were lost``; of nothing that was acknowledged
        empty."""
        if not self.acknowledged and not self.lost:
            return ""
        if self.lost is None:
            return f"{NOT_JUDGED} whether acknowledged messages were lost ({self.reason})"
        of = f"{self.acknowledged:,} acknowledged messages"
        if not self.lost:
            return f"none of {of} was lost"
        share = 100 * self.lost / self.acknowledged if self.acknowledged else 100.0
        text = f"{share:.0f} %" if share >= 1 else "less than 1 %"
        verb = "was" if self.lost == 1 else "were"
        return f"{self._least}{self.lost:,} of {of} ({text}) {verb} lost"


def lost_in(verdicts: Sequence[Said]) -> Lost:
    """What verdicts say of a run's messages; also of a run that an earlier version judged."""
    mine = next((v for v in verdicts if v.checker == CHECKER), None)
    if mine is None:
        return Lost()
    claims = {r.claim: r for r in mine.claim_verdicts}
    acknowledged, never_read = mine.counts.get("acknowledged", 0), mine.counts.get("never-read", 0)
    doubt = doubt_of(claims, KEPT_ALL)
    if not doubt and mine.counts.get("unseen") and "never-read" not in mine.counts:
        doubt = "some were never read"  # as far as an earlier version counted
    if not doubt and not acknowledged and not mine.counts.get("lost"):
        doubt = NOTHING
    lost, gone = (_found(mine.counts, name, doubt) for name in ("lost", "gone"))
    if gone == 0 and not (acknowledged and mine.counts.get("read")):
        gone = None
    return Lost(
        lost=lost,
        acknowledged=acknowledged,
        gone=None if gone == 0 and doubt_of(claims, STAYS) else gone,
        never_read=never_read if doubt else 0,
        why=doubt,
    )


def doubt_of(claims: Mapping[str, ClaimVerdict], claim: str) -> str:
    """Why more of a claim may be to be found than was; empty: all was looked at."""
    verdict = claims.get(claim)
    if verdict is None:
        return NO_CHECKER
    if verdict.status == "not judged":
        return verdict.why or NOT_JUDGED
    return verdict.doubt


def _found(counts: Mapping[str, int], name: str, doubt: str) -> int | None:
    """A count; None where nothing was found and not all was looked at."""
    found = counts.get(name)
    return None if not found and (doubt or found is None) else found
