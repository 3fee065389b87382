"""The campaign of mutants, from journals written by hand: who counts as caught, and how soon."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.journal import append
from maxq.harness.experiments.mutants import (
    LIMIT,
    RANGES,
    STAGES,
    Line,
    MutantCampaign,
    Range,
    Row,
    accused,
    catches,
    kept_of,
    names_of,
    seen_in,
    table,
)
from maxq.harness.experiments.simulate import SeedResult
from maxq.harness.run import provenance
from maxq.reference import mutants

BUG, OTHER = "ack_before_write", "lock_without_quorum"
DEAF = "unheard_never_dead"  # what it breaks is a claim of liveness
S6, L1 = {"S6/lost-tail": 3}, {"L1/two-owners": 1}


def told(seed: int, found: Mapping[str, int] | None = None, **more: Any) -> SeedResult:
    said = {"source": provenance.digest(), **more}
    return SeedResult(seed=seed, valid=not found, found=dict(found or {}), **said)


def written(folder: Path, *lines: tuple[str, SeedResult]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, seen in lines:
        append(folder / JOURNAL, kept_of(name, seen))
    return folder


def gone_on(folder: Path, *names: str, budget_ns: int | None = -1) -> tuple[list[Row], list[str]]:
    """The rows, and what was said; without a budget nothing may be left to run."""
    said: list[str] = []
    campaign = MutantCampaign(folder, jobs=1, names=names)
    campaign.run(budget_ns=budget_ns, say=said.append)
    return list(campaign.rows()), said


def ranges(*counts: int, found: Mapping[str, int] = S6) -> list[tuple[str, SeedResult]]:
    """Each range: so many seeds, of which the last was caught."""
    lines = []
    for first, count in zip(RANGES, counts, strict=True):
        lines += [(BUG, told(first + n, reached="ran")) for n in range(count - 1)]
        lines.append((BUG, told(first + count - 1, found, reached="diverged")))
    return lines


def test_the_median_of_the_ranges_is_how_soon_it_is_caught(tmp_path: Path) -> None:
    [row], said = gone_on(written(tmp_path, *ranges(7, 1, 3)), BUG, budget_ns=None)
    assert said == [], "all ranges have come to their end"
    assert (row.after, row.whole, row.fate) == (3, True, "caught")
    assert (row.seeds, row.ran, row.diverged) == (11, 11, 3)
    assert (row.safety, row.rightly, row.liveness) == (3, 3, 0)
    assert row.about == mutants.about(BUG)


def test_another_claim_catches_as_well_but_not_rightly(tmp_path: Path) -> None:
    [row], _ = gone_on(written(tmp_path, *ranges(1, 2, 2, found=L1)), BUG, budget_ns=None)
    assert (row.safety, row.rightly, row.caught) == (3, 0, True)


def test_liveness_catches_who_breaks_liveness(tmp_path: Path) -> None:
    stuck = [(DEAF, told(first, {"S13b/no-master": 1}, reached="ran")) for first in RANGES]
    [row], said = gone_on(written(tmp_path, *stuck), DEAF, budget_ns=None)
    assert said == []
    assert (row.safety, row.rightly, row.liveness) == (0, 3, 3)
    assert (row.after, row.fate) == (1, "caught")


def test_ranges_that_go_on_are_told_and_nothing_begins_after_the_budget(tmp_path: Path) -> None:
    some = [*ranges(2, 1, 1)[:3], (OTHER, told(0))]
    rows, said = gone_on(written(tmp_path, *some), BUG, OTHER)
    assert said == ["the budget is spent; run the same command again to go on"]
    assert [(r.seeds, r.whole) for r in rows] == [(3, False), (1, False)]
    assert [r.after for r in rows] == [2, None], "two ranges of three say 2 or sooner"
    text = list(table(rows))
    assert text[-1].startswith("not finished: the medians of 2 mutants")


def test_a_range_ends_where_its_seeds_do(tmp_path: Path) -> None:
    """A seed beyond a gap is of no range yet; a catch before it counts."""
    lines = [
        (BUG, told(0)),
        (BUG, told(2, S6)),
        (BUG, told(RANGES[1])),
        (BUG, told(RANGES[1] + 1, S6)),
        (BUG, told(RANGES[2], S6)),
    ]
    [row], _ = gone_on(written(tmp_path, *lines), BUG)
    assert not row.whole
    assert row.after == 2


def test_a_range_that_cannot_move_the_median_ends(tmp_path: Path) -> None:
    """Two ranges say 2 or sooner; the third has had two seeds, and may take as many as it likes."""
    lines = [*ranges(2, 1, 3)[:-1]]
    [row], said = gone_on(written(tmp_path / "two", *lines), BUG, budget_ns=None)
    assert (row.after, row.whole, said) == (2, True, [])
    [row], _ = gone_on(written(tmp_path / "one", *lines[:-1]), BUG)
    assert (row.after, row.whole) == (2, False), "its second seed may say 1"
    never = [(BUG, told(first + n)) for first in RANGES[1:] for n in range(LIMIT)]
    [row], said = gone_on(written(tmp_path / "never", lines[0], *lines[:2], *never), BUG)
    assert (row.after, row.whole, row.caught, said) == (None, True, True, [])


def survivor(folder: Path, **more: Any) -> Row:
    lines = [(BUG, told(first + n, **more)) for first in RANGES for n in range(LIMIT)]
    [row], said = gone_on(written(folder, *lines), BUG, budget_ns=None)
    assert said == []
    assert row.whole
    assert row.after is None
    return row


@pytest.mark.parametrize(
    ("more", "fate"),
    [
        ({}, "never reached"),
        ({"reached": "ran"}, "reached without effect"),
        ({"reached": "diverged"}, "unseen"),
        ({"reached": "diverged", "found": {"S13/no-master": 1}}, "caught by other means"),
        ({"reached": "diverged", "oracle": {"two-masters": 1}}, "caught by other means"),
        ({"oracle": {"node-invariant": 1}}, "caught by other means"),
    ],
)
def test_the_fates_of_those_that_no_checker_catches(
    tmp_path: Path, more: dict[str, Any], fate: str
) -> None:
    row = survivor(tmp_path, **more)
    assert row.fate == fate
    assert row.safety == 0
    assert row.seeds == 3 * LIMIT
    assert row.caught_by_any == (fate == "caught by other means")


def test_a_journal_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    folder = written(tmp_path, *ranges(1, 1, 1))
    whole = (folder / JOURNAL).read_bytes()
    (folder / JOURNAL).write_bytes(whole[:-9])
    [row], said = gone_on(folder, BUG)
    assert (row.seeds, len(said)) == (2, 1)
    assert (folder / JOURNAL).read_bytes() == b"".join(whole.splitlines(keepends=True)[:2])
    unknown = written(tmp_path / "other", ("a_mutant_that_was", told(0, S6)), *ranges(1, 1, 1))
    assert gone_on(unknown, BUG, budget_ns=None)[0] == gone_on(
        written(tmp_path / "same", *ranges(1, 1, 1)), BUG, budget_ns=None
    )[0]  # fmt: skip


def test_short_limits_come_first() -> None:
    """A budget that ends early has seen every mutant, and of each every range."""
    campaign = MutantCampaign(Path(), jobs=2, names=(BUG, OTHER))
    every = [Range(name, first) for name in (BUG, OTHER) for first in RANGES]
    at_work: list[Range] = []
    while (job := campaign._next(at_work)) is not None:
        at_work.append(job)
    assert at_work == every, "one seed of each range at a time"
    campaign._results[BUG] = {n: told(n) for n in range(STAGES[0])}
    assert campaign._next([]) == Range(OTHER, RANGES[0]), "it has had fewer"
    assert campaign._next(every[3:]) == Range(BUG, RANGES[1])
    assert campaign._next(every[1:]) == Range(BUG, RANGES[0]), "a longer limit's"
    campaign._results[OTHER] = {
        0: told(0, S6),
        **{RANGES[1] + n: told(n) for n in range(STAGES[0])},
    }
    assert campaign._next([]) == Range(BUG, RANGES[1]), "nothing has caught it yet"
    assert list(STAGES) == sorted(STAGES)
    assert STAGES[-1] == LIMIT


def test_a_line_keeps_what_the_table_needs() -> None:
    seen = told(0, S6, reached="ran", oracle={"two-masters": 1}, factors={"disk": "slow"})
    line = msgspec.convert(kept_of(BUG, seen), Line)
    assert line == Line(BUG, msgspec.structs.replace(seen, factors={}))
    assert len(msgspec.json.encode(kept_of(BUG, told(0)))) < 120


def test_who_accuses() -> None:
    seen = told(1, {**S6, "S13/no-master": 1, "S14b/x": 2, "failed/KeyError": 1})
    assert accused(seen) == {"S6", "S13", "S14b"}
    late = told(1, {"S13/no-master": 1, "failed/KeyError": 1})
    assert catches(seen, mutants.about(BUG))
    assert not catches(late, mutants.about(BUG)), "whoever loses messages must be caught at it"
    assert catches(late, mutants.about(DEAF))
    assert catches(told(1, L1), mutants.about(DEAF))
    assert not catches(told(1), mutants.about(DEAF))
    assert seen_in(told(1, S6, oracle={"two-masters": 1})) == "S6/lost-tail, oracle/two-masters"
    assert seen_in(told(1, reached="ran")) == "ran"
    assert seen_in(told(1)) == "not reached"


def test_the_table(tmp_path: Path) -> None:
    rows, _ = gone_on(written(tmp_path, *ranges(7, 1, 3)), BUG, OTHER)
    head, rule, bug, other, empty, caught, anyhow, left = table(rows)
    assert head.count("|") == rule.count("|") == bug.count("|") == other.count("|") == 14
    about = mutants.about(BUG)
    assert bug == (
        f"| {BUG} | {about.family} | {about.claim} | 11 | 11 | 3 | 3 | 3 | 0 | 0 | 0 | 3 | caught |"
    )
    assert other.endswith("| 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | - | never reached |")
    assert empty == ""
    assert caught.endswith(": 1 of 2 (9% to 91%)")
    assert anyhow == "caught by all means: 1 of 2 (9% to 91%)"
    assert left.startswith("not finished: the medians of 1 mutants")


def test_all_mutants_take_part_if_none_are_named() -> None:
    assert [r.about.name for r in MutantCampaign(Path(), jobs=1).rows()] == mutants.names()


def test_those_of_one_mode_take_part() -> None:
    pairs, others, contained = map(names_of, ("pair", "controllers", "container"))
    assert ("all_slaves_act" in pairs, "term_forgotten" in others) == (True, True)
    assert sorted((*pairs, *others, *contained)) == sorted(mutants.names())
    assert "absent_removed" in contained
