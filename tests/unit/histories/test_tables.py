"""The three Arrow tables, and Parquet."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from histories.history import History
from histories.observed import ReplicaLog, encoded
from histories.op import NEMESIS, HistoryError, Op
from histories.parquet import encode_parquet, read_parquet
from histories.schema import ELEMENTS, EVENTS, OPERATIONS
from histories.tables import (
    elements_of,
    elements_table,
    events_table,
    operations_table,
    ops_from_events,
    values_of,
)

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


def test_operations_join_both_halves() -> None:
    rows = operations_table(History(OPS), run="r").to_pylist()

    def picked(*names: str) -> list[tuple[Any, ...]]:
        return [tuple(row[name] for name in names) for row in rows]

    assert picked("f", "type", "process", "inv_index", "ret_index") == [
        ("send", "fail", 0, 0, 4),
        ("poll", "ok", 1, 1, 3),
        ("kill", "info", None, 2, 5),
        ("send", "info", 2, 6, None),
        ("assign", "info", 3, 7, None),
    ]
    assert picked("key_id", "value", "offset", "epoch", "node", "error")[:2] == [
        (2, 7, None, None, "b1", '["refused",1]'),
        (None, None, None, 4, "b2", None),
    ]
    assert operations_table(History(OPS), run="r").schema.equals(OPERATIONS)


def test_elements_code_what_is_not_ours() -> None:
    table = elements_table(History(OPS), run="r")

    rows = [tuple(row.values())[1:] for row in table.to_pylist()]
    assert rows == [
        (3, "polled", 2, 0, 7, 4, "b2"),
        (3, "polled", 2, 1, -1, 4, "b2"),
        (3, "polled", 3, None, -2, 4, "b2"),
        (3, "polled", 3, 4, -1, 4, "b2"),
        (4, "sent", 2, None, 7, None, "b1"),
        (6, "sent", 2, None, 8, None, None),
    ]
    assert values_of(table) == ("corrupt:ff", -5)
    assert table.schema.equals(ELEMENTS)


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
    with pytest.raises(HistoryError, match="schema version ''"):
        read_parquet(path)
    pq.write_table(table.replace_schema_metadata({"maxq.schema": "1"}), path)
    with pytest.raises(HistoryError, match="not an events table"):
        read_parquet(path)
    events = events_table(OPS, run_id="r")
    broken = pa.array(["{"] * events.num_rows)
    with pytest.raises(HistoryError, match="not a value"):
        ops_from_events(events.set_column(EVENTS.names.index("value"), "value", broken))


def test_records_of_a_replica_s_store_are_elements_of_its_node_and_epoch() -> None:
    log = ReplicaLog(
        node="b0-1", set="b0", id=2, epoch=3, start=0, end=9, last=True, digests=("x",),
        records=((2, 0, 7), (2, 1, "corrupt:ff")),
    )  # fmt: skip
    ops = (
        Op("invoke", 9, "replica-log", {"node": "b0-1"}, None, 0, 1),
        Op("ok", 9, "replica-log", encoded(log), None, 1, 2),
        Op("invoke", 9, "replica-log", {"node": "b0-2"}, None, 2, 3),
        Op("fail", 9, "replica-log", {"node": "b0-2"}, None, 3, 4),
    )
    rows = elements_table(History(ops), run="r").to_pylist()
    assert [tuple(row.values())[1:] for row in rows] == [
        (1, "replica", 2, 0, 7, 3, "b0-1"),
        (1, "replica", 2, 1, -1, 3, "b0-1"),
    ]
    first, second = operations_table(History(ops), run="r").to_pylist()
    assert (first["key_id"], first["epoch"], first["node"]) == (2, 3, "b0-1")
    assert (second["key_id"], second["epoch"], second["node"]) == (None, None, None)
