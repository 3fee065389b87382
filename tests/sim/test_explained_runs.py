"""What a loss needs is tried: two faults of which each suffices, and one that has nothing to do."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.run.explained import Explained
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


class Told(NamedTuple):
    """What the command printed, its progress, and the folder of its run."""

    out: str
    progress: str
    run: Path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder, out, err = tmp_path_factory.mktemp("explained"), StringIO(), StringIO()
    script = folder / "two.jsonl"
    script.write_bytes(encode(SCRIPT))
    with redirect_stdout(out), redirect_stderr(err):
        assert run_cli(["replay", str(script), "--store", str(folder), "--explain"]) == 1
    return Told(out.getvalue(), err.getvalue(), folder / "latest")


def test_of_two_that_suffice_one_is_enough_and_without_it_the_other_does_it(told: Told) -> None:
    results = msgspec.json.decode((told.run / "results.json").read_bytes())
    explained, *_ = msgspec.convert(results["explained"], list[Explained])
    assert explained.reduced
    assert len(explained.enough) == 1
    assert explained.acts[0].startswith("start-partition of b0-")
    assert explained.gone is False
    assert "blamed on the start-partition" in explained.instead[0]
    assert (explained.of, explained.rate) == (3, (5, 5))


def test_it_is_asked_for_on_the_command_line(told: Told) -> None:
    assert "enough: start-partition of b0-" in told.out
    assert "The whole run without it shows the finding too" in told.out
    assert "explain: repetition 2" in told.progress
    assert "Causes, tried" in (told.run / "report.html").read_text()
    assert run_cli(["test", "--env", "local", "--explain"]) == 254
