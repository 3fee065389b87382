"""Topics that come into being during a run: judged like any other, and what fail-overs forget."""

from pathlib import Path

import pytest

from maxq.harness.contracts.cluster import Made
from maxq.harness.run.stored_run import run_test
from maxq.harness.schedule.options import Options
from maxq.histories.observed import CREATE_TOPIC, FIND_TOPIC

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize("made", ["by-sending", "during"])
def test_what_is_acknowledged_in_a_late_topic_is_judged(tmp_path: Path, made: Made) -> None:
    """S6 and S13, of topics that nobody made before the run."""
    options = Options(
        environment="simulated", seed=2, workload=("queue",), nemesis=("kill",), topics=3,
        topics_made=made, time_limit_ns=6 * SECOND_NS, rate=30.0, concurrency=4,
    )  # fmt: skip
    judged = run_test(options, tmp_path, quiet=True)
    assert judged.results.valid is True
    assert judged.results.claims["S6"].status == judged.results.claims["S13"].status == "kept"
    history = judged.stored.history
    acknowledged = {op.value[0][1] for op in history.of_f("send") if op.type == "ok"}
    assert acknowledged == {0, 1, 2, 3}
    ended = {k for op in history.of_f("poll") for k in (op.ext or {}).get("end", {})}
    assert ended == {0, 1, 2, 3}
    asked = [op for op in history.of_f(CREATE_TOPIC) if op.type == "ok"]
    assert bool(asked) is (made == "during")
    last = {op.value["key"]: op.value["known"] for op in history.of_f(FIND_TOPIC)
            if op.type == "ok"}  # fmt: skip
    everywhere = {"b0-0": True, "b0-1": True, "b0-2": True}
    assert last == {2: everywhere, 3: everywhere}
    assert judged.results.counts["late-topics:made"] == 2
