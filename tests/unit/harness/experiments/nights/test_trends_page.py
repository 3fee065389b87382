"""The page of what changed: text is text, and every number has its ground."""

from entries_made import nights, run

from maxq.harness.experiments.nights.changes import changes
from maxq.harness.experiments.nights.trends_page import page, preface

EVIL = "<script>alert(1)</script>"


def test_losses_and_times_stand_by_fault_and_release() -> None:
    before = [run(n, took_s=(1.0, 1.2)) for n in range(3)]
    now = [run(lost=2, took_s=(None,), claims={"S6": "broken"}), run(1, lost=None)]
    found = nights(before, now)
    text = page(found, changes(found))
    assert "0 of 3 (0% to 56%); 0 of 300 messages" in text
    assert "1 of 1 (21% to 100%); 2 of 100 messages" in text, "what is not judged does not count"
    assert "kill of a master" in text
    assert "longer than watched of 1, 1 not while watched" in text
    assert "... X." in text
    assert preface(found, changes(found)) == [
        "The newest night, night 2 (2 runs), beside 1 night before (3 runs).", "1 worse.",
    ]  # fmt: skip


def test_seeded_bugs_are_no_losses_of_a_release() -> None:
    bug = run(lost=9, claims={"S6": "broken"}, settings={"mutant": "m"})
    found = nights([run(), bug], [run(), bug])
    assert "9 of" not in page(found, changes(found))


def test_what_runs_say_is_text() -> None:
    one = run(name=EVIL, settings={"target": EVIL, "nemesis": EVIL}, claims={EVIL: "broken"})
    fine = run(settings={"target": EVIL, "nemesis": EVIL}, claims={EVIL: "kept"})
    found = nights([fine], [one])
    assert "<script>" not in page(found, changes(found))


def test_one_night_says_that_there_is_nothing_to_compare() -> None:
    found = nights([run()])
    [said] = preface(found, [])
    assert said == "There is one night, night 1 (1 run): there is nothing to compare it with."
    assert "Changes" not in page(found, [])
