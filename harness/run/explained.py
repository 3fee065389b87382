"""What trying said of a finding's causes (`maxq.harness.experiments.explain`), for people and for
JSON."""

from collections.abc import Iterator

import msgspec


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What trying came to. `enough`: families of acts that suffice, each needed within them;
    `acts` are these in words. `gone`: whether the whole run without them lacks the finding, and
    `instead` what it shows then, of the same kind; None: not tried. `reduced`: whether none of them
    could be left out. `why` says why nothing was tried."""

    finding: str
    blamed: tuple[str, ...] = ()
    enough: tuple[str, ...] = ()
    acts: tuple[str, ...] = ()
    reduced: bool = False
    gone: bool | None = None
    instead: tuple[str, ...] = ()
    rate: tuple[int, int] | None = None  # hits, of so many other seeds
    runs: int = 0
    of: int = 0
    why: str = ""

    def lines(self) -> Iterator[str]:
        """The same, for people."""
        if self.why:
            yield f"{self.finding}: {self.why}"
            return
        if not self.enough:
            yield f"{self.finding}: no fault is needed, it shows without any."
        else:
            word = "enough" if self.reduced else "enough, not reduced further"
            yield f"{self.finding}: {word}: {'; and '.join(self.acts)}."
        if self.gone is True and not self.instead:
            yield "  The whole run without it does not show the finding."
        elif self.gone is True:
            yield "  The whole run without it does not show this one, but another of its kind:"
            yield from (f"    {line}" for line in self.instead)
        elif self.gone is False:
            yield "  The whole run without it shows the finding too:"
            yield from (f"    {line}" for line in self.instead)
        if self.rate is not None:
            hits, seeds = self.rate
            yield f"  With these acts alone {seeds} other seeds show it {hits} times."
        acts = "1 act" if self.of == 1 else f"{self.of} acts"
        yield f"  Tried by {self.runs} repetitions of the run, which has {acts}."
