"""What a test is refused for want of a library, and its plan as well."""

from pathlib import Path

import pytest

from maxq.harness.cli.given.failures import EXIT_USAGE
from maxq.harness.cli.main import run_cli
from maxq.harness.environments.machines import wrong_clock


@pytest.mark.parametrize("plan", [["--plan"], []])
@pytest.mark.parametrize("environment", ["local", "docker"])
def test_a_wrong_clock_without_its_library_is_refused_before_anything_is_started(
    environment: str,
    plan: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wrong_clock, "PLACES", ())
    code = run_cli(["test", "--env", environment, "--nemesis", "kill,clock", *plan])
    said = capsys.readouterr()
    assert (code, said.out) == (EXIT_USAGE, "")
    assert " ".join(said.err.split()).endswith(
        f"--env {environment} cannot do clock here: libfaketime, which sets clocks off, is missing "
        "(package libfaketime); --env simulated can"
    )
    assert not list(tmp_path.iterdir())


def test_a_plan_of_wrong_clocks_on_real_machines_has_no_drift(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong_clock, "found", lambda: Path("/lib/it"))
    drifts = {}
    for environment in ("local", "simulated"):
        argv = ["test", "--env", environment, "--nemesis", "clock", "--plan", "--seed", "1"]
        assert run_cli([*argv, "--json"]) == 0
        said = capsys.readouterr().out
        assert "offset_ms" in said
        drifts[environment] = "drift_ppm" in said
    assert drifts == {"local": False, "simulated": True}
