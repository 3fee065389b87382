"""A history that several processes make is the same to the byte, or is not there at all."""

import errno
import os
from pathlib import Path
from typing import NamedTuple

import pytest

from maxq.workloads.generated.asked.request import Format, Request
from maxq.workloads.generated.columns.rows import Batch
from maxq.workloads.generated.columns.sinks import Chunk
from maxq.workloads.generated.planning import planned
from maxq.workloads.generated.sharing import Coming
from maxq.workloads.generated.writing import generate

SMALL = Request(workload="queue", ops=200)


@pytest.mark.parametrize(
    ("request_", "to"),
    [
        (
            Request(
                workload="queue", ops=40_000, seed=7, concurrency=25,
                anomalies={"lost-write": 5, "phantom": 2, "two-masters": 1, "log-diverged": 1},
            ),
            "parquet",
        ),
        (Request(workload="replicas", ops=9_000, anomalies={"lost-tail": 1}), "jsonl"),
    ],
)  # fmt: skip
def test_any_number_of_processes_gives_the_same_bytes(
    tmp_path: Path, request_: Request, to: Format
) -> None:
    files = []
    for jobs in (1, 2, 3):
        out = tmp_path / str(jobs)
        written = generate(request_, out, lambda outcome: {"main_ns": outcome.main_ns}, to, jobs)
        assert all(p.ops for p in written.planted if p.kind != "phantom")
        files.append({p.name: p.read_bytes() for p in out.iterdir()})
    assert files[0] == files[1] == files[2]
    assert len(files[0]) == (3 if to == "parquet" else 4)


class Failing(NamedTuple):
    """A form that nothing can be written in: with an error, or by the end of the process."""

    number: int

    def chunks(self, batch: Batch, first: int) -> list[Chunk]:
        if not self.number:
            os._exit(9)
        raise OSError(self.number, os.strerror(self.number))


@pytest.mark.parametrize(
    ("number", "why"),
    [(errno.ENOSPC, "No space left on device"), (0, "a process that makes a part .* ended")],
)
def test_a_process_that_fails_ends_all(number: int, why: str) -> None:
    plan, _ = planned(SMALL)
    coming = Coming(SMALL, plan, Failing(number), None)
    with pytest.raises(OSError, match=why):
        list(coming.chunks(2))
