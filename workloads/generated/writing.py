"""Writes a generated history as a run's folder: whole, or not at all."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from maxq.histories.store import CONFIG, write_json, write_whole
from maxq.workloads.generated.asked.request import Format, Planted, Request
from maxq.workloads.generated.columns.folder import form_of, new_folder, refuse_used, sink_in
from maxq.workloads.generated.planning import planned
from maxq.workloads.generated.sharing import Coming, Plan
from maxq.workloads.generated.world import Outcome

PLANTED = "planted.json"


class Written(NamedTuple):
    """What was written: rows, operations of clients in rounds, and what was planted."""

    rows: int
    ops: int
    planted: tuple[Planted, ...]

    def counts(self) -> Mapping[str, int]:
        """How many of each kind were planted."""
        return Counter(p.kind for p in self.planted)


Config = Callable[[Outcome], Mapping[str, Any]]


def generate(
    request: Request, out: Path, config: Config, to: Format = "parquet", jobs: int = 1
) -> Written:
    """Make a history and write its folder.

    Args:
        request: what is asked for.
        out: the folder, which must not be there, or be empty.
        config: what its config.json says, by what came of it.
        to: the form of the history.
        jobs: how many processes make its rows; what they make is the same for any number.

    Raises:
        Refusal: it cannot be made, or the folder is not empty; nothing is written.
    """
    request.checked()
    refuse_used(out)
    plan, outcome = planned(request)
    with new_folder(out) as part:
        written = _write(request, plan, outcome.rows, part, to, jobs)
        write_json(part / CONFIG, config(outcome))
        described = {"request": msgspec.to_builtins(request), "planted": list(written.planted)}
        text = msgspec.json.format(msgspec.json.encode(described), indent=2)
        write_whole(part / PLANTED, text + b"\n")
    return written


def _write(request: Request, plan: Plan, rows: int, folder: Path, to: Format, jobs: int) -> Written:
    form = form_of(to, f"generated/{request.workload}-{request.seed}", rows)
    sink = sink_in(folder, to)
    coming = Coming(request, plan, form, folder)
    try:
        for chunk in coming.chunks(jobs):
            sink.put(chunk)
    finally:
        sink.close()
    if sink.count != rows:
        raise AssertionError(f"{sink.count} rows, {rows} planned")
    return Written(rows, coming.ops, tuple(p for _, p in sorted(coming.planted.items())))
