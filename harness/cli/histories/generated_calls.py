"""Writes a history of calls that was generated, and what was planted in it."""

from pathlib import Path
from typing import Any

import msgspec

from maxq.harness.run.rejudge import encode_jsonl
from maxq.histories.parquet import encode_parquet
from maxq.histories.store import write_json, write_whole
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.of_models.making import Made
from maxq.workloads.of_models.request import ModelRequest

PLANTED = "planted.json"


def write(request: ModelRequest, made: Made, out: Path, to: Any) -> Path:
    """Write both into a new folder; where the history is.

    Raises:
        Refusal: something is there already.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise Refusal(f"{out} is there already")
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"history.{to}"
    name = f"{request.model}-{request.seed}"
    write_whole(path, encode_jsonl(made.ops) if to == "jsonl"
                else encode_parquet(made.ops, run_id=name))  # fmt: skip
    planted = [{"kind": wrong.kind, "ops": wrong.ops} for wrong in made.planted]
    write_json(out / PLANTED, {"request": msgspec.to_builtins(request), "planted": planted})
    return path
