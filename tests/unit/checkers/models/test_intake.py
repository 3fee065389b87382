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


TXNS = {
    "retried": "i0w51 f0w51 i1w51 o1w51 i2r5_ o2r51",
    "appended twice": "i0a51 o0a51 i1a51 o1a51 i2r5_ o2r5[1,1]",
    "of other names": "I0w91 O0w91 i1r9_ o1r91",
    "own write, then aborted": "i0w17 f0w17 i1w18+r1_ o1w18+r17 i2r1_ o2r18",
    "own write, then from nowhere": "i1w18+r1_ o1w18+r17 i2r1_ o2r18",
    "something else": "i0w91 o0w91 x1d9 y1d9 i1r9_ o1r91",
}
KINDS = {"i": "invoke", "o": "ok", "f": "fail", "I": "invoke", "O": "ok", "x": "invoke", "y": "ok"}


def transactions(text: str) -> str:
    """Each word: type, process, then parts joined by +: a name, a key, and a value (`_`: nil)."""
    lines = []
    for word in text.split():
        kind, process, parts = word[0], word[1], word[2:].split("+")
        f = {"I": "write", "O": "write", "x": "drop", "y": "drop"}.get(kind, "txn")
        said = [
            f"[:{'append' if p[0] == 'a' else p[0]} {p[1]} {p[2:].replace('_', 'nil')}]"
            for p in parts
        ]
        value = "nil" if f == "drop" else f"[{' '.join(said)}]"
        lines.append(f"{{:process {process}, :type :{KINDS[kind]}, :f :{f}, :value {value}}}\n")
    return "".join(lines)


@pytest.mark.parametrize(
    ("name", "words", "code", "said"),
    [
        ("retried", "rw-register", 2, "written more than once (1 to key 5)"),
        ("appended twice", "list-append", 2, "written more than once (1 to key 5)"),
        ("of other names", "rw-register", 0, "2 transactions of rw-register are"),
        ("own write, then aborted", "rw-register --consistency read-committed", 1, "G1a"),
        ("own write, then from nowhere", "rw-register --consistency read-uncommitted", 1,
         "phantom"),
        ("something else", "rw-register", 2, "does not know 1 drop"),
        ("something else", "rw-register --ignore drop", 0, ""),
    ],
)  # fmt: skip
def test_transactions_are_accused_of_what_is_sure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, words: str, code: int, said: str
) -> None:
    path = tmp_path / "history.edn"
    path.write_text(transactions(TXNS[name]))
    found = run_cli(["check", str(path), "--model", *words.split()])
    out = capsys.readouterr()
    assert (found, said in " ".join((out.out + out.err).split())) == (code, True), out.out + out.err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("w(1,5,0,-1)\nr(1,5,1,7)\n", "G1a"),
        ("w(1,4,0,3)\nw(1,5,0,6)\nr(1,4,0,6)\nr(1,5,1,8)\n", "internal"),
    ],
)
def test_texts_of_sessions_are_read_as_their_authors_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, found: str
) -> None:
    """Plume's transaction -1 was aborted; AWDIT wants one's own writes read at every level."""
    path = tmp_path / "history.txt"
    path.write_text(text)
    words = ["--model", "rw-register", "--consistency", "read-committed"]
    assert run_cli(["check", str(path), *words]) == 1
    assert f"are not read-committed: {found}." in " ".join(capsys.readouterr().out.split())


def test_completions_alone_are_transactions_and_nothing_else(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Elle's own first example has neither processes nor invocations."""
    path = tmp_path / "history.edn"
    path.write_text(
        "[{:type :ok, :value [[:append :x 1] [:r :y [1]]]}\n"
        " {:type :ok, :value [[:append :x 2] [:append :y 1]]}\n"
        " {:type :ok, :value [[:r :x [1 2]]]}]\n"
    )
    words = ["check", str(path), "--model"]
    assert run_cli([*words, "list-append", "--consistency", "serializable"]) == 1
    assert "are not serializable: G1c." in capsys.readouterr().out
    assert run_cli([*words, "register"]) == 254
    assert "has completions and no invocations" in capsys.readouterr().err
