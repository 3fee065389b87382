"""A sample of what ``python -m benchmarks.planted`` does; the whole of it is a campaign."""

from random import Random

import click
import pytest
from click.testing import CliRunner

from benchmarks.harmless_edits import EDITS, edited
from benchmarks.planted import blamed, correct, judged, plant, planted
from maxq.harness.run.judging import judge
from maxq.histories.history import History
from maxq.workloads.generated.asked.kinds import KINDS, WORKLOADS
from maxq.workloads.generated.asked.request import PLACES, At, Request

EDITED = 6


@pytest.mark.parametrize("number", range(len(KINDS)), ids=list(KINDS))
def test_each_kind_is_found(number: int) -> None:
    kind = [*KINDS.values()][number]
    place: At = PLACES[number % len(PLACES)]  # type: ignore[assignment]
    row, wrong = plant(kind, place, 2, seed=7)
    assert not wrong
    assert row.found == row.planted >= row.histories == 2


def test_nobody_is_blamed_in_correct_histories_of_all_workloads() -> None:
    every = [judged(request) for request in correct(4 * len(WORKLOADS), seed=11)]
    assert {one.request.workload for one in every} == {*WORKLOADS}
    for one in every:
        assert one.results.valid is True, one.results.whys
        assert not blamed(one.results)


def test_nobody_is_blamed_after_harmless_edits() -> None:
    tried = set()
    for n, request in enumerate(correct(EDITED, seed=23)):
        one = judged(request)
        for name, ops in edited(one.ops, Random(n)):
            if ops is not None:
                tried.add(name)
                assert not blamed(judge(one.options, History(ops))), (name, request)
    assert tried == {edit.__name__ for edit in EDITS}
    assert all(edit.__doc__ for edit in EDITS)
    assert len(EDITS) >= 20


def test_a_blamed_history_would_be_seen() -> None:
    one = judged(Request(workload="queue", ops=100, anomalies={"lost-write": 1}, seed=1))
    assert "lost-write" in blamed(one.results)
    assert one.names_of(one.planted[0]) == {"lost-write"}
    assert not one.strange()
    assert one._replace(planted=()).strange() >= {"lost-write"}


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_everything_is_found_and_nobody_is_blamed() -> None:
    command: click.Command = planted
    done = CliRunner().invoke(command, [])
    assert done.exit_code == 0, done.output
