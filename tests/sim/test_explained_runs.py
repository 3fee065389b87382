"""What a loss needs is tried: two faults of which each suffices, and one that has nothing to do."""

from pathlib import Path

import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.experiments.explain import explain
from maxq.harness.experiments.simulate import simulated
from maxq.harness.run.explained import Explained
from maxq.harness.run.replay import options_for
from maxq.harness.schedule.format import Act, Header, Load, Schedule, When, Who, encode


def cut(name: str, at: float) -> tuple[Act, Act]:
    """The master is parted from the controllers, for a while."""
    who = Who(part="master")
    begun = Act(id=name, f="start-partition", when=When(at=at), who=who,
                args={"from": "controllers"})  # fmt: skip
    healed = Act(id=f"{name}.h", f="stop-partition", when=When(at=11.0), who=Who(of=name))
    return begun, healed


SCRIPT = Schedule(
    header=Header(
        length=13.0,
        seed=4,
        options={"workload": ["queue"], "mutant": "ack_without_replicas", "profile": "P-SAFE"},
    ),
    loads=(Load(id="w", until=13.0, rate=20), Load(id="r", f="poll", until=13.0, rate=4)),
    acts=(
        Act(id="n", f="kill", when=When(at=1.0), who=Who(part="namesrv")),
        Act(id="n.h", f="start", when=When(at=1.5), who=Who(of="n")),
        *cut("a", 3.0),
        *cut("b", 3.1),
    ),
)


@pytest.fixture(scope="module")
def explained() -> Explained:
    options = options_for(SCRIPT, "simulated")
    run = simulated(SCRIPT, options)
    [one, *_] = explain(run.history, options, run.results.findings[:1], jobs=2)
    return one


def test_of_two_that_suffice_one_is_enough_and_without_it_the_other_does_it(
    explained: Explained,
) -> None:
    assert explained.reduced
    assert len(explained.enough) == 1
    assert explained.acts[0].startswith("start-partition of b0-")
    assert explained.gone is False
    assert "blamed on the start-partition" in explained.instead[0]
    assert (explained.of, explained.rate) == (3, (5, 5))


def test_it_is_asked_for_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "two.jsonl"
    script.write_bytes(encode(SCRIPT))
    assert run_cli(["replay", str(script), "--store", str(tmp_path), "--explain"]) == 1
    told, progress = capsys.readouterr()
    assert "enough: start-partition of b0-" in told
    assert "The whole run without it shows the finding too" in told
    assert "explain: repetition 2" in progress
    page = (tmp_path / "latest" / "report.html").read_text()
    assert "Causes, tried" in page
    assert run_cli(["test", "--env", "local", "--explain"]) == 254
