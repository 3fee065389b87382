"""Histories of other checkers with documented verdicts: ``python -m benchmarks.corpus FOLDER``.

FOLDER holds a README.md with tables ``| file | bytes | model | verdict | … |`` under headings
``## owner/name (…)``, and each file in the folder ``owner+name``. Prints of each file that a model
judges the model, the documented verdict, ours, how it was decided and how long it took; then how
many agree. Exit code 1 if one differs. A history in which nothing succeeded that could have shown a
breach is unknown here and valid elsewhere; such are counted.
"""

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import NOTHING_TESTED, judge
from maxq.checkers.transactions.judged import Asked
from maxq.harness.cli.given.budget import Budget, BudgetType
from maxq.histories.history import History
from maxq.histories.lines.foreign import HEAD, READERS, format_of
from maxq.histories.op import HistoryError

WORDS = {"serializability": "serializable", "transactional causal consistency": "causal"}
_ROW = re.compile(r"\| (\S+) \| (\d+) \| (.*?) \| (.*?) \|")


class Listed(NamedTuple):
    """A file, its model and its verdict, as documented."""

    path: Path
    model: str
    verdict: str


def listed(folder: Path) -> Iterator[Listed]:
    """The files of a corpus."""
    origin = folder
    for line in (folder / "README.md").read_text().splitlines():
        if line.startswith("## "):
            origin = folder / line[3:].split(" (")[0].replace("/", "+")
        elif match := _ROW.match(line):
            yield Listed(origin / match[1], match[3], match[4])


class Expected(NamedTuple):
    """What a verdict says of a history: of transactions by a consistency model ("": the strongest),
    and which of our verdicts agree with it."""

    consistency: str
    allowed: tuple[object, ...]


def expected(verdict: str) -> list[Expected]:
    """What a documented verdict says; empty: it cannot be read."""
    if verdict.startswith(("linearizable", "valid")):
        # Some say themselves that a stricter checker may find something.
        return [Expected("", (True, False) if "may call it invalid" in verdict else (True,))]
    if verdict.startswith(("not linearizable", "invalid")):
        named = re.search(r"invalid: not ([a-z-]+)", verdict)
        return [Expected(named[1] if named else "", (False,))]
    found = []
    for part in verdict.split(";"):
        word, _, names = part.strip().partition(" ")
        if word in ("satisfies", "violates"):
            for name in re.split(r",\s*|\s+and\s+", names):
                model = WORDS.get(name.strip(), name.strip())
                found.append(Expected(model, (word == "satisfies",)))
    return found


def model_of(words: str) -> str:
    """The name of the model with which a documented one begins."""
    return words.split()[0].rstrip(",")


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--budget", type=BudgetType(), default="30s,1GB", show_default=True)
def main(folder: Path, budget: Budget) -> None:
    """Judge every history of a corpus that a model knows."""
    known, differ, same, skipped, empty = models(), 0, 0, 0, 0
    print("| file | model | documented | ours | by | s |\n|---|---|---|---|---|---:|")
    for one in listed(folder):
        name, wanted = model_of(one.model), expected(one.verdict)
        if name not in known or not wanted:
            skipped += 1
            continue
        try:
            with one.path.open("rb") as file:
                history = History(READERS[format_of(file.read(HEAD))](one.path))
        except (KeyError, HistoryError) as error:
            why = "no format that is known" if isinstance(error, KeyError) else str(error)
            print(f"| {one.path.name} | {name} | {one.verdict} | not read: {why} | | |")
            skipped += 1
            continue
        begun = time.monotonic()
        found = [
            judge(known[name], history, budget.begun(), Asked(each.consistency)) for each in wanted
        ]
        took = time.monotonic() - begun
        by = ", ".join(sorted({key.decided.by for judged in found for key in judged.keys}))
        ours = ", ".join(f"{each.consistency} {judged.valid}".strip()
                         for each, judged in zip(wanted, found, strict=True))  # fmt: skip
        print(f"| {one.path.name} | {name} | {one.verdict} | {ours} | {by} | {took:.2f} |",
              flush=True)  # fmt: skip
        agree = all(j.valid in e.allowed or (True in e.allowed and j.why == NOTHING_TESTED)
                    for e, j in zip(wanted, found, strict=True))  # fmt: skip
        empty += any(judged.why == NOTHING_TESTED for judged in found)
        same, differ = same + agree, differ + (not agree)
    print(f"\n{same} agree, of which {empty} say valid of a history that tests nothing (here "
          f"unknown); {differ} differ or are unknown, {skipped} not judged")  # fmt: skip
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
