"""``maxq check FILE --model NAME``: what is printed, and the exit code."""

import json
from pathlib import Path

import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.plugins import restored

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
    assert f"repeat:  maxq check {tmp_path}/history.edn --model register" in out


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
    lines = []
    for at in range(24):
        lines.append(f"{{:process {at}, :type :invoke, :f :enqueue, :value 1}}\n")
    lines += [f"{{:process {at}, :type :ok, :f :enqueue, :value 1}}\n" for at in range(24)]
    code, out, _ = checked(capsys, tmp_path, "".join(lines), "--model", "queue", "--budget", "0s")
    assert code == 2
    assert "unknown: whether 24 calls are linearizable as queue is not known" in " ".join(
        out.split()
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "regster"), "did you mean register"),
        (("--model", "register", "--budget", "soon"), "'soon' is neither a time"),
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
    assert (code, "is of no format that is known: --format edn" in err) == (254, True)


def test_a_model_of_ones_own_is_used_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
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
