"""Journals of what linearizable objects answered, for measurements: whatever reads ours takes them.

Calls take effect one after the other, each around its own moment, so every history is legal. Of a
share of them the answer is left out; each such client is never heard of again.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.made_transactions import moments


class Asked(NamedTuple):
    """A call and its answer."""

    f: str
    value: Any
    answer: Any
    key: str | None = None


def register(random: np.random.Generator, count: int, values: int) -> Iterator[Asked]:
    """Half writes, half reads; each value is written once, or is drawn from so many."""
    now = None
    for n in range(count):
        if random.random() < 0.5:
            yield Asked("read", None, now)
        else:
            now = int(random.integers(values)) if values else n
            yield Asked("write", now, now)


def fifo_queue(random: np.random.Generator, count: int) -> Iterator[Asked]:
    """Half puts, half takes, of which some find the queue empty."""
    put = taken = 0
    for _ in range(count):
        if random.random() < 0.5:
            put += 1
            yield Asked("enqueue", put, put)
        elif taken < put:
            taken += 1
            yield Asked("dequeue", None, taken)
        else:
            yield Asked("dequeue", None, None)


def kv(random: np.random.Generator, count: int, puts: float) -> Iterator[Asked]:
    """Half gets, half changes of a text, on `KEYS` keys; so many of the changes replace it."""
    texts = dict.fromkeys((f"k{n}" for n in range(KEYS)), "")
    for n in range(count):
        key = f"k{random.integers(KEYS)}"
        if random.random() < 0.5:
            yield Asked("get", None, texts[key], key)
            continue
        f = "put" if random.random() < puts else "append"
        part = f"{n} "
        texts[key] = part if f == "put" else texts[key] + part
        yield Asked(f, part, part, key)


KEYS = 10


def write_journal(path: Path, calls: list[Asked], concurrency: int, info: float) -> None:
    """Write a history of calls: so many clients at a time, so many of a hundred without answer."""
    random = np.random.default_rng(2)
    when = moments(random, len(calls), concurrency)
    silent = random.random(len(calls)) < info
    places: list[tuple[int, int, bool]] = []
    for n, (begun, ended) in enumerate(zip(when.begun.tolist(), when.ended.tolist(), strict=True)):
        places.append((begun, n, False))
        if not silent[n]:
            places.append((ended, n, True))
    process = np.where(silent, concurrency + np.arange(len(calls)), when.process).tolist()
    with path.open("w") as file:
        for index, (_, n, ends) in enumerate(sorted(places)):
            file.write(json.dumps(_line(index, calls[n], process[n], ends=ends)) + "\n")
        file.write(json.dumps({"end": True, "count": len(places)}) + "\n")


def _line(index: int, call: Asked, process: int, *, ends: bool) -> Mapping[str, Any]:
    said: dict[str, Any] = {
        "index": index, "time": index, "type": "ok" if ends else "invoke", "process": process,
        "f": call.f, "value": call.answer if ends else call.value,
    }  # fmt: skip
    return said if call.key is None else {**said, "key": call.key}
