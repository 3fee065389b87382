"""Puts the page into a run's folder."""

from pathlib import Path

from maxq.harness.report.evidence import Evidence
from maxq.harness.report.page import render
from maxq.histories.store import REPORT, write_whole


def write_report(evidence: Evidence, folder: Path) -> Path:
    """Write the report, whole or not at all; where it is.

    Raises:
        OSError: the folder does not take it.
    """
    path = folder / REPORT
    write_whole(path, render(evidence).encode())
    return path
