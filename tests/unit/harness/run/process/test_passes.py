"""A judgement says which step goes on, and how far it is; nothing before it knows."""

import re

from maxq.harness.run.process.passes import Passes


def test_a_step_says_how_many_events_it_has_read() -> None:
    passes = Passes()
    assert passes.line() == ""
    read = passes.counted(lambda pieces: iter(["abc", "de"]), 5_000)
    passes.begins("looking")
    assert passes.line() == "looking"
    rows = read(None)
    next(rows)
    assert re.fullmatch(r"looking: 3 of 5,000 events, [\d,]+ a second", passes.line())
    assert [*rows] == ["de"]
    assert passes.line().startswith("looking: 5 of 5,000 events")
    passes.begins("judging")
    assert passes.line() == "judging"


def test_tasks_that_others_do_are_counted_by_them() -> None:
    passes, said = Passes(), ["", "3 of 8 tasks"]
    passes.done_by(lambda: said.pop(0))
    passes.begins("dealing")
    assert [passes.line(), passes.line()] == ["dealing", "dealing: 3 of 8 tasks"]
