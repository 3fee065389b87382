"""Verdicts of many runs as tables for other tools: a row a claim of a run, and a row a fault.

Their columns are an interface (docs/campaigns.md): none goes or changes its meaning.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from maxq.checkers.core.titles import TITLES
from maxq.harness.experiments.overview.entries import Entry
from maxq.histories.store import beside, put_in_place

CLAIMS, RECOVERIES = "claims.parquet", "recoveries.parquet"
SHOWN_AT = "%Y-%m-%d %H:%M:%S"  # of an entry's start
NS = 1_000_000_000
OF_RUN: tuple[tuple[str, pa.DataType], ...] = (
    ("run", pa.string()),
    ("time", pa.timestamp("ms", tz="UTC")),
    ("release", pa.string()),
    ("environment", pa.string()),
    ("profile", pa.string()),
    ("workloads", pa.list_(pa.string())),
    ("faults", pa.list_(pa.string())),
    ("seed", pa.int64()),
    ("mutant", pa.string()),
    ("settings", pa.string()),
)
CLAIM_ROWS = pa.schema((
    *OF_RUN,
    ("verdict", pa.string()),
    ("claim", pa.string()),
    ("title", pa.string()),
    ("status", pa.string()),
    ("anomalies", pa.map_(pa.string(), pa.int64())),
    ("acknowledged", pa.int64()),
    ("lost", pa.int64()),
))  # fmt: skip
RECOVERY_ROWS = pa.schema((
    *OF_RUN,
    ("fault", pa.string()),
    ("struck", pa.string()),
    ("at_s", pa.float64()),
    ("recovered_s", pa.float64()),
    ("watched_s", pa.float64()),
    ("failed_over", pa.bool_()),
))  # fmt: skip


def started_at(entry: Entry) -> datetime | None:
    """When a run began; None where its folder's name does not say."""
    try:
        return datetime.strptime(entry.started, SHOWN_AT).replace(tzinfo=UTC)
    except ValueError:
        return None


def write_tables(runs: Sequence[Entry], folder: Path) -> None:
    """Write both tables into a folder, each whole or not at all.

    Raises:
        OSError: the folder does not take them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema, rows in (
        (CLAIMS, CLAIM_ROWS, _claim_rows(runs)),
        (RECOVERIES, RECOVERY_ROWS, _recovery_rows(runs)),
    ):
        table = pa.Table.from_pylist(list(rows), schema=schema)
        pq.write_table(table, beside(folder / name))
        put_in_place(beside(folder / name), folder / name)


def _of_run(entry: Entry) -> dict[str, Any]:
    s = entry.settings
    named = ("target", "env", "profile", "workload", "nemesis", "seed", "mutant")
    return {
        "run": entry.name,
        "time": started_at(entry),
        "release": s.get("target", ""),
        "environment": s.get("env", ""),
        "profile": s.get("profile", ""),
        "workloads": [w for w in s.get("workload", "").split(", ") if w],
        "faults": [f for f in s.get("nemesis", "").split(", ") if f],
        "seed": int(s["seed"]) if s.get("seed", "").isdigit() else None,
        "mutant": s.get("mutant", ""),
        "settings": "; ".join(f"{k} {v}" for k, v in s.items() if k not in named),
    }


def _claim_rows(runs: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    for run in runs:
        own = _of_run(run)
        for claim, status in run.claims.items():
            yield {
                **own,
                "verdict": run.state,
                "claim": claim,
                "title": TITLES.get(claim, ""),
                "status": status,
                "anomalies": sorted(run.anomalies.get(claim, {}).items()),
                "acknowledged": run.messages.acknowledged,
                "lost": run.messages.lost,
            }


def _recovery_rows(runs: Sequence[Entry]) -> Iterator[dict[str, Any]]:
    for run in runs:
        own = _of_run(run)
        for found in run.recoveries or ():
            yield {
                **own,
                "fault": found.f,
                "struck": found.part,
                "at_s": found.at_ns / NS,
                "recovered_s": None if found.after_ns is None else found.after_ns / NS,
                "watched_s": found.sent_ns / NS,
                "failed_over": found.failed_over,
            }
