"""``maxq check FILE --model NAME`` of histories as people have them: names, keys, first values."""

from pathlib import Path

import pytest

from maxq.harness.cli.main import run_cli

Step = tuple[int, str, str, str]  # process, type, f, value

INDEPENDENT: list[Step] = [
    (0, "invoke", "write", "[0 1]"), (0, "ok", "write", "[0 1]"),
    (1, "invoke", "write", "[1 2]"), (1, "ok", "write", "[1 2]"),
    (0, "invoke", "cas", "[0 [1 3]]"), (0, "ok", "cas", "[0 [1 3]]"),
    (1, "invoke", "read", "[0 nil]"), (1, "ok", "read", "[0 3]"),
    (2, "invoke", "read", "[1 nil]"), (2, "info", "read", "nil"),
]  # fmt: skip
STALE: list[Step] = [
    *INDEPENDENT[:-4],
    (1, "invoke", "read", "[0 nil]"),
    (1, "ok", "read", "[0 1]"),
]
PAIRS: list[Step] = [
    (0, "invoke", "write", "[0 1]"), (0, "ok", "write", "[0 1]"),
    (0, "invoke", "read", "nil"), (0, "ok", "read", "[0 1]"),
]  # fmt: skip
CAS: list[Step] = [
    (0, "invoke", "write", "1"), (0, "ok", "write", "1"),
    (0, "invoke", "cas", "[1 2]"), (0, "ok", "cas", "[1 2]"),
    (0, "invoke", "read", "nil"), (0, "ok", "read", "2"),
]  # fmt: skip
DRAINED: list[Step] = [
    (0, "invoke", "enqueue", "1"), (0, "ok", "enqueue", "1"),
    (0, "invoke", "drain", "nil"), (0, "ok", "drain", "[1]"),
    (0, "invoke", "dequeue", "nil"), (0, "ok", "dequeue", "nil"),
]  # fmt: skip
FROM_0: list[Step] = [
    (0, "invoke", "read", "nil"), (0, "ok", "read", "0"),
    (0, "invoke", "cas", "[0 5]"), (0, "ok", "cas", "[0 5]"),
    (1, "invoke", "read", "nil"), (1, "ok", "read", "5"),
]  # fmt: skip
FORK: list[Step] = [
    (0, "invoke", "write", "[[:w 0 1]]"), (0, "ok", "write", "[[:w 0 1]]"),
    (1, "invoke", "write", "[[:w 1 1]]"), (1, "ok", "write", "[[:w 1 1]]"),
    (2, "invoke", "read", "[[:r 0 nil] [:r 1 nil]]"), (2, "ok", "read", "[[:r 0 1] [:r 1 nil]]"),
    (3, "invoke", "read", "[[:r 1 nil] [:r 0 nil]]"), (3, "ok", "read", "[[:r 1 1] [:r 0 nil]]"),
]  # fmt: skip


def only(steps: list[Step], kind: str) -> list[Step]:
    """The same calls, none of which is answered otherwise."""
    return [(p, kind if t == "ok" else t, f, v) for p, t, f, v in steps]


@pytest.mark.parametrize(
    ("steps", "words", "code", "said"),
    [
        (INDEPENDENT, "cas-register", 0, "5 calls on 2 independent keys"),
        (STALE, "cas-register", 1, "those on 1 of the keys"),
        (INDEPENDENT, "cas-register --independent no", 1, ""),
        (PAIRS, "register", 0, "2 calls are linearizable"),
        (CAS, "register", 2, "does not know 1 cas, which may have changed what is judged"),
        (only(CAS, "fail"), "register", 2, "no operation succeeded that could have shown"),
        (DRAINED, "fifo-queue", 2, "(--ignore drain, if not)"),
        (DRAINED, "fifo-queue --ignore drain", 1, "false-empty"),
        (only(DRAINED[:2], "info"), "fifo-queue", 2, "could have shown a breach"),
        (DRAINED[:2], "fifo-queue", 2, "could have shown a breach"),
        (FROM_0, "cas-register", 1, "--initial 0"),
        (FROM_0, "cas-register --initial 0", 0, "3 calls are linearizable"),
        (FROM_0, "cas-register --initial 7", 1, ""),
        (FROM_0[:2], "set --initial 0", 254, "--initial is for registers"),
        (FORK, "long-fork", 1, "each lack a write that the other one shows"),
        ([(0, "invoke", "read", "nil"), (0, "ok", "read", "nil")], "set", 254, "wants a list"),
        ([(0, "invoke", "read", "nil"), (0, "ok", "read", "nil")], "bank", 254, "wants balances"),
        ([(0, "invoke", "broadcast", "4"), (0, "ok", "broadcast", "nil"),
          (0, "invoke", "read", "nil"), (0, "ok", "read", "[4]")], "set-full", 0, "2 calls"),
        ([(0, "invoke", "write", "nil"), (0, "ok", "write", "2"),
          (0, "invoke", "read", "nil"), (0, "ok", "read", "2")], "register", 0, "2 calls"),
    ],
)  # fmt: skip
def test_it_is_judged_as_it_was_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, steps: list[Step], words: str, code: int,
    said: str,
) -> None:  # fmt: skip
    path = tmp_path / "history.edn"
    path.write_text("".join(
        f"{{:process {p}, :type :{t}, :f :{f}, :value {v}}}\n" for p, t, f, v in steps
    ))  # fmt: skip
    found = run_cli(["check", str(path), "--model", *words.split()])
    out = capsys.readouterr()
    assert (found, said in " ".join((out.out + out.err).split())) == (code, True), out.out + out.err


def test_what_only_fails_later_is_no_cause_of_what_was_read_before(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        "{:process 0, :type :invoke, :f :read, :value nil}\n"
        "{:process 0, :type :ok, :f :read, :value 9}\n"
        "{:process 0, :type :invoke, :f :write, :value 9}\n"
        "{:process 0, :type :fail, :f :write, :value 9}\n"
    )
    assert run_cli(["check", str(path), "--model", "register"]) == 1
    assert "saw a value that nobody wrote" in " ".join(capsys.readouterr().out.split())
