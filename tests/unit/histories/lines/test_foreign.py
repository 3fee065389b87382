"""Files of other checkers: what they are is found from their first bytes."""

from pathlib import Path

import pytest

from maxq.histories.lines.foreign import format_of, read_json, read_log
from maxq.histories.op import HistoryError

LOG = """\
INFO  jepsen.util - 0\t:invoke\t:write\t3
something else
INFO  jepsen.util - 0\t:ok\t:write\t3
INFO  jepsen.util - 1   :invoke :cas    [3 4]
INFO  jepsen.util - :nemesis\t:info\t:start\t"cut"
INFO  jepsen.util - 1   :info   :cas    :timed-out
"""


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b"PAR1\x15\x00", "parquet"),
        (LOG.encode(), "jepsen-log"),
        (b"{:type :invoke, :f :read}", "edn"),
        (b"; a comment\n[{:type :invoke}", "edn"),
        (b'[{"type":"invoke"}', "json"),
        (b'{"index":0}', "jsonl"),
        (b"# A title\n", ""),
        (b"", ""),
    ],
)
def test_a_format_is_found_from_the_first_bytes(head: bytes, found: str) -> None:
    assert format_of(head) == found


def test_a_log_has_an_operation_a_line(tmp_path: Path) -> None:
    path = tmp_path / "etcd.log"
    path.write_text(LOG)
    ops = read_log(path)
    assert [(op.index, op.process, op.type, op.f, op.value) for op in ops] == [
        (0, 0, "invoke", "write", 3),
        (1, 0, "ok", "write", 3),
        (2, 1, "invoke", "cas", [3, 4]),
        (3, "nemesis", "info", "start", None),
        (4, 1, "info", "cas", None),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [("0\t:maybe\t:write\t3", "line 1: unknown :type 'maybe'"),
     ("0\t:ok\t:write\t3 4", "line 1: not one value: 3 4"),
     ("0\t:ok\t:write\t[3", "line 1: ")],
)  # fmt: skip
def test_a_line_that_is_no_operation_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "etcd.log"
    path.write_text(f"INFO  jepsen.util - {text}\n")
    with pytest.raises(HistoryError, match=f"etcd.log: {said}"):
        read_log(path)


def test_json_is_one_vector_of_maps(tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text('[{"type":"invoke","f":"add","value":1,"process":0,"index":0},'
                    '{"type":"ok","f":"add","value":1,"process":0,"index":1}]')  # fmt: skip
    assert [(op.type, op.value) for op in read_json(path)] == [("invoke", 1), ("ok", 1)]
    for text, said in (("[1]", "operation 0: no map"), ("{}", "no vector"), ("[", "history.json")):
        path.write_text(text)
        with pytest.raises(HistoryError, match=said):
            read_json(path)
