"""What settings lose: a run for each fault, one table."""

import re
from pathlib import Path

import pytest

from maxq.checkers.judgement.lost import Lost
from maxq.harness.cli.main import run_cli
from maxq.harness.experiments.losses import Row, table

CONF = "enableControllerMode=true\nallAckInSyncStateSet=true\nbrokerName=broker-a\n"


def row(fault: str, **more: object) -> Row:
    return Row(fault=fault, repeat="maxq test", source="x", **more)  # type: ignore[arg-type]


def test_a_row_says_what_was_lost_and_for_how_long_nothing_was_taken() -> None:
    some = Lost(lost=12, acknowledged=1839, gone=3, why="")
    unread = Lost(acknowledged=697, never_read=697, why="unseen: 697")
    lines = list(
        table(
            [
                row(
                    "kill",
                    valid=True,
                    strikes=4,
                    struck={"master": 3},
                    messages=some,
                    unavailable_ms=3210,
                ),
                row("pause", valid=False, strikes=2, broken=("S6", "S9"), messages=unread),
                row("disk", messages=unread),
                row("stop", error="SetupFailed: no"),
            ]
        )
    )
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[2] == ["kill", "4", "12 of 1,839", "3", "3.2 s", "none"]
    unread_of = "not judged (697 never read)"
    broken = (
        "no acknowledged message lost (S6) and members of the SyncStateSet hold every message (S9)"
    )
    assert cells[3] == ["pause", "2", unread_of, "not judged", "the rest of the run", broken]
    assert cells[4][1:5] == ["0", unread_of, "not judged", "not measured (no strike)"]
    assert cells[5] == ["stop", "-", "the run did not come up", "-", "-", "-"]
    assert len({len(line) for line in lines[:6]}) == 1
    assert lines[6:8] == ["", "- kill: struck master 3"]
    assert lines[-1] == "\nstop: SetupFailed: no", "and why it did not"


def test_from_a_file_to_the_table_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broker.conf").write_text(CONF)
    words = ["losses", "--env", "simulated", "--broker-conf", str(tmp_path / "broker.conf"),
             "--store", str(tmp_path), "--time-limit", "6s", "--nemesis", "kill,power"]  # fmt: skip
    assert run_cli(words) in (0, 2)
    first = capsys.readouterr()
    assert "as shipped, with broker:allAckInSyncStateSet=true" in first.out
    assert "=SYNC_FLUSH" not in first.out, "also where power is lost"
    assert [line.split()[1] for line in first.out.splitlines()[4:6]] == ["kill", "power"]
    assert (tmp_path / "losses" / "losses.md").read_text() == first.out
    assert "cluster from your files: 1 broker set, 3 replicas each, 3 controllers" in first.err
    assert "not taken from the files: brokerName (names are Max-Q's)" in first.err
    assert run_cli(words) in (0, 2)
    again = capsys.readouterr()
    assert again.out == first.out
    assert "unavailable" not in again.err, "nothing is run twice"
    assert run_cli([*words, "--set", "broker:inSyncReplicas=2", "--plan"]) == 254


def test_a_fault_whose_effect_comes_late_was_in_the_way_for_as_long(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A name server drops a master that it does not hear seconds after the cut; until then sends
    are ok. Table and sentences say the same."""
    (tmp_path / "broker.conf").write_text(
        "brokerName=a\nbrokerRole=SYNC_MASTER\ntotalReplicas=2\ninSyncReplicas=2\n"
        "brokerNotActiveTimeoutMillis=5000\nenableSlaveActingMaster=true\n"
    )
    words = ["losses", "--env", "simulated", "--broker-conf", str(tmp_path / "broker.conf"),
             "--store", str(tmp_path), "--time-limit", "30s", "--nemesis", "partition",
             "--seed", "1"]  # fmt: skip
    assert run_cli(words) in (0, 2)
    out = capsys.readouterr().out
    longest = max(float(s) for s in re.findall(r"for ([\d.]+) s no send was SEND_OK", out))
    shown = float(out.splitlines()[4].split("|")[-3].split()[0])
    assert longest > 5
    assert abs(shown - longest) < 1
