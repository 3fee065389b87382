"""A fault of somebody else's on real machines: beside a partition, which its heal leaves alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from flap_fault import FACTS, FLAP
from local_cluster import missing

from maxq.checkers.evidence.acts import acts_of
from maxq.harness.report.bands import actions
from maxq.harness.run.replay import late, options_for, repeat, script_of
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged
from maxq.harness.schedule.format import Schedule, decode
from maxq.nemeses import catalogue

MISSING = missing()
pytestmark = [pytest.mark.local, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

# The flap begins and ends within the cut, and has a heal of its own at the end of the run.
SCRIPT = """\
{"item": "header", "length": 14, "options": {"workload": ["queue"], "environment": "local"}}
{"item": "load", "id": "w", "until": 14, "rate": 10}
{"item": "load", "id": "r", "f": "poll", "until": 14, "rate": 5}
{"item": "act", "id": "c", "f": "start-partition", "when": {"at": 2}, "who": {"nodes": ["b0-2"]}}
{"item": "act", "id": "f", "f": "start-flap", "when": {"at": 4}, "who": {"part": "master"}}
{"item": "act", "id": "g", "f": "stop-flap", "when": {"at": 5}, "who": {"of": "f"}}
{"item": "act", "id": "h", "f": "stop-partition", "when": {"at": 9}, "who": {"of": "c"}}
"""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    catalogue.register(FLAP)
    yield
    catalogue.forget("flap")


def performed(script: Schedule, folder: Path) -> Judged:
    [judged] = repeat(
        script, options_for(script), folder, times=1, quiet=True, context=RunContext()
    )
    return judged


def struck(judged: Judged) -> list[tuple[str, tuple[str, ...]]]:
    return [(act.f, act.nodes) for act in acts_of(judged.stored.history)]


def test_it_runs_beside_a_partition_and_is_replayed(tmp_path: Path) -> None:
    judged = performed(decode(SCRIPT.encode()), tmp_path)
    assert judged.results.valid is True, judged.results
    cut, flap = acts_of(judged.stored.history)
    assert (cut.f, flap.f) == ("start-partition", FACTS.strikes)
    assert cut.begun < flap.begun
    assert max(map(flap.over, flap.nodes)) < min(map(cut.over, cut.nodes))
    assert actions(judged.stored.history).colors[FACTS.strikes] == FACTS.color

    script, _ = script_of(judged.stored.path, performed=True)
    again = performed(script, tmp_path)
    assert struck(again) == struck(judged)
    assert late(script, again) == []
