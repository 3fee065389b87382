"""Any operation survives the journal, the events table and Parquet; any cut leaves a prefix."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.histories.digests import digests_of
from maxq.histories.history import History, partners
from maxq.histories.jsonl import JournalWriter, read_jsonl
from maxq.histories.lines.whole_table import read_parquet
from maxq.histories.op import NEMESIS, Op
from maxq.histories.parquet import encode_parquet
from maxq.histories.text import FIXED, decode_value, encode_value

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.one_of(TEXT, st.sampled_from(["$kw", "$set", "$map", "$", "end", "index"]))
ATOMS = st.one_of(
    *(st.none(), st.booleans(), TEXT, st.floats(allow_nan=False, allow_infinity=False)),
    st.integers(-(2**70), 2**70),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(NAMES, inner, max_size=3),
        st.dictionaries(st.integers(-(2**65), 2**65), inner, max_size=3),
        st.dictionaries(st.one_of(NAMES, st.integers(2, 9)), inner, max_size=3),
        st.frozensets(st.one_of(TEXT, st.integers(2, 9)), max_size=3),
    ),
    max_leaves=12,
)
KEYS = NAMES.filter(lambda name: name not in (*FIXED, "error"))


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    return [
        Op(
            type=draw(st.sampled_from(["invoke", "ok", "fail", "info"])),
            process=draw(st.one_of(st.integers(0, 3), st.sampled_from([NEMESIS, "other"]))),
            f=draw(TEXT),
            value=draw(VALUES),
            error=draw(VALUES),
            index=index,
            time=draw(st.integers(-1, 2**62)),
            ext=draw(st.dictionaries(KEYS, VALUES, max_size=3)) or None,
        )
        for index in range(draw(st.integers(0, 5)))
    ]


@given(VALUES)
def test_a_value_survives_its_text(value: Any) -> None:
    text = encode_value(value)

    assert decode_value(text) == value
    assert encode_value(decode_value(text)) == text
    assert b"\n" not in text


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_a_history_survives_journal_and_parquet(ops: list[Op], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "history.jsonl")
        with JournalWriter(path) as journal:
            for op in ops:
                journal.append(op)
        got, report = read_jsonl(path)
        assert list(got) == ops
        assert report.complete

        whole = path.read_bytes()
        digests_of(path).unlink()  # which would miss what is cut off
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
        prefix, _ = read_jsonl(path)
        assert list(prefix) == ops[: len(prefix)]

        parquet = Path(folder, "history.parquet")
        parquet.write_bytes(encode_parquet(ops, run_id="r"))
        assert list(read_parquet(parquet)) == ops


@given(histories())
def test_pairs_are_mutual_and_forward(ops: list[Op]) -> None:
    found = partners(ops)

    for a, b in enumerate(found):
        if b >= 0:
            assert found[b] == a != b
            assert ops[a].process == ops[b].process
        assert History(ops).completion(ops[a]) == (ops[b] if b >= 0 else None)
