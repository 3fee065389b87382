"""Writes a generated history as a run's folder: whole, or not at all."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from maxq.histories.store import CONFIG, write_json, write_whole
from maxq.workloads.generated.asked.request import Format, Planted, Request
from maxq.workloads.generated.columns.folder import new_folder, refuse_used, sink_in
from maxq.workloads.generated.columns.spool import Spool
from maxq.workloads.generated.history import Maker
from maxq.workloads.generated.planning import planned
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


def generate(request: Request, out: Path, config: Config, to: Format = "parquet") -> Written:
    """Make a history and write its folder.

    Args:
        request: what is asked for.
        out: the folder, which must not be there, or be empty.
        config: what its config.json says, by what came of it.
        to: the form of the history.

    Raises:
        Refusal: it cannot be made, or the folder is not empty; nothing is written.
    """
    request.checked()
    refuse_used(out)
    plan, outcome = planned(request)
    with new_folder(out) as part:
        written = _write(request, plan, outcome.rows, part, to)
        write_json(part / CONFIG, config(outcome))
        described = {"request": msgspec.to_builtins(request), "planted": list(written.planted)}
        text = msgspec.json.format(msgspec.json.encode(described), indent=2)
        write_whole(part / PLANTED, text + b"\n")
    return written


def _write(
    request: Request, plan: Mapping[int, Any], rows: int, folder: Path, to: Format
) -> Written:
    sink = sink_in(folder, to, f"generated/{request.workload}-{request.seed}", rows)
    spool = Spool(folder, request.sets)
    maker = Maker(request, plan, spool)
    try:
        for piece in maker.pieces():
            batch = piece.batch()
            if len(batch) != piece.rows:
                raise AssertionError(f"{len(batch)} rows, {piece.rows} counted")
            sink.write(batch)
    finally:
        sink.close()
        spool.close()
    if sink.count != rows:
        raise AssertionError(f"{sink.count} rows, {rows} planned")
    found = maker.world.outcome
    return Written(rows, found.ops, tuple(p for _, p in sorted(found.planted.items())))
