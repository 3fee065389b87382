"""Clusters of several releases of Apache RocketMQ, and of theirs and ours, as `maxq upgrade` has
them: the impossible one never comes up, and a node goes on as ours on the store that it has."""

from pathlib import Path

import pytest
from local_cluster import missing

from maxq.harness.experiments.upgrade.trials import Job, measure
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import run_test
from maxq.harness.schedule.format import Act, Header, Load, Schedule, When, Who

pytestmark = [pytest.mark.rocketmq, pytest.mark.campaign, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def namespaces() -> None:
    why = missing()
    if why:
        pytest.skip(why)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("5.1.1-under-5.1.0", "never up"),
        ("5.1.1-under-reference", "switches"),
        ("reference-under-5.1.1", "switches"),
    ],
)
def test_what_is_documented_of_two_releases_is_seen(
    name: str, expected: str, tmp_path: Path
) -> None:
    found = measure(Job(name=name, profile="P-SAFE", environment="local"), tmp_path)
    assert found.shows(expected), (found.seen, found.error)  # type: ignore[arg-type]


def test_a_name_server_and_a_controller_become_another_release_under_load(
    release: str, tmp_path: Path
) -> None:
    as_ours = {"release": "reference"}
    acts = (
        Act(id="n", f="replace-release", when=When(at=3), who=Who(nodes=("n0",)), args=as_ours),
        Act(id="s", f="stop", when=When(after="n", at=3), who=Who(nodes=("c0",))),
        Act(id="r", f="start", when=When(after="s", at=1), who=Who(of="s"),
            args={"release": release}),
    )  # fmt: skip
    script = Schedule(
        header=Header(length=40, options={"workload": ["queue"], "profile": "P-SAFE"}),
        loads=(Load(id="w", until=40, rate=20), Load(id="p", f="poll", until=40, rate=4)),
        acts=acts,
    )
    options = options_for(script, "local", target=f"rocketmq:{release}")
    judged = run_test(options, tmp_path, quiet=True, context=RunContext(script=script))
    done = {op.f: op.value for op in judged.stored.history.nemesis if isinstance(op.value, dict)}
    replaced = done["replace-release"]["n0"]
    assert (replaced["holds"], replaced["version"], replaced["command"]) == (True, "5.3.3", True)
    assert judged.results.valid is not False
