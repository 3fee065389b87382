"""Rows as arrays: numbers out of texts, pairs, rules, and the messages of many operations."""

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.checkers.core.elements import elements_of
from maxq.histories.columns import scan as columns_scan
from maxq.histories.columns.messages import NO_OFFSET, messages_of, messages_on
from maxq.histories.columns.outline import batches_of, outline_of, rows_of
from maxq.histories.columns.rows import Columns, Rows
from maxq.histories.columns.scan import BEGIN, END, Grammar, scan
from maxq.histories.op import HistoryError, Op
from maxq.histories.tables import events_table
from maxq.histories.text import encode_value

LOCK = Grammar({"": {BEGIN: 1}, "[": {BEGIN: 2}, ",": {2: 3}, "]": {3: END}, "!": {1: END}})


def read(*ops: Op, batch: int = 1_000) -> list[Rows]:
    reading = batches_of(events_table(ops, run_id="r"), batch)
    return list(rows_of(reading, outline_of(reading(None))))


ODD_TEXTS = ("12", "[1,2", "[1,02]", "[1,-2]", "[1, 2]", "[1,2]]", "[1.0,2]", "", "[,]",
             "[1,1234567890123456789]", "[1,2]\0", "x[1,2]")  # fmt: skip


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_a_text_of_another_form_is_foreign(text: str) -> None:
    found = scan(pa.array(["[7,8]", text, None, "5!"]), LOCK)
    assert found.plain.tolist() == [True, False, False, True]
    assert found.value.tolist() == [7, 8, 5]
    assert found.first.tolist() == [0, 2, 2, 2, 3]


@given(st.lists(st.integers(0, 10**18 - 1), min_size=1, max_size=9))
@settings(deadline=None)
def test_numbers_are_what_a_decoder_gives(numbers: list[int]) -> None:
    texts = pa.array(["", *(f"[{a},{b}]" for a, b in zip(numbers, reversed(numbers), strict=True))])
    for sliced in (texts, texts.slice(1), pa.concat_arrays([texts, texts]).slice(len(texts) + 1)):
        found = scan(sliced, LOCK)
        pairs = [n for a, b in zip(numbers, reversed(numbers), strict=True) for n in (a, b)]
        assert found.value.tolist() == pairs


@pytest.mark.parametrize("at_a_time", [1, 7, 30])
def test_long_columns_are_read_a_part_at_a_time(
    monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    random = Random(2)
    for _ in range(100):
        known = ("[1,22]", "[333,4444]", "5!", None, *ODD_TEXTS)
        texts = pa.array(random.choices(known, k=random.randrange(40)), pa.string())
        whole = scan(texts, LOCK)
        with monkeypatch.context() as patch:
            patch.setattr(columns_scan, "_SLICE", at_a_time)
            for one, other in zip(scan(texts, LOCK), whole, strict=True):
                assert np.array_equal(one, other)
                assert one.dtype == other.dtype


KEYS, VALUES = st.integers(0, 3), st.integers(0, 2**40)
PLACED = st.tuples(st.integers(0, 99), VALUES).map(list)
ODD = st.tuples(st.none() | st.integers(-3, 3), st.text(max_size=2) | VALUES).map(list)
MICRO = st.one_of(
    st.tuples(st.just("send"), KEYS, PLACED | VALUES | ODD).map(list),
    st.tuples(st.just("poll"), st.dictionaries(KEYS, st.lists(PLACED, max_size=3))).map(list),
    st.just(["poll"]),
)
KINDS = st.sampled_from(("invoke", "ok", "fail", "info"))


@given(KINDS, st.lists(st.lists(MICRO, max_size=3), max_size=6))
@settings(deadline=None, max_examples=150)
def test_messages_are_those_that_the_decoder_finds(kind: Any, values: list[Any]) -> None:
    """Of each operation all, or it is left to the decoder."""
    ops = [Op(kind, at, "txn", value, None, at, at) for at, value in enumerate(values)]
    if not ops:
        return
    [rows] = read(*ops)
    found = messages_of(rows, np.arange(len(ops)))
    for at, op in enumerate(ops):
        mine = np.flatnonzero(found.row == at)
        got = [
            (
                "polled" if found.polled[i] else "sent",
                int(found.key[i]),
                None if found.offset[i] == NO_OFFSET else int(found.offset[i]),
                int(found.value[i]),
            )
            for i in mine
        ]
        if at in found.foreign:
            assert not got
        else:
            assert got == [(e.kind, e.key, e.offset, e.value) for e in elements_of(op)]


@given(KINDS, st.lists(st.lists(MICRO, max_size=3), max_size=6), st.sets(KEYS))
@settings(deadline=None, max_examples=100)
def test_messages_of_some_queues_are_those_of_all_that_are_theirs(
    kind: Any, values: list[Any], keys: set[int]
) -> None:
    ops = [Op(kind, at, "txn", value, None, at, at) for at, value in enumerate(values)]
    if not ops:
        return
    [rows] = read(*ops)
    every, few = messages_of(rows, np.arange(len(ops))), messages_on(rows, keys)
    mine = np.isin(every.key, list(keys))
    for whole, own in zip(every[:5], few[:5], strict=True):
        assert np.array_equal(whole[mine], own)


def test_what_our_workloads_write_is_plain() -> None:
    values: list[Any] = [
        [["send", 3, [17, 9]]],
        [["poll", {0: [[0, 1], [1, 2]], 4: []}]],
        [["poll", {}]],
        [["send", 1, [2, 3]], ["poll", {1: [[2, 3]]}]],
    ]
    ops = [Op("ok", at, "txn", value, None, at, at) for at, value in enumerate(values)]
    [rows] = read(*ops)
    assert not len(messages_of(rows, np.arange(len(ops))).foreign)


def test_of_a_map_with_a_key_twice_the_last_one_counts() -> None:
    """As the decoder has it, which is asked."""
    twice = b'[["poll",{"$map":[[0,[[1,2]]],[0,[[3,4]]]]}]]'
    op = Op("ok", 0, "poll", [["poll", {0: [[3, 4]]}]], None, 0, 0)
    table = events_table([op], run_id="r")
    at = table.schema.get_field_index("value")
    assert encode_value(op.value) != twice
    table = table.set_column(at, table.schema.field(at), pa.array([twice.decode()]))
    reading = batches_of(table)
    [rows] = rows_of(reading, outline_of(reading(None)))
    assert messages_of(rows, np.arange(1)).foreign.tolist() == [0]


def test_a_completion_knows_its_invocation_of_an_earlier_batch() -> None:
    ops = [Op("invoke", 0, "send", [["send", 0, 5]], None, 0, 10),
           Op("invoke", 1, "send", [["send", 0, 6]], None, 3, 20),
           Op("info", 0, "send", None, "timeout", 7, 30)]  # fmt: skip
    rows = read(*ops, batch=1)
    [(_, done, begun)] = rows[2].events([0])
    assert (done, begun) == (ops[2], ops[0])
    assert [each.open.tolist() for each in rows] == [[False], [True], [False]]


def test_a_type_that_is_none_is_named() -> None:
    table = events_table([Op("ok", 0, "send", None, None, 0, 10)], run_id="r")
    at = table.schema.get_field_index("type")
    odd = table.set_column(at, table.schema.field(at), pa.array(["done"]))
    with pytest.raises(HistoryError, match="unknown type: 'done'"):
        Columns.of(odd.to_batches()[0])


def test_a_batch_of_which_no_row_can_be_read_as_arrays_has_no_messages() -> None:
    """As where the only one that completed names a queue twice."""
    ops = (Op("invoke", 0, "poll", None, None, 0, 0), Op("ok", 0, "poll", None, None, 1, 0))
    table = events_table(ops, run_id="r")
    texts = ['[["poll"]]', '[["poll",{"$map":[[1,[[2,3]]],[1,[[2,3]]]]}]]']
    at = table.schema.get_field_index("value")
    odd = table.set_column(at, table.schema.field(at), pa.array(texts, pa.string()))
    reading = batches_of(odd, 10)
    [rows] = rows_of(reading, outline_of(reading(None)))
    found = messages_of(rows, np.arange(2))
    assert [len(column) for column in found[:5]] == [0] * 5
    assert found.foreign.tolist() == [1]
