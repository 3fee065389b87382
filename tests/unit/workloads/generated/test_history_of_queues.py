"""Generated histories of queues: what our writers would write, valid, and found where planted."""

from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from generated_histories import judged

from maxq.histories.history import History, wellformed
from maxq.histories.jsonl import read_jsonl
from maxq.histories.lines.whole_table import read_parquet
from maxq.histories.parquet import encode_parquet
from maxq.histories.store import JOURNAL, PARQUET
from maxq.histories.text import encode_op
from maxq.workloads.generated.asked.kinds import KINDS
from maxq.workloads.generated.asked.request import Format, Refusal, Request, parsed
from maxq.workloads.generated.clients.queue_plants import AFTER, BEFORE
from maxq.workloads.generated.memory import made
from maxq.workloads.generated.writing import PLANTED, Written, generate

LOG = sorted((*BEFORE, *AFTER))


def written(request: Request, out: Path, to: Format = "parquet") -> Written:
    return generate(request, out, lambda outcome: {"main_ns": outcome.main_ns}, to)


def test_each_line_is_what_our_writer_gives(tmp_path: Path) -> None:
    every = dict.fromkeys(LOG, 1)
    written(Request(workload="queue", ops=600, anomalies=every, seed=3), tmp_path / "a", "jsonl")
    journal = tmp_path / "a" / JOURNAL
    ops, report = read_jsonl(journal)
    assert report.complete
    assert report.unchecked == 0
    assert journal.read_bytes().splitlines()[:-1] == [encode_op(op) for op in ops]


def test_a_table_is_what_our_writer_gives(tmp_path: Path) -> None:
    request = Request(workload="queue", ops=600, seed=4)
    written(request, tmp_path / "a")
    written(request, tmp_path / "b", "jsonl")
    ops = read_parquet(tmp_path / "a" / PARQUET)
    assert ops == read_jsonl(tmp_path / "b" / JOURNAL)[0]
    (tmp_path / "ours").write_bytes(encode_parquet(ops, run_id="generated/queue-4"))
    assert pq.read_table(tmp_path / "a" / PARQUET).equals(pq.read_table(tmp_path / "ours"))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    request = Request(workload="queue", ops=500, anomalies=parsed("lost-tail=2,phantom=1"), seed=9)
    for to in ("parquet", "jsonl"):
        folders = [tmp_path / f"{to}{n}" for n in (1, 2)]
        for folder in folders:
            written(request, folder, "parquet" if to == "parquet" else "jsonl")
        files = [{p.name: p.read_bytes() for p in folder.iterdir()} for folder in folders]
        assert files[0] == files[1]
        assert PLANTED in files[0]


@pytest.mark.parametrize("ops", [40, 300, 20_000])
def test_nobody_is_blamed_where_nothing_is_planted(ops: int) -> None:
    for seed in range(4 if ops < 1_000 else 1):
        found = judged(Request(workload="queue", ops=ops, seed=seed))
        assert not found.anomalies
        assert found.results.valid is True
        assert {"S6", "S10", "S11", "S12", "S16", "S13"} <= {*found.results.of("kept")}
        assert not wellformed(History(found.made.ops))


def test_several_processes_use_each_queue_and_outcomes_are_unknown() -> None:
    ops = made(Request(workload="queue", ops=400, info=0.2, seed=1)).ops
    writers = {op.process for op in ops if op.f == "send" and op.value[0][1] == 0}
    assert len(writers) > 3
    history = History(ops)
    opened = [op for op in history.clients if op.type == "invoke" and not history.completion(op)]
    unsure = [op for op in history.clients if op.type == "info"]
    assert opened
    assert len(unsure) > len(opened)
    assert {op.f for op in history.nemesis} >= {"kill", "start", "elect-master"}
    overlap = sum(a.type == b.type == "invoke" for a, b in pairwise(ops))
    assert overlap > 100, "operations overlap"


@pytest.mark.parametrize("kind", LOG)
def test_each_kind_is_found_where_it_is_planted(kind: str) -> None:
    request = Request(workload="queue", ops=200, anomalies={kind: 2}, concurrency=6, seed=2)
    found = judged(request)
    assert len(found.made.planted) == 2
    for planted in found.made.planted:
        assert found.shows(planted)
    names = {a.name for a in found.anomalies}
    assert names <= {*KINDS[kind].allowed, *KINDS[kind].symptoms}


def test_what_has_no_place_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    request = Request(workload="queue", ops=20, anomalies={"lost-write": 200})
    with pytest.raises(Refusal, match=r"lost-write=200: there is place for \d+ only"):
        written(request, tmp_path / "a")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "why"),
    [("lost-write", "no NAME=COUNT"), ("lots=1", "no anomaly 'lots'"), ("G1a=0", "at least 1")],
)
def test_a_wrong_anomaly_is_refused(text: str, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        Request(workload="queue", ops=100, anomalies=parsed(text)).checked()
