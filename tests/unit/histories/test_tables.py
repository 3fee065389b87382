"""The Arrow table of events, Parquet, and the messages of operations."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maxq.checkers.core.elements import elements_of
from maxq.histories.lines.whole_table import read_parquet
from maxq.histories.observed import ReplicaLog, encoded
from maxq.histories.op import NEMESIS, HistoryError, Op
from maxq.histories.parquet import encode_parquet, read_batches, read_coded
from maxq.histories.tables import EVENTS, events_table, ops_from_events

POLLED = {2: [[0, 7], [1, "corrupt:ff"]], 3: [[None, -5], [4, "corrupt:ff"]]}
OPS = (
    Op("invoke", 0, "send", [["send", 2, 7]], None, 0, 10),
    Op("invoke", 1, "poll", [["poll"]], None, 1, 11),
    Op("info", NEMESIS, "kill", "one", None, 2, 12),
    Op("ok", 1, "poll", [["poll", POLLED]], None, 3, 13, {"broker": "b2", "epoch": 4}),
    Op("fail", 0, "send", [["send", 2, 7]], ["refused", 1], 4, 14, {"node": "b1"}),
    Op("info", NEMESIS, "kill", {"b1": {"holds": True}}, None, 5, 15),
    Op("invoke", 2, "send", [["send", 2, 8]], None, 6, -1),
    Op("invoke", 3, "assign", [2, 3], None, 7, 17, {"seek-to-beginning?": True}),
)


def test_events_are_lossless() -> None:
    table = events_table(OPS, run_id="r")

    assert table.schema.equals(EVENTS, check_metadata=True)
    assert ops_from_events(table) == OPS
    assert table["pair"].to_pylist() == [4, 3, 5, 1, 0, 2, -1, -1]
    assert table["process_name"].to_pylist()[2] == NEMESIS
    assert table["error"].to_pylist()[4] == '["refused",1]'
    assert ops_from_events(events_table((), run_id="r")) == ()


def test_completion_without_value_falls_back_to_the_invocation() -> None:
    begun = Op("invoke", 0, "send", [["send", 0, 5]], None, 0, 0)
    done = Op("info", 0, "send", None, "timeout", 1, 1)

    assert [e.value for e in elements_of(done, begun)] == [5]


@pytest.mark.parametrize(
    ("op_type", "value"),
    [
        ("ok", None),
        ("ok", 7),
        ("ok", [["send", 0]]),
        ("ok", [["send", "0", 1]]),
        ("ok", [["send", 0, [1, 2, 3]]]),
        ("ok", [["send", 0, [1, None]]]),
        ("ok", [["poll", {0: [[1, 2.5]]}]]),
        ("ok", [["poll"]]),
        ("ok", [["poll", {"0": []}]]),
        ("ok", [["poll", {0: [[1]]}]]),
        ("fail", [["pull"]]),
    ],
)
def test_a_value_of_another_shape_is_refused(op_type: Any, value: Any) -> None:
    """Rule W9."""
    with pytest.raises(HistoryError, match="value of 3"):
        list(elements_of(Op(op_type, 0, "txn", value, None, 3, 0)))


def test_parquet_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    path.write_bytes(encode_parquet(OPS, run_id="queue/1"))

    assert read_parquet(path) == OPS
    assert pq.read_schema(path).metadata[b"maxq.schema"] == b"1"
    assert set(pq.read_table(path)["run_id"].to_pylist()) == {"queue/1"}


def test_parquet_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    table = pa.table({"a": [1]})
    pq.write_table(table, path)
    with pytest.raises(HistoryError, match=r"not an events table: no column"):
        read_parquet(path)
    pq.write_table(table.replace_schema_metadata({"maxq.schema": "1"}), path)
    with pytest.raises(HistoryError, match=r"history\.parquet: not an events table"):
        read_parquet(path)
    events = events_table(OPS, run_id="r")
    broken = pa.array(["{"] * events.num_rows)
    with pytest.raises(HistoryError, match="not a value"):
        ops_from_events(events.set_column(EVENTS.names.index("value"), "value", broken))


def test_a_byte_in_parquet_that_is_no_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    events = events_table(OPS, run_id="r")
    noise = pa.array([b"se\xffnd"] * events.num_rows).view(pa.string())
    changed = events.set_column(EVENTS.names.index("f"), events.schema.field("f"), noise)
    pq.write_table(changed, path)
    with pytest.raises(HistoryError, match=r"history\.parquet: 'utf-8' codec"):
        read_parquet(path)


def test_no_flipped_bit_of_parquet_is_read_as_something_else(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    whole = encode_parquet(OPS, run_id="queue/1")
    pages = pq.read_metadata(pa.BufferReader(whole)).row_group(0)
    end = max(pages.column(n).data_page_offset + 1 for n in range(pages.num_columns))
    refused = 0
    for at in range(4, end, 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        try:
            assert read_parquet(path) == OPS, f"byte {at}"
        except HistoryError as error:
            refused += str(error).startswith(f"history.parquet: rows 0 to {len(OPS) - 1}: ")
    assert refused > 100


def test_a_row_group_that_claims_more_than_its_file_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    columns = {name: pa.repeat(pa.scalar(0), 1_200_000) for name in ("index", "time")}
    table = pa.table(columns).replace_schema_metadata(EVENTS.metadata)
    pq.write_table(table, path, compression="zstd", row_group_size=len(table))
    with pytest.raises(HistoryError, match="row group 0 claims 1200000 rows in"):
        read_parquet(path)


@pytest.mark.parametrize("name", ["type", "f", "value", "index"])
def test_a_table_without_a_column_is_refused_alike(tmp_path: Path, name: str) -> None:
    """One of a bit flipped in a column's name has none of that name."""
    path = tmp_path / "history.parquet"
    events = events_table(OPS, run_id="r")
    renamed = [n if n != name else f"{n}x" for n in events.column_names]
    pq.write_table(events.rename_columns(renamed).replace_schema_metadata(EVENTS.metadata), path)
    for read in (
        read_parquet,
        lambda p: list(read_batches(p)),
        lambda p: list(read_coded(p, [name])),
    ):
        with pytest.raises(HistoryError, match=rf"history\.parquet: .*\b{name}\b"):
            read(path)


@pytest.mark.parametrize("name", ["type", "process_name", "value"])
def test_bytes_are_no_text_whoever_reads_them(tmp_path: Path, name: str) -> None:
    path = tmp_path / "history.parquet"
    events = events_table(OPS, run_id="r")
    at = events.column_names.index(name)
    pq.write_table(events.set_column(at, name, events[name].cast(pa.binary())), path)
    said = f"history.parquet: not an events table: {name} is binary, not text"
    for read in (read_parquet, lambda p: list(read_coded(p, [name]))):
        with pytest.raises(HistoryError, match=said):
            read(path)


def test_numbers_that_are_durations_are_no_events_table(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    events = events_table(OPS, run_id="r")
    for at, name in ((2, "time"), (4, "process")):
        changed = events.set_column(at, name, events[name].cast(pa.duration("ns")))
        pq.write_table(changed, path)
        with pytest.raises(HistoryError, match=f"{name} is duration.ns., not a number"):
            read_parquet(path)
        with pytest.raises(HistoryError, match=f"{name} is duration.ns., not a number"):
            list(read_batches(path))


def test_text_that_is_bytes_is_no_events_table(tmp_path: Path) -> None:
    path = tmp_path / "history.parquet"
    events = events_table(OPS, run_id="r")
    changed = events.set_column(3, "type", events["type"].cast(pa.binary()))
    pq.write_table(changed, path)
    with pytest.raises(HistoryError, match="type is binary, not text"):
        read_parquet(path)


def test_elements_are_messages_sent_and_polled_whatever_their_payload() -> None:
    elements = [(op.index, e.kind, e.key, e.offset, e.value) for op in OPS for e in elements_of(op)]
    assert elements == [
        (0, "sent", 2, None, 7),
        (3, "polled", 2, 0, 7),
        (3, "polled", 2, 1, "corrupt:ff"),
        (3, "polled", 3, None, -5),
        (3, "polled", 3, 4, "corrupt:ff"),
        (4, "sent", 2, None, 7),
        (6, "sent", 2, None, 8),
    ]


def test_records_of_a_replica_s_store_are_elements() -> None:
    log = ReplicaLog(
        node="b0-1", set="b0", id=2, epoch=3, start=0, end=9, last=True, digests=("x",),
        records=((2, 0, 7), (2, 1, "corrupt:ff")),
    )  # fmt: skip
    read = Op("ok", 9, "replica-log", encoded(log), None, 1, 2)
    failed = Op("fail", 9, "replica-log", {"node": "b0-2"}, None, 3, 4)
    assert [(e.kind, e.key, e.offset, e.value) for e in elements_of(read)] == [
        ("replica", 2, 0, 7), ("replica", 2, 1, "corrupt:ff"),
    ]  # fmt: skip
    assert list(elements_of(failed)) == []
