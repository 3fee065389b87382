"""``maxq export --model`` and ``maxq check --elle-cli``: files for elle-cli, and its answer."""

import json
from pathlib import Path

import pytest
from cluster_recorder import Cluster, set_view

from maxq.harness.cli.main import run_cli
from maxq.harness.run.rejudge import encode_jsonl, stored_history
from maxq.histories.observed import ReplicaLog

TXNS = """\
{:process 0, :type :invoke, :f :txn, :time 10, :value [[:append :x 1] [:r :y nil]]}
{:process 1, :type :invoke, :f :txn, :time 11, :value [[:append "y" 7]]}
{:process :nemesis, :type :info, :f :start, :time 12, :value nil}
{:process 0, :type :ok, :f :txn, :time 13, :value [[:append :x 1] [:r :y []]]}
{:process 1, :type :fail, :f :txn, :time 14, :value nil, :error :conflict}
{:process 2, :type :invoke, :f :txn, :time 15, :value [[:append :x 2]]}
{:process 2, :type :info, :f :txn, :time 16, :value nil}
{:process 3, :type :invoke, :f :txn, :time 17, :value [[:r "y" nil]]}
{:process 3, :type :ok, :f :txn, :time 18, :value [[:r "y" [7]]]}
{:process 3, :type :invoke, :f :debug, :time 19, :value nil}
{:process 3, :type :ok, :f :debug, :time 20, :value nil}
"""
SETS = """\
{:process 0, :type :invoke, :f :add, :value 1}
{:process 0, :type :ok, :f :add, :value 1}
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value #{}}
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value #{}}
"""
KEYS = """\
{:process 0, :type :invoke, :f :write, :key "a", :value 1}
{:process 0, :type :ok, :f :write, :key "a", :value 1}
{:process 0, :type :invoke, :f :read, :key "b", :value nil}
{:process 0, :type :ok, :f :read, :key "b", :value 1}
"""
BANK = """\
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value {0 10, 1 5}}
{:process 1, :type :invoke, :f :transfer, :value {:from 0, :to 1, :amount 3}}
{:process 1, :type :fail, :f :transfer, :value nil}
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value {0 7, 1 5}}
"""
HISTORIES = [("list-append", TXNS, 8), ("set-full", SETS, 6), ("bank", BANK, 6)]


def written(folder: Path, text: str) -> Path:
    path = folder / "given.edn"
    path.write_text(text)
    return path


@pytest.mark.parametrize("form", ["elle-json", "edn"])
@pytest.mark.parametrize(("model", "text", "count"), HISTORIES)
def test_what_is_written_is_read_and_judged_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, model: str, text: str, count: int
) -> None:
    given, out = written(tmp_path, text), tmp_path / f"out.{form[-4:].strip('-')}"
    words = ["--model", model, "--format", form, "--output", str(out)]
    assert run_cli(["export", str(given), *words]) == 0
    assert capsys.readouterr().out == f"{out}: {count} operations\n"

    ops = stored_history(out).history.ops
    assert [op.index for op in ops] == list(range(count))
    assert all(op.is_client and op.f != "debug" and not op.ext for op in ops)
    verdicts = []
    for path in (given, out):
        code = run_cli(["check", str(path), "--model", model, "--json", "--ignore", "debug"])
        told = json.loads(capsys.readouterr().out)
        verdicts.append((code, told["valid"], told["keys"][0]["name"]))
    assert verdicts[0] == verdicts[1]
    assert verdicts[0][0] == 1


def test_what_failed_says_again_what_it_wanted(tmp_path: Path) -> None:
    """Elle reads a write that failed, which nobody may see, out of the completion."""
    out = tmp_path / "out.json"
    words = ["--model", "list-append", "--format", "elle-json", "--output", str(out)]
    assert run_cli(["export", str(written(tmp_path, TXNS)), *words]) == 0
    forms = json.loads(out.read_text())
    assert [f["value"] for f in forms if f["type"] in ("fail", "info")] == [
        [["append", "y", 7]], [["append", "x", 2]],
    ]  # fmt: skip
    assert [f["time"] for f in forms] == [10, 11, 13, 14, 15, 16, 17, 18]


def test_one_object_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, out = written(tmp_path, KEYS), tmp_path / "out.json"
    words = ["export", str(given), "--model", "register", "--output", str(out)]
    assert run_cli([*words, "--format", "elle-json"]) == 254
    assert "one object at a time: --key a, b" in capsys.readouterr().err
    assert run_cli([*words, "--format", "elle-json", "--key", "b"]) == 0
    assert [f["f"] for f in json.loads(out.read_text())] == ["read", "read"]
    assert run_cli([*words, "--format", "parquet"]) == 254
    assert run_cli(["export", str(given), "--format", "elle-json"]) == 254
    assert run_cli(["export", str(given), "--format", "edn", "--model", "kv"]) == 254
    assert "elle-cli has no model kv" in capsys.readouterr().err


def test_sessions_are_not_given_to_who_assumes_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "given.txt"
    given.write_text("w 1 1\n-----\n=====\nr 1 1\n-----\n")
    assert run_cli(["export", str(given), "--model", "rw-register", "--format", "edn"]) == 254
    assert "no order of real time" in capsys.readouterr().err


JAVA = """\
#!/bin/sh
echo "$@" > "{log}"
shift 4
[ "$1" = --consistency-models ] && shift 2
{before}
for file in "$@"; do cat "$file" >> "{log}"; printf '%s \\t %s\\n' "$file" {verdict}; done
exit {code}
"""
ANSWERS = [
    ("false", 1, "", "false, as here"),
    ("true", 0, "", "THE VERDICTS DIFFER"),
    ("unknown", 0, "", "unknown"),
    ("true", 255, "echo 'java.lang.Exception: what' >&2; exit 255", "java.lang.Exception: what"),
]


@pytest.mark.parametrize(("verdict", "code", "before", "said"), ANSWERS)
def test_both_verdicts_are_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verdict: str,
    code: int,
    before: str,
    said: str,
) -> None:
    """A stand-in takes the place of Java: it notes what it was asked, and answers as elle-cli."""
    log, java, jar = tmp_path / "log", tmp_path / "bin" / "java", tmp_path / "elle.jar"
    java.parent.mkdir()
    java.write_text(JAVA.format(log=log, verdict=verdict, code=code, before=before))
    java.chmod(0o755)
    jar.write_bytes(b"")
    monkeypatch.setenv("PATH", f"{java.parent}:/usr/bin:/bin")
    words = ["check", str(written(tmp_path, KEYS)), "--model", "register", "--elle-cli", str(jar)]
    assert run_cli(words) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "verdict: INVALID" in out
    assert said in out.partition("elle-cli: ")[2]
    assert f"--elle-cli {jar}" in out
    asked = log.read_text().splitlines()
    assert asked[0].startswith(f"-jar {jar} --model cas-register /")
    if not before:
        assert sum('"f":"write"' in line for line in asked) == 2  # two objects, a file each
    assert run_cli([*words, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["elle_cli"]["valid"] in (True, False, "unknown")


def test_what_logs_show_is_said_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    r = Cluster()
    r.send(0, 10, 0, node="b0")
    r.send(0, 11, op_type="info")
    r.send(1, 12, op_type="info")
    r.poll(2, (0, 10), (1, 12))
    r.controllers(set_view(2, 4, 1, 1, 2))
    for n in range(2):
        r.store(ReplicaLog(
            node=f"b0-{n}", set="b0", id=n + 1, epoch=1, start=0, end=200, last=True,
            digests=("d",), records=((0, 0, 10), (0, 1, 12)),
        ))  # fmt: skip
    given, out = tmp_path / "given.jsonl", tmp_path / "out.jsonl"
    given.write_bytes(encode_jsonl(r.ops))
    said = "of 2 sends without an answer the replicas' logs show that 1 took effect and 1 did not"

    words = ["export", str(given), "--format", "jsonl", "--settled", "--output", str(out)]
    assert run_cli(words) == 0
    assert said in capsys.readouterr().err
    ext = [op.ext["resolved"] for op in stored_history(out).history.ops
           if op.ext and "resolved" in op.ext]  # fmt: skip
    assert ext == ["absent", "committed"]

    assert run_cli(["check", str(given), "--model", "kafka"]) == 0
    assert said in " ".join(capsys.readouterr().out.split())
