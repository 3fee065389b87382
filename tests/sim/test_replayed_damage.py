"""Accidents with stores, done again as they were performed."""

from pathlib import Path

import pytest

from maxq.harness.run.replay import script_of
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import run_test
from maxq.harness.schedule.format import Act, Header, Load, Schedule, When, Who
from maxq.harness.schedule.options import Options

PATH = "commitlog/00000000000000000000"


@pytest.mark.parametrize(
    ("f", "place"), [("flip-bit", {"at": 0.5}), ("flip-bit", {"bit": 0}), ("cut-file", {"to": 0})]
)
def test_the_place_in_a_file_is_kept(tmp_path: Path, f: str, place: dict[str, float]) -> None:
    """Also a share of the file, and a place that is 0."""
    acts = (
        Act(id="k", f="kill", when=When(at=2), who=Who(nodes=("b0-1",))),
        Act(id="d", f=f, when=When(after="k", at=1), who=Who(of="k"), args={"path": PATH, **place}),
    )
    load = Load(id="w", until=6, rate=10)
    script = Schedule(header=Header(length=6, seed=1), loads=(load,), acts=acts)
    options = Options(
        environment="simulated", seed=1, workload=("queue",), nemesis=("kill", f), scripted=True,
        time_limit_ns=6_000_000_000,
    )  # fmt: skip
    judged = run_test(options, tmp_path, quiet=True, context=RunContext(script=script))
    performed, _ = script_of(judged.stored.path, performed=True)
    [again] = [act for act in performed.acts if act.f == f]
    assert again.args == {"path": PATH, **place}
