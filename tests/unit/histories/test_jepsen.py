"""Histories of Jepsen: what its tools print is read; what we recorded comes back equal."""

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.histories.edn import Keyword, to_edn
from maxq.histories.edn_read import DEPTH_MAX, DIGITS_MAX, read_edn
from maxq.histories.jepsen import encode_edn
from maxq.histories.lines.by_line import read_edn_history
from maxq.histories.op import NEMESIS, HistoryError, Op

SPEC = r"""
; docs/spec/history-format.md 8.2, form by form
nil true false 12 -3 +4 7N 99999999999999999999 1.5 -2e-9 1.0M 1/3 ##Inf
"a\n\"b\" \u00e9" \a \newline \u0041 :ok :jepsen.client/timeout :seek-to-beginning? foo ...
(1 2) [1, 2] {:a 1, "b" [2], [1 2] 3} #{1 2} #_ [skipped :twice] #inst "2026-07-31"
#jepsen.history.Op{:index 0, :f :read} #object[x 0x1]
"""


def test_every_form_of_the_subset_is_read() -> None:
    assert list(read_edn(SPEC)) == [
        *(None, True, False, 12, -3, 4, 7, 99999999999999999999, 1.5, -2e-9, 1.0, "1/3", "##Inf"),
        *('a\n"b" é', "a", "\n", "A"),
        *("ok", "jepsen.client/timeout", "seek-to-beginning?", "foo", "..."),
        *([1, 2], [1, 2], {"a": 1, "b": [2], (1, 2): 3}, frozenset({1, 2})),
        *(["#inst", "2026-07-31"], {"index": 0, "f": "read"}, ["#object", ["x", "0x1"]]),
    ]


def test_escapes_are_utf_16() -> None:
    assert list(read_edn('"\\ud83d\\ude00" "\\u00e4\\n"')) == ["\U0001f600", "\u00e4\n"]


def test_integers_are_exact_up_to_the_bound() -> None:
    assert list(read_edn("-" + "9" * (DIGITS_MAX - 1))) == [1 - 10 ** (DIGITS_MAX - 1)]


def test_a_keyword_that_could_not_be_written_again_is_a_text() -> None:
    """Otherwise a history could be read and not exported."""
    [text] = read_edn(":a`b")
    assert (type(text), text) == (str, "a`b")


def test_keywords_stay_apart_from_strings() -> None:
    keyword, text = read_edn(':x "x"')
    assert type(keyword) is Keyword
    assert type(text) is str
    assert to_edn([keyword, text]) == '[:x "x"]'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1 2", "the end instead of ]"),
        ("\n\n]", "line 3: not EDN: ] instead of a form"),
        ("{:a}", "a key and no value"),
        ('"open', "unfinished string"),
        ('"\\q"', "escape"),
        ('\n"\\ud800"', "line 2: not EDN: half of a pair of surrogates"),
        ("\\ud800", "half of a pair of surrogates"),
        ("\n" + "9" * 100_000, "line 2: not EDN: an integer of 100000 digits, more than 4300"),
        ("#{{:a 1}}", "a map as a key"),
        ("#_", "without a form"),
        ("#inst", "without a form"),
        ("[" * (DEPTH_MAX + 1), "deeper than"),
        ("#a " * (DEPTH_MAX + 1), "deeper than"),
    ],
)
def test_what_is_no_edn_is_refused_with_its_line(text: str, why: str) -> None:
    with pytest.raises(HistoryError, match="not EDN: ") as caught:
        list(read_edn(text))
    assert why in str(caught.value)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text("ab:?- 0", max_size=4) | st.integers(), inner, max_size=3)
    | st.frozensets(st.integers(), max_size=3),
    max_leaves=8,
)  # fmt: skip
MICRO = st.lists(
    st.tuples(st.sampled_from(("send", "poll")), VALUES).map(list) | VALUES, max_size=3
)


@settings(deadline=None)  # it writes a file
@given(st.lists(st.tuples(VALUES, MICRO, VALUES, VALUES), max_size=4))
def test_what_we_recorded_comes_back_equal(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[Any, Any, Any, Any]]
) -> None:
    ops: list[Op] = []
    for value, micro, error, ext in drawn:
        at = len(ops)
        ops.append(Op("info", NEMESIS, "kill", value, error, at, -1, None))
        ops.append(Op("ok", at, "txn", micro, None, at + 1, at, {"end": ext}))
    path = tmp_path_factory.getbasetemp() / "drawn.edn"
    path.write_bytes(encode_edn(ops))

    read = read_edn_history(path)

    assert read == tuple(ops)
    assert encode_edn(read) == path.read_bytes()


def test_a_history_in_one_vector_and_without_indices_is_read(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        "[{:type :invoke, :process 0, :f :send, :value [[:send 2 7]]}\n"
        " {:type :info, :process :nemesis, :f nil, :value :one, :time 5}]"
    )

    assert read_edn_history(path) == (
        Op("invoke", 0, "send", [["send", 2, 7]], None, 0, -1),
        Op("info", NEMESIS, "", "one", None, 1, 5),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("3", "operation 0: no map"),
        ("{:type :oops, :process 0, :f :x}", "unknown :type"),
        ("{:type :ok, :process 1.5, :f :x}", ":process"),
        ("{:type :ok, :process 0, :f :x, :time :now}", ":time"),
        ("{:type :ok, :process 0, :time -2}", "operation 0: impossible time: -2 ns, before"),
        (f"{{:type :ok, :process 0, :time {2**100}}}", "impossible time: 12676506"),
        (f"{{:type :ok, :process {2**63}}}", "impossible process"),
        (f"{{:index {2**63}, :type :ok, :process 0}}", "impossible index"),
        ("{:index 0, :type :ok, :process 0} {:type :ok, :process 0}", "operation 1: no :index"),
        ("{:type :ok, :process 0, :f :x, 3 4}", "no keyword"),
        ("{:type", "line 1"),
    ],
)  # fmt: skip
def test_what_is_no_history_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "history.edn"
    path.write_text(text)
    with pytest.raises(HistoryError, match=r"history\.edn: ") as caught:
        read_edn_history(path)
    assert why in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_bytes(b"nil\n\xff")
    with pytest.raises(HistoryError, match=r"history\.edn: line 2: not UTF-8"):
        read_edn_history(path)


def test_a_string_without_its_end_takes_no_memory() -> None:
    text = '{:a "' + "x" * 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(HistoryError, match="an unfinished string"):
            list(read_edn(text))
        assert tracemalloc.get_traced_memory()[1] < 3 * len(text)
    finally:
        tracemalloc.stop()


def test_a_key_of_an_operation_is_not_redefined() -> None:
    with pytest.raises(ValueError, match="redefines"):
        encode_edn([Op("ok", 0, "x", None, None, 0, 0, {"time": 1})])
