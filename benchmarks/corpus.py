"""Histories with documented verdicts: ``python -m benchmarks.corpus FOLDER``.

FOLDER holds a README.md with tables ``| file | bytes | model | verdict | … |`` (bytes may be left
out) under headings ``## owner/name (…)``, and each file in the folder ``owner+name``. A model may
have options of ``maxq check`` after it, a verdict words in backquotes that must be said with it.
``tests/foreign`` is such a folder.

Prints of each file that a model judges the model, the documented verdict, ours, how it was decided
and how long it took; then how many agree. Exit code 1 if one differs. A history in which nothing
succeeded that could have shown a breach is unknown here and valid elsewhere; such are counted.
"""

import io
import re
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import click

from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import NOTHING_TESTED
from maxq.harness.cli.main import run_cli

WORDS = {"serializability": "serializable", "transactional causal consistency": "causal"}
CODES = {0: "valid", 1: "invalid", 2: "unknown", 254: "refused"}
_ROW = re.compile(r"\| (\S+) \|(?: \d+ \|)? (.*?) \| (.*?) \|")
_SAID = re.compile(r"`(.*?)`")
_DECIDED = re.compile(r"decided: (.*?); in [0-9.]+ s")


class Listed(NamedTuple):
    """A file, its model with options, and its verdict, as documented."""

    path: Path
    model: str
    verdict: str

    def words(self) -> list[str]:
        """The model and its options; of another tool's words for a model only the first."""
        words = self.model.replace(",", "").split()
        return words if words[1:2] and words[1].startswith("--") else words[:1]


def listed(folder: Path) -> Iterator[Listed]:
    """The files of a corpus."""
    origin = folder
    for line in (folder / "README.md").read_text().splitlines():
        if line.startswith("## "):
            origin = folder / line[3:].split(" (")[0].replace("/", "+")
        elif (match := _ROW.match(line)) and (origin / match[1]).exists():
            yield Listed(origin / match[1], match[2], match[3])


class Expected(NamedTuple):
    """What a verdict says of a history: of transactions by a consistency model ("": the one that is
    asked for), which of our verdicts agree with it, and the words that must be said."""

    consistency: str
    allowed: tuple[str, ...]
    said: str = ""


def expected(verdict: str) -> list[Expected]:
    """What a documented verdict says; empty: it cannot be read."""
    words = match[1] if (match := _SAID.search(verdict)) else ""
    if verdict.startswith(("linearizable", "valid")):
        # Some say themselves that a stricter checker may find something.
        both = "may call it invalid" in verdict
        return [Expected("", ("valid", "invalid") if both else ("valid",), words)]
    if verdict.startswith(("not linearizable", "invalid")):
        named = re.search(r"invalid: not ([a-z-]+)", verdict)
        return [Expected(named[1] if named else "", ("invalid",), words)]
    if verdict.startswith(("unknown", "refused")):
        return [Expected("", (verdict[:7],), words)]
    found = []
    for part in verdict.split(";"):
        word, _, names = part.strip().partition(" ")
        if word in ("satisfies", "violates"):
            for name in re.split(r",\s*|\s+and\s+", names):
                model = WORDS.get(name.strip(), name.strip())
                found.append(Expected(model, ("valid" if word == "satisfies" else "invalid",)))
    return found


class Answered(NamedTuple):
    """Our verdict, all that was said with it, and whether it is one that agrees."""

    verdict: str
    text: str
    agrees: bool

    @property
    def tests_nothing(self) -> bool:
        """Whether nothing succeeded that could have shown a breach."""
        return NOTHING_TESTED in self.text


def answered(one: Listed, wanted: Expected, budget: str) -> Answered:
    """What ``maxq check`` says of a file."""
    consistency = ["--consistency", wanted.consistency] if wanted.consistency else []
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = run_cli(["check", str(one.path), "--model", *one.words(), *consistency, "-v",
                        "--budget", budget])  # fmt: skip
    verdict, text = CODES.get(code, f"exit code {code}"), " ".join(out.getvalue().split())
    same = verdict in wanted.allowed or ("valid" in wanted.allowed and NOTHING_TESTED in text)
    return Answered(verdict, text, same and wanted.said in text)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--budget", default="30s,1GB", show_default=True, help="of each verdict")
def main(folder: Path, budget: str) -> None:
    """Judge every history of a corpus that a model knows."""
    known, differ, same, skipped, empty = models(), 0, 0, 0, 0
    print("| file | model | documented | ours | by | s |\n|---|---|---|---|---|---:|")
    for one in listed(folder):
        wanted, name = expected(one.verdict), one.words()[0]
        if name not in known or not wanted:
            skipped += 1
            continue
        begun = time.monotonic()
        found = [answered(one, each, budget) for each in wanted]
        took = time.monotonic() - begun
        by = ", ".join(sorted({m[1] for a in found for m in _DECIDED.finditer(a.text)}))
        ours = ", ".join(f"{each.consistency} {a.verdict}".strip()
                         for each, a in zip(wanted, found, strict=True))  # fmt: skip
        print(f"| {one.path.name} | {one.model} | {one.verdict} | {ours} | {by} | {took:.2f} |",
              flush=True)  # fmt: skip
        if ours == "refused" and "refused" not in wanted[0].allowed:
            skipped += 1  # a file that is no history, as some corpora have
            continue
        agree = all(a.agrees for a in found)
        empty += any(a.tests_nothing and "valid" in e.allowed
                     for a, e in zip(found, wanted, strict=True))  # fmt: skip
        for one_ in found:
            print("" if one_.agrees else f"DIFFERS: {one_.text}\n", end="")
        same, differ = same + agree, differ + (not agree)
    print(f"\n{same} agree, of which {empty} say of a history that tests nothing that it is valid "
          f"(here unknown); {differ} differ, {skipped} not judged")  # fmt: skip
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
