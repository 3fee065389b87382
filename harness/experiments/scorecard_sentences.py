"""What a scorecard shows in sentences: which releases broke what they promise, and which did not.

Only what a profile promises counts, in any of the profiles that were run. A release stands on
neither side where no run could judge.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from maxq.checkers.core.claims import CLAIMS
from maxq.checkers.judgement.phrases import said
from maxq.harness.experiments.scorecard import Entry, Scorecard, cell
from maxq.harness.run.replay import Rate

RATES_MAX = 7  # of one sentence


class Sides(NamedTuple):
    """Of a claim under a schedule: who broke it, in how many of how many runs, and who kept it, in
    how many."""

    broken: tuple[tuple[str, Rate], ...]
    kept: tuple[tuple[str, int], ...]


def in_short(card: Scorecard, entries: Sequence[Entry]) -> Iterator[str]:
    """A line for each thing that was broken, the gravest first; then who broke nothing."""
    told: dict[tuple[str, Sides], list[tuple[str, str]]] = {}
    for claim in CLAIMS:
        for name in card.names:
            mine = [e for e in entries if e.job.name == name]
            sides, found = _sides(card, mine, claim.id)
            if sides.broken:
                told.setdefault((name, sides), []).append((claim.id, found))
    for (name, sides), claims in told.items():
        codes = ", ".join(claim for claim, _ in claims)
        broken, kept = (listed([release for release, _ in side]) for side in sides)
        runs = sum(runs for _, runs in sides.kept)
        not_in = f" Not in {kept}, in {runs} run{'s' * (runs != 1)}." if kept else ""
        yield (f"{broken}: {claims[0][1]} ({codes}). {_seen([rate for _, rate in sides.broken])} "
               f"The schedule: {card.title(name)}.{not_in}")  # fmt: skip
    whole = [t for t in card.targets if _keeps_all(card, entries, t)]
    if whole:
        yield f"Nothing that is promised was broken in {listed(list(map(short, whole)))}."


def _seen(rates: Sequence[Rate]) -> str:
    """In how many runs, in the order of the releases; of many releases all of them together."""
    if len(rates) > RATES_MAX:
        rates = [Rate(sum(r.hits for r in rates), sum(r.runs for r in rates))]
    if len(set(rates)) == 1 < len(rates):
        return f"Seen in {rates[0].hits} of {rates[0].runs} runs each."
    return f"Seen in {listed([f'{r.hits} of {r.runs}' for r in rates])} runs."


def short(target: str) -> str:
    """A release, without what all have in common."""
    return target.removeprefix("rocketmq:")


def listed(texts: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)


def _sides(card: Scorecard, entries: Sequence[Entry], claim: str) -> tuple[Sides, str]:
    """Who broke a claim and who kept it, and what was found in words."""
    broken, kept, found = [], [], dict[str, None]()
    for target in card.targets:
        cells = [cell(entries, claim, target, profile) for profile in card.profiles]
        cells = [c for c in cells if c.promised and c.state in ("broken", "kept")]
        hits, runs = sum(c.rate.hits for c in cells), sum(c.rate.runs for c in cells)
        if hits:
            broken.append((short(target), Rate(hits, runs)))
            found |= {said(s.partition("/")[2], 1): None for c in cells for s in c.found}
        elif runs:
            kept.append((short(target), runs))
    return Sides(tuple(broken), tuple(kept)), "; ".join(found)


def _keeps_all(card: Scorecard, entries: Sequence[Entry], target: str) -> bool:
    """Whether runs could judge something of a release, and nothing promised was broken."""
    cells = [cell(entries, c.id, target, p) for c in CLAIMS for p in card.profiles]
    states = {c.state for c in cells if c.promised}
    return "kept" in states and "broken" not in states
