"""Histories of other checkers with documented verdicts: ``python -m benchmarks.corpus FOLDER``.

FOLDER holds a README.md with tables ``| file | bytes | model | verdict | … |`` under headings
``## owner/name (…)``, and each file in the folder ``owner+name``. Prints of each file that a model
judges the model, the documented verdict, ours, how it was decided and how long it took; then how
many agree. Exit code 1 if one differs.
"""

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import judge
from maxq.harness.cli.given.budget import Budget, BudgetType
from maxq.histories.history import History
from maxq.histories.lines.foreign import HEAD, READERS, format_of
from maxq.histories.op import HistoryError

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


def expected(verdict: str) -> bool | None:
    """Whether a documented verdict says that a history is legal; None: it cannot be read."""
    if verdict.startswith(("linearizable", "valid")):
        return True
    return False if verdict.startswith(("not linearizable", "invalid")) else None


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--budget", type=BudgetType(), default="30s,1GB", show_default=True)
def main(folder: Path, budget: Budget) -> None:
    """Judge every history of a corpus that a model knows."""
    known, differ, same, skipped = models(), 0, 0, 0
    print("| file | model | documented | ours | by | s |\n|---|---|---|---|---|---:|")
    for one in listed(folder):
        name, legal = one.model.split()[0].rstrip(","), expected(one.verdict)
        if name not in known or legal is None:
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
        judged = judge(known[name], history, budget.begun())
        took = time.monotonic() - begun
        by = ", ".join(sorted({key.decided.by for key in judged.keys}))
        print(f"| {one.path.name} | {name} | {one.verdict} | {judged.valid} | {by} | {took:.2f} |",
              flush=True)  # fmt: skip
        same, differ = same + (judged.valid is legal), differ + (judged.valid is not legal)
    print(f"\n{same} agree, {differ} differ or are unknown, {skipped} not judged")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
