"""Texts of sessions, judged by AWDIT and by us: ``python -m benchmarks.beside_awdit AWDIT``.

AWDIT is the program of Moldrup and Pavlogiannis (PLDI 2025), built from its sources (0.2.1). Each
text is one of its two formats of a line an operation, small, right or nearly right, and is judged
at each of its three levels by both, and by the definition of the level, which tries every order.

Its Plume texts begin with a transaction that writes 0 to every key. AWDIT gives that one no place
in time, and the definition puts it first, so each session reads from it before all else. Where a
text of its own format begins with such a transaction, that is one as others are.

Prints of each level how many texts keep it and who differs. Exit code 1 if we differ from either.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import click

from benchmarks.differential.txn_oracle import Txn, by_axioms, drawn, spoil
from maxq.checkers.models.transactions import RwRegister
from maxq.checkers.transactions.judged import Asked
from maxq.histories.history import History
from maxq.histories.lines.sessions import read_awdit, read_plume

LEVELS = ("read-committed", "read-atomic", "causal")
READERS = {"plume": read_plume, "test": read_awdit}  # by AWDIT's names of its formats
FIRST = 9  # the session of the transaction that writes what was there before all
KEYS = {"x": 1, "y": 2, "z": 3}
NOWHERE = 77  # a value that nobody writes
SHOWN_MAX = 5


def text_of(number: int) -> tuple[str, list[Txn]]:
    """The format and the transactions of a text, in order of their begins."""
    random = Random(f"awdit {number}")
    plume = number % 2 == 0
    txns = drawn(random, lists=False, info=0, size=random.randint(2, 12))
    if random.random() < 0.8:
        _loosened(random, txns)
    for _ in range(random.choice((0, 0, 0, 1))):
        spoil(random, txns, lists=False)
    reads = [part for txn in txns for part in txn.parts if part[0] == "r"]
    if reads and random.random() < 0.05:
        random.choice(reads)[2] = NOWHERE
    if plume or random.random() < 0.5:
        begins = [Txn(who, -1, -1, "ok", [["r", "z", None]]) for who in {t.process for t in txns}]
        txns = [*begins, *txns]
    return ("plume", txns) if plume else ("test", _with_first(txns))


def _loosened(random: Random, txns: Sequence[Txn]) -> None:
    """Let transactions read what somebody wrote, whoever that was: in each of them one version of a
    key, unless it wrote the key itself."""
    last = {(n, k): v for n, txn in enumerate(txns) for f, k, v in txn.parts if f == "w"}
    for n, txn in enumerate(txns):
        have: dict[str, int | None] = {}
        for part in txn.parts:
            others = [v for (m, k), v in last.items() if k == part[1] and m != n
                      and (m < n or random.random() < 0.1)
                      and (txns[m].outcome == "ok" or random.random() < 0.03)]  # fmt: skip
            seen = have.setdefault(part[1], random.choice([None, *others, *others]))
            if part[0] == "w":
                have[part[1]] = part[2]
            else:
                part[2] = seen


def _with_first(txns: Sequence[Txn]) -> list[Txn]:
    """The same where what was there before all is 0, and somebody wrote it. What failed is in no
    such text."""
    first = Txn(FIRST, -2, -2, "ok", [["w", key, 0] for key in KEYS])
    there = [
        txn._replace(parts=[[f, k, 0 if v is None else v] for f, k, v in txn.parts])
        for txn in txns if txn.outcome == "ok"
    ]  # fmt: skip
    return [first, *there]


def written(kind: str, txns: Sequence[Txn]) -> str:
    """The text."""
    if kind == "plume":
        return "".join(
            f"{f}({KEYS[key]},{value or 0},{txn.process},{n if txn.outcome == 'ok' else -1})\n"
            for n, txn in enumerate(txns) for f, key, value in txn.parts
        )  # fmt: skip
    sessions: dict[int, list[str]] = {}
    for txn in txns:
        lines = "".join(f"{f} {KEYS[key]} {value}\n" for f, key, value in txn.parts)
        sessions.setdefault(txn.process, []).append(lines)
    return "=====\n".join("-----\n".join(session) for session in sessions.values())


def ours(kind: str, path: Path, level: str) -> object:
    """Our verdict. A text of which nothing depends on anything has no breach either."""
    txns = RwRegister().columns(History(READERS[kind](path)))
    found = RwRegister().judge(txns, Asked(level), lambda: False)
    nothing = found.unknown.startswith("no transaction depends")
    return True if nothing else found.valid


def asked(awdit: Path) -> Callable[[str, Path, str], object]:
    """Who asks AWDIT for its verdict."""

    def verdict(kind: str, path: Path, level: str) -> object:
        command = [str(awdit), "check", "-i", level, "-f", kind, "-r", "first", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        words = {"Consistent.": True, "Inconsistent.": False}
        return next((words[line] for line in done.stdout.splitlines() if line in words), "crash")

    return verdict


def compared(number: int, path: Path, awdit: Callable[[str, Path, str], object]) -> Mapping[
    str, Mapping[str, object]
]:  # fmt: skip
    """What each says of each level of a text, which is left in the file."""
    kind, txns = text_of(number)
    path.write_text(written(kind, txns))
    there = [txn for txn in txns if txn.outcome == "ok"]
    return {
        level: {"definition": by_axioms(there, level), "AWDIT": awdit(kind, path, level),
                "ours": ours(kind, path, level)} for level in LEVELS
    }  # fmt: skip


@click.command()
@click.argument("awdit", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--count", default=2_000, show_default=True, help="texts")
def main(awdit: Path, count: int) -> None:
    """Compare, and say who differs."""
    seen, shown = Counter[tuple[str, str]](), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "text.txt"
        for number in range(count):
            for level, said in compared(number, path, asked(awdit)).items():
                seen[level, "kept"] += said["definition"] is True
                for other in ("AWDIT", "definition"):
                    seen[level, other] += said["ours"] != said[other]
                if said["ours"] != said["definition"] or said["ours"] != said["AWDIT"]:
                    shown += 1
                    if shown <= SHOWN_MAX:
                        print(f"text {number}, {level}: {said}\n{path.read_text()}")
    print(f"{'level':16} {'texts':>6} {'kept':>6} {'not as AWDIT':>13} {'not as defined':>15}")
    for level in LEVELS:
        numbers = [seen[level, name] for name in ("kept", "AWDIT", "definition")]
        print(f"{level:16} {count:6,} {numbers[0]:6,} {numbers[1]:13,} {numbers[2]:15,}")
    sys.exit(1 if shown else 0)


if __name__ == "__main__":
    main()
