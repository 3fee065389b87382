"""Foreign files as people have them: packed, with a mark in front, cut off, or of another kind."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from maxq.harness.run.rejudge import stored_history
from maxq.histories.op import HistoryError

WRITE = ("{:process 0, :type :invoke, :f :write, :value 1}\n"
         "{:process 0, :type :ok, :f :write, :value 1}\n")  # fmt: skip
JSON = ('[{"process":0,"type":"invoke","f":"write","value":1},'
        '{"process":0,"type":"ok","f":"write","value":1}]')  # fmt: skip
RECORDS = WRITE.replace("{", "#knossos.op.Op{")
NAMED = WRITE.replace(":value 1}\n", ":value 1, :error #:db{:code 7, :x/y 8}}\n")
TEXT = "0\t:invoke\t:write\t1\n0\t:ok\t:write\t1\n:nemesis\t:info\t:start\tnil\n"


@pytest.mark.parametrize(
    "text", [WRITE, f"[{WRITE}]", "\ufeff" + WRITE, "\ufeff" + JSON, RECORDS, f"[{RECORDS}]", TEXT]
)
@pytest.mark.parametrize("packed", ["", "gzip", "zstd"])
def test_it_is_read(tmp_path: Path, text: str, packed: Any) -> None:
    path = tmp_path / "h"
    path.write_bytes(pa.compress(text.encode(), packed, asbytes=True) if packed else text.encode())
    ops = stored_history(path).history.clients
    assert [(op.type, op.f, op.value) for op in ops] == [("invoke", "write", 1), ("ok", "write", 1)]


def test_a_map_of_a_namespace_has_its_keys_in_it(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    path.write_text(NAMED)
    assert stored_history(path).history.ops[0].error == {"db/code": 7, "x/y": 8}


def test_the_folder_of_a_test_of_jepsen_is_its_history(tmp_path: Path) -> None:
    (tmp_path / "history.edn").write_text(WRITE)
    (tmp_path / "results.edn").write_text("{:valid? true}")
    assert len(stored_history(tmp_path).history.ops) == 2


def test_a_run_with_an_exported_history_beside_it_is_the_run(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "history.edn").write_text(WRITE)
    assert stored_history(tmp_path).history.ops == ()


@pytest.mark.parametrize("text", [WRITE, f"[{WRITE}]", JSON])
def test_of_a_file_that_was_cut_off_all_before_the_cut_is_read(tmp_path: Path, text: str) -> None:
    path, counts = tmp_path / "h", set()
    for end in range(len(text.rstrip())):
        path.write_text(text[:end])
        try:
            stored = stored_history(path, allow_truncated=True)
        except HistoryError:
            continue  # too little is there to know what it is
        counts.add(len(stored.history.ops))
        # Lines may end anywhere between two; a vector has an end of its own.
        assert stored.report.damage or text == WRITE
        assert not stored.report.complete or text == WRITE
    assert {0, 1} <= counts


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"JEPSEN\0\0\0\0\1", "give the history.edn of the same folder"),
        (b"", "it is empty"),
        (b"\x7fELF\0\0\0", "it is no text"),
        (b'{"Input":1,"Call":1,"Return":2,"ClientId":0}', "of etcd's robustness tests"),
        (b"hello\nworld", "it begins with 'hello'"),
        # The same bytes in each process that collects: the head of a packed file has a time.
        (gzip.compress(WRITE.encode(), mtime=0)[:-9], "h: "),
    ],
)
def test_what_is_no_history_is_refused_by_what_it_is(
    tmp_path: Path, data: bytes, said: str
) -> None:
    path = tmp_path / "h"
    path.write_bytes(data)
    with pytest.raises(HistoryError, match=said):
        stored_history(path)
