"""A verdict as it is printed: for people in a screen, or as JSON."""

import json
import re
from pathlib import Path

import pytest
from small import SMALL_ARGS

from maxq.harness.cli.main import run_cli

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def invalid_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("invalid")
    words = ("test", "--environment", "simulated", *SMALL_ARGS, "--seed", "1")
    more = ("--time-limit", "15s", "--mutant", "ack_before_write", "--store", str(folder))
    assert run_cli([*words, *more]) == 1
    return (folder / "latest").resolve()


def maxq(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, str, str]:
    code = run_cli([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


def fields_of(page: str) -> list[str]:
    """The fields that its tables name first."""
    return [f for line in page.splitlines() if line.startswith("| `")
            for f in re.findall("`([a-z_]+)`", line.split("|")[1])]  # fmt: skip


def test_json_is_the_documented_shape(
    invalid_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = maxq(capsys, "check", invalid_run, "--json")
    assert (code, err) == (1, "")
    told = json.loads(out)
    assert list(told)[:3] == ["run", "valid", "verdict"]
    page = (ROOT / "docs" / "json.md").read_text()
    whole, *parts = page.split("\nA row of ")
    assert sorted(fields_of(whole)) == sorted(told)
    for part in parts:
        [name] = re.findall("`([a-z]+)`", part.partition("\n")[0])[:1]
        assert told[name] or name == "power", name
        assert all(set(row) <= set(fields_of(part)) for row in told[name]), name
    row = told["first"][0]
    assert row["found"] <= row["of"] == told["acknowledged"]
    assert told["verdict"].startswith("INVALID: ")
    assert told["lost"] <= told["acknowledged"]
    assert (told["run"], told["valid"]) == (str(invalid_run), False)
    [s6] = [claim for claim in told["claims"] if claim["claim"] == "S6"]
    assert (s6["status"], sum(s6["found"].values()) > 0) == ("broken", True)
    assert told["repeat"].startswith("maxq test ")
    assert all({"claim", "name", "signature", "ops", "story"} <= set(a) for a in told["anomalies"])
    assert {f["f"] for f in told["faults"]} >= {"kill", "start", "await-recovery"}
    lost = next(a for a in told["anomalies"] if a["name"].startswith("lost"))
    assert lost["story"].count("{") == 0, "plain words"


def test_an_invalid_run_is_told_to_people(
    invalid_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = maxq(capsys, "check", invalid_run)
    assert code == 1
    lines = out.splitlines()
    assert lines[0].startswith("verdict: INVALID: ")
    assert "acknowledged messages" in lines[0]
    assert sum(-(-len(line) // 100) or 1 for line in lines) <= 20
    said = " ".join(out.split())
    for part in ("acknowledged by b0-", "in epoch", "blamed: ", "kill b", "claims:", "report:"):
        assert part in said
    code, out, _ = maxq(capsys, "check", invalid_run, "-v")
    assert code == 1
    assert "S6 lost-" in out
    assert "kill of b" in out
    assert "recovery: " in out
