"""``maxq check FILE --model NAME``: what is printed, and the exit code."""

import json
from pathlib import Path

import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.plugins import restored
from maxq.harness.contracts.terminal import program
from maxq.harness.run import plugins
from maxq.harness.run.rejudge import encode_jsonl
from maxq.histories.lines.by_line import read_edn_history
from maxq.histories.parquet import encode_parquet

STALE = """\
{:process 0, :type :invoke, :f :write, :value 1}
{:process 0, :type :ok, :f :write, :value 1}
{:process 1, :type :invoke, :f :write, :value 2}
{:process 1, :type :ok, :f :write, :value 2}
{:process 0, :type :invoke, :f :read, :value nil}
{:process 0, :type :ok, :f :read, :value 1}
"""
KEYS = """\
{:process 0, :type :invoke, :f :append, :key "a", :value "x"}
{:process 0, :type :ok, :f :append, :key "a", :value "x"}
{:process 0, :type :invoke, :f :get, :key "b", :value nil}
{:process 0, :type :ok, :f :get, :key "b", :value "x"}
"""


def checked(
    capsys: pytest.CaptureFixture[str], folder: Path, text: str, *words: str
) -> tuple[int, str, str]:
    path = folder / "history.edn"
    path.write_text(text)
    code = run_cli(["check", str(path), *words])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_stale_read_is_said_with_its_operations(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, _ = checked(capsys, tmp_path, STALE, "--model", "register")
    assert code == 1
    assert out.startswith("verdict: INVALID: 3 calls are not linearizable as register.\n")
    words = " ".join(out.split())
    assert "stale-read: the value 1 was there before and after the value 2:" in words
    assert "op 4 (read returned 1)" in words
    assert "decided: keys: 1 by fast test" in out
    assert f"repeat:  {program()} check {tmp_path}/history.edn --model register" in out


def test_keys_are_judged_one_by_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = checked(capsys, tmp_path, KEYS, "--model", "kv")
    assert code == 1
    assert "2 calls on 2 keys are not linearizable as kv: those on 1 of the keys" in out
    code, out, _ = checked(capsys, tmp_path, KEYS, "--model", "kv", "--json")
    told = json.loads(out)
    assert (code, told["valid"]) == (1, False)
    assert {k["key"]: k["valid"] for k in told["keys"]} == {"a": True, "b": False}
    assert told["keys"][1]["witness"] == [2]


def test_what_is_linearizable_is_valid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = checked(capsys, tmp_path, STALE.replace("value 1}\n", "value 2}\n"),
                           "--model", "cas-register")  # fmt: skip
    assert (code, out.splitlines()[0]) == (
        0, "verdict: valid: 3 calls are linearizable as cas-register.",
    )  # fmt: skip


def test_a_used_up_budget_is_unknown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of so many writes in any order none explains the last read: all have to be tried."""
    lines = [f"{{:process {n}, :type :invoke, :f :write, :value {n % 9}}}\n" for n in range(90)]
    lines += [f"{{:process {n}, :type :ok, :f :write, :value {n % 9}}}\n" for n in range(90)]
    for value in (1, 2):  # of which one is the last
        lines.append("{:process 0, :type :invoke, :f :read}\n")
        lines.append(f"{{:process 0, :type :ok, :f :read, :value {value}}}\n")
    code, out, _ = checked(
        capsys, tmp_path, "".join(lines), "--model", "register", "--budget", "300ms"
    )
    assert code == 2
    assert "unknown: whether 92 calls are linearizable as register is not known" in " ".join(
        out.split()
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "regster"), "did you mean register"),
        (("--model", "register", "--budget", "soon"), "'soon' is no duration"),
        (("--model", "mutex"), "no operation that mutex knows; its operations are: read, write"),
        (("--model", "register", "--format", "json"), "history.edn: "),
    ],
)
def test_bad_input_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    code, _, err = checked(capsys, tmp_path, STALE, *words)
    assert code in (254, 255)
    assert said in err


def test_a_file_of_no_known_format_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = checked(capsys, tmp_path, "# hello\n", "--model", "register")
    assert (code, "is no history: it begins with" in err, "(--format)" in err) == (254, True, True)


def test_a_model_of_ones_own_is_used_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_loaded", {})  # else tests behind this one would name it
    monkeypatch.setattr(plugins, "_modules", [])
    stack = """\
{:process 0, :type :invoke, :f :push, :value 1}
{:process 0, :type :ok, :f :push, :value 1}
{:process 0, :type :invoke, :f :push, :value 2}
{:process 0, :type :info, :f :push, :value 2}
{:process 1, :type :invoke, :f :pop, :value nil}
{:process 1, :type :ok, :f :pop, :value 1}
"""
    with restored():
        words = ("--plugin", "stack_model", "--model", "stack")
        code, out, _ = checked(capsys, tmp_path, stack, *words)
        assert (code, out.splitlines()[0]) == (
            0,
            "verdict: valid: 3 calls are linearizable as stack.",
        )
        assert "--model stack --plugin stack_model" in out
        code, out, _ = checked(capsys, tmp_path, stack.replace(":info", ":ok"), *words)
        assert code == 1
        assert "the state was (1, 2) before it, and no other call was open" in " ".join(out.split())


def test_a_register_that_was_not_written_holds_one_value(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What it held at the beginning is not known, but it was one value."""
    text = "".join(
        f"{{:process 0, :type :{kind}, :f :txn, :value [[:r :x {value}]]}}\n"
        for seen in (1, 2) for kind, value in (("invoke", "nil"), ("ok", seen))
    )  # fmt: skip
    code, out, _ = checked(capsys, tmp_path, text, "--model", "multi-register")
    assert (code, "2 calls are not linearizable as multi-register" in out) == (1, True)
    assert 'txn [["r","x",2]]' in " ".join(out.split())


def test_keywords_are_keys_and_values_as_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = KEYS.replace('"a"', ":a").replace('"b"', ":b")
    code, out, _ = checked(capsys, tmp_path, text, "--model", "kv", "--json")
    assert (code, [key["key"] for key in json.loads(out)["keys"]]) == (1, ["a", "b"])
    code, out, _ = checked(capsys, tmp_path, STALE.replace("value 1}", "value :one}"),
                           "--model", "register")  # fmt: skip
    assert (code, "op 4 (read returned one)" in " ".join(out.split())) == (1, True)


def test_of_a_malformed_history_nothing_is_known(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A process that invokes twice: whose answer is whose?"""
    twice = STALE.replace(":process 1, :type :ok", ":process 1, :type :invoke")
    for text in (twice, twice.replace("value 1}", "value 2}")):
        code, out, _ = checked(capsys, tmp_path, text, "--model", "register")
        words = " ".join(out.split())
        assert code == 2
        assert words.startswith("verdict: unknown: whether ")
        assert "the history breaks the rules of histories: W3 at op 3: process 1 invokes" in words
        code, out, _ = checked(capsys, tmp_path, text, "--model", "register", "--json")
        assert (code, json.loads(out)["valid"]) == (2, "unknown")


@pytest.mark.parametrize(
    "words", [("--power",), ("--explain",), ("--fail-on", "loss"), ("--engine", "columns")]
)
def test_what_a_model_does_not_ask_for_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    code, _, err = checked(capsys, tmp_path, STALE, "--model", "register", *words)
    assert (code, f"{words[0]} is for claims" in err) == (254, True)


def test_a_format_counts_and_not_the_name_of_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ops = read_edn_history(_written(tmp_path / "a.edn", STALE))
    for name, data in (
        ("a.journal", encode_jsonl(ops)),
        ("a.table", encode_parquet(ops, run_id="r")),
    ):
        (tmp_path / name).write_bytes(data)
        assert run_cli(["check", str(tmp_path / name), "--model", "register"]) == 1
        assert "3 calls are not linearizable as register" in capsys.readouterr().out


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_story_stays_short_and_a_queue_takes_values_alone(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    long = (
        KEYS.replace('"x"', f'"{"x" * 5000}"').replace(":append", ":put", 2).replace('"b"', '"a"')
    )
    long = long.replace(
        f':f :get, :key "a", :value "{"x" * 5000}"', ':f :get, :key "a", :value "y"'
    )
    code, out, _ = checked(capsys, tmp_path, long, "--model", "kv")
    assert (code, len(out) < 2000) == (1, True)
    empty = "{:process 0, :type :invoke, :f :enqueue, :value nil}\n"
    code, _, err = checked(capsys, tmp_path, empty, "--model", "fifo-queue")
    assert (code, "op 0: enqueue wants a value" in err) == (254, True)


def test_locks_have_names_and_what_is_left_out_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two clients hold two locks, and one of them renews."""
    ops = [(0, "acquire", 7), (1, "acquire", 8), (1, "renew", 8), (0, "release", 7)]
    text = "".join(
        f"{{:process {who}, :type :{kind}, :f :{f}, :value {lock}}}\n"
        for who, f, lock in ops for kind in ("invoke", "ok")
    )  # fmt: skip
    code, out, _ = checked(capsys, tmp_path, text, "--model", "mutex")
    assert (code, "valid: 3 calls on 2 keys are linearizable as mutex." in out) == (0, True)
    assert "left out: operations that mutex does not know: 1 renew" in out
    code, out, _ = checked(capsys, tmp_path, text.replace("8", "7"), "--model", "mutex")
    assert (code, "held the lock at one time" in " ".join(out.split())) == (1, True)


HOSTILE = '</title><script>alert(1)</script>\\"onload=alert(2) \\u202e'


def test_a_counterexample_is_written_and_judged_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    other = STALE.replace(":process 1, :type :ok", ":process 9, :type :invoke, :f :write, "
                          ":value 7}\n{:process 1, :type :ok", 1)  # fmt: skip
    folder = tmp_path / "small"
    code, out, _ = checked(capsys, tmp_path, other, "--model", "register", "--minimal", str(folder))
    words = " ".join(out.split())
    assert code == 1
    assert "counterexample: 3 of the 4 operations are illegal by themselves: stale-read:" in words
    assert "0-1 0 - write 1 ok 2-4 1 - write 2 ok 5-6 0 - read ok 1" in words
    assert "counterexample.html" in words
    for name in ("history.jsonl", "history.edn"):
        assert run_cli(["check", str(folder / name), "--model", "register"]) == 1
        assert "3 calls are not linearizable as register" in capsys.readouterr().out


def test_a_page_is_inert_whatever_the_values(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "small"
    text = STALE.replace("value 1}", f'value "{HOSTILE}"}}')
    code, _, _ = checked(capsys, tmp_path, text, "--model", "register", "--minimal", str(folder))
    page = (folder / "counterexample.html").read_text()
    assert code == 1
    assert "<script" not in page
    assert page.count("</title>") == 1 + page.count("<g><title>")
    assert "\u202e" not in page
    assert "default-src 'none'" in page.replace("&#x27;", "'")


def test_what_is_valid_has_no_counterexample(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = STALE.replace("value 1}\n", "value 2}\n")
    folder = tmp_path / "small"
    code, _, err = checked(capsys, tmp_path, text, "--model", "register", "--minimal", str(folder))
    assert (code, folder.exists()) == (0, False)
    assert "no counterexample is written: nothing is known to be invalid" in err


@pytest.mark.parametrize("model", ["list-append", "register"])
def test_operations_of_one_index_are_not_judged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, model: str
) -> None:
    """Vector E7: whose answer is whose cannot be said (Jepsen's checkers call it valid)."""
    text = "".join(
        f"{{:index 0, :process {process}, :type :{kind}, :f :txn, :value [{part}]}}\n"
        for process, part in ((0, "[:append :x 1]"), (1, "[:r :x []]"))
        for kind in ("invoke", "ok")
    )
    code, out, _ = checked(capsys, tmp_path, text, "--model", model)
    words = " ".join(out.split())
    assert (code, "W1 at op 0: another operation has index 0 (3 breaches)" in words) == (2, True)
