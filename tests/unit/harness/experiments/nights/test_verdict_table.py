"""Verdicts as tables: their columns are an interface."""

from pathlib import Path

import pyarrow.parquet as pq
from entries_made import run

from maxq.harness.experiments.nights.verdict_table import CLAIMS, RECOVERIES, write_tables


def test_a_row_a_claim_and_a_row_a_fault(tmp_path: Path) -> None:
    anomalies = {"S6": {"lost-tail": 2, "lost-head": 1}}
    one = run(7, claims={"S6": "broken", "S1": "kept"}, anomalies=anomalies, lost=3,
              took_s=(1.5, None))  # fmt: skip
    other = run(8, claims={"S6": "not judged"}, lost=None, settings={"nemesis": "kill, pause"})
    write_tables([one, other], tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / CLAIMS).to_pylist()
    assert [(r["run"], r["claim"], r["status"], r["lost"]) for r in rows] == [
        ("queue/7", "S6", "broken", 3), ("queue/7", "S1", "kept", 3),
        ("queue/8", "S6", "not judged", None),
    ]  # fmt: skip
    assert rows[0]["anomalies"] == [("lost-head", 1), ("lost-tail", 2)]
    assert (rows[0]["release"], rows[0]["seed"], rows[0]["title"]) == (
        "rocketmq:5.5.0", 7, "no acknowledged message lost",
    )  # fmt: skip
    assert rows[2]["faults"] == ["kill", "pause"]
    faults = pq.read_table(tmp_path / "out" / RECOVERIES).to_pylist()
    assert [(r["fault"], r["struck"], r["recovered_s"], r["watched_s"]) for r in faults] == [
        ("kill", "master", 1.5, 10.0), ("kill", "master", None, 10.0),
    ]  # fmt: skip


def test_a_run_whose_folder_says_nothing_has_no_rows(tmp_path: Path) -> None:
    nameless = run(claims={}, started="some day", settings={"seed": "x"}, recoveries=None)
    write_tables([nameless], tmp_path)
    assert pq.read_table(tmp_path / CLAIMS).num_rows == 0
    assert pq.read_table(tmp_path / RECOVERIES).num_rows == 0
