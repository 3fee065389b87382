"""EDN read line by line gives what the same file gives form by form."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from maxq.histories.edn import to_edn
from maxq.histories.jepsen import ops_of
from maxq.histories.lines import by_line
from maxq.histories.lines.by_line import read_edn_history
from maxq.histories.op import HistoryError, Op

VALUES = (
    "nil", "true", "3", "-3", "0", "-0", "007", "1.5", "1e5", "2/3", "5N", "1.5M", "##Inf", "sym",
    ":k", ":a/b", ":k1", ":vanil", "nil5", "\\a", '"x y"', '"a\\"b c"', '"7:r, {"', '"é\t"', "[]",
    "[1 2]", "[1, 2]", "( 1 2 )", "[ 1  2 ]", "[[:r 1 nil] [:append 2 3]]", "[[:r 1 [1 2 3]]]",
    "[:r 1]", "[[:r :k [:r 2]]]", "[1 [:append 2]]", "[[:cas 1 2]]", "[:k 1]", "{:a 1}", "",
    "{0 10, 1 20}", "#{1 2}", '#inst "2020"', "#:a{:b 1}", "[1 2", "1 2", "é", "[nil nil]",
    "123456789012345678901234567890", '[:timeout "after 5 s"]', ":timeout",
)  # fmt: skip
WORDS = ("f", "value", "error", "node", "ext", "clock-skew", "a/b", "$keyword", "$x")
HEADS = ("{", "#jepsen.history.Op{", " {", "{ ", "[{", "; {")
TAILS = ("}", "},", " }", "}]", "} ; c", "} {}", "}\r", "", "}\n\n")

fields = st.tuples(st.sampled_from(WORDS), st.sampled_from(VALUES))
usual = st.builds(
    lambda kind, f, process, value, more, index: [
        ("type", f":{kind}"), ("f", f), ("value", value), *more, ("process", process),
        ("time", "5"),
        *([("index", str(index))] if index is not None else []),
    ],
    st.sampled_from(("invoke", "ok", "fail", "info", "other")),
    st.sampled_from((":txn", ":read", ":send", '"txn"', "nil", ":enqueue-x")),
    st.sampled_from(("0", "12", ":nemesis", "-1", '"n1"', "1.5")),
    st.sampled_from(VALUES),
    st.lists(fields, max_size=2),
    st.none() | st.integers(-2, 99),
)  # fmt: skip
lines = st.builds(
    lambda head, pairs, joint, tail: head + joint.join(f":{k} {v}" for k, v in pairs) + tail,
    st.sampled_from(HEADS[:2]) | st.sampled_from(HEADS),
    usual | st.lists(fields, max_size=3),
    st.sampled_from((", ", ", ", " ", ",")),
    st.sampled_from(TAILS[:1]) | st.sampled_from(TAILS),
)
texts = st.builds(
    lambda begin, found, end: begin + "\n".join(found) + end,
    st.sampled_from(("", "", "[", "\ufeff", "\n", "[[", "(")),
    st.lists(lines, max_size=5),
    st.sampled_from(("\n", "", "]", "\n]\n", ")")),
)


def came_of(read: Any, path: Path) -> Any:
    """The operations and their texts, or why there are none."""
    try:
        ops = tuple(read(path))
    except HistoryError as error:
        return str(error)
    return ops, [[to_edn(part) for part in (op.value, op.error, op.ext)] for op in ops]


@given(texts)
@example("{:type :ok, :f :txn, :value [[:r 1 nil]], :process 0}\n")
@example("{:type :invoke, :f :txn, :value nil, :process 0, :time 5}\n[{}]")
@example("[{:type :ok, :f :r, :process 0}\n {:type :ok, :f :r, :process 0}")
def test_the_same_comes_of_it(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("edn") / "h.edn"
    path.write_text(text)
    assert came_of(read_edn_history, path) == came_of(ops_of, path)


PLAIN = """\
{:type :invoke, :f :txn, :value [[:r 3 nil] [:append 3 -1]], :process 0, :time 5, :index 0}
{:type :ok, :f :txn, :value [[:r 3 [1 2]] [:append 3 -1]], :process 0, :time 6, :index 1}
{:type :fail, :f :read, :value [1 nil], :process 1, :time 7, :index 2, :error :timeout}
{:type :info, :f :read, :value [1 nil], :process 1, :time 8, :index 3, :error [:timeout "in 5 s"]}
{:type :info, :f :read, :value nil, :process 1, :time 8, :index 4, :node "n1"}
"""


@pytest.mark.parametrize("text", [PLAIN, PLAIN.replace("{", "#jepsen.history.Op{"), f"[{PLAIN}]",
                                  PLAIN.replace("\n", "\r\n")])  # fmt: skip
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_ordinary_lines_are_not_read_form_by_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, chunk: int
) -> None:
    """Or it is as slow as before."""
    path = tmp_path / "h.edn"
    path.write_bytes(text.encode())
    expected = tuple(ops_of(path))
    monkeypatch.setattr(by_line, "read_edn", None)
    monkeypatch.setattr(by_line, "ops_of", None)
    monkeypatch.setattr(by_line, "CHUNK", chunk)
    assert read_edn_history(path) == expected


def test_what_was_read_is_said(tmp_path: Path) -> None:
    path, read = tmp_path / "h.edn", list[int]()
    path.write_text(PLAIN)
    read_edn_history(path, read.append)
    assert sum(read) == len(PLAIN)


def test_an_operation_has_no_other_keys() -> None:
    """A decoder that passed over one would lose it."""
    with pytest.raises(msgspec.ValidationError, match="node"):
        msgspec.json.decode(b'{"type":"ok","process":0,"f":"read","node":"n1"}', type=Op)
