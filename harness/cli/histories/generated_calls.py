"""Writes a history of calls that is generated, and what was planted in it."""

from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from maxq.histories.store import write_json
from maxq.workloads.generated.columns.folder import form_of, new_folder, sink_in
from maxq.workloads.generated.columns.rows import lay_out
from maxq.workloads.of_models.calls import Wrong
from maxq.workloads.of_models.making import Making
from maxq.workloads.of_models.request import ModelRequest

PLANTED = "planted.json"


class Written(NamedTuple):
    """Where the history is, how many operations it has, and what was planted."""

    path: Path
    ops: int
    planted: tuple[Wrong, ...]


def write(request: ModelRequest, making: Making, out: Path, to: Any) -> Written:
    """Write both into a new folder, as the history is made.

    Raises:
        Refusal: something is there already, or the history cannot be made; nothing is written.
    """
    ops = 0
    with new_folder(out) as part:
        form, sink = form_of(to, f"{request.model}-{request.seed}"), sink_in(part, to)
        try:
            for acts in making.rounds:
                ops += len(acts)
                for chunk in form.chunks(lay_out(None, acts).batch, sink.count):
                    sink.put(chunk)
        finally:
            sink.close()
        planted = [{"kind": wrong.kind, "ops": wrong.ops} for wrong in making.planted]
        write_json(part / PLANTED, {"request": msgspec.to_builtins(request), "planted": planted})
    return Written(out / f"history.{to}", ops, tuple(making.planted))
