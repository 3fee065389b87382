"""What is claimed of pairs, by whom it is decided, what breaks it, and what runs last said of it.

``python -m benchmarks.pair_claims > docs/pair-claims.md`` prints what is known. What runs said is
noted before that by ``python -m benchmarks.pair_claims add STORE...``, in `data/pair-claims.jsonl`:
of run folders, and of journals of ``maxq simulate``. Runs with a seeded bug do not count. Each
`add` is a line for each column, and a cell shows the last line of its column in which some run
judged the claim; where none did, what the last line says of it.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import click
import msgspec

from maxq.checkers.core.claims import BY_ID
from maxq.checkers.core.titles import status_in_words
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.simulate import SeedResult
from maxq.harness.targets.rocketmq.releases import REFERENCE
from maxq.histories.store import RESULTS

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data" / "pair-claims.jsonl"
FAMILIES = (("N", 2, 13), ("A", 1, 12), ("E", 1, 9), ("P", 1, 8), ("L", 1, 10), ("B", 1, 14))
ROWS = tuple(f"{family}{n}" for family, low, high in FAMILIES for n in range(low, high + 1))
COLUMNS = ("simulated", "local", "docker", "java")
JUDGED = ("kept", "broken")
SIMULATED = COLUMNS[0]
PAIRS = "reference-pairs"
SEEDS = (PAIRS, REFERENCE)  # how folders of the journals of `maxq simulate` begin; layouts follow
# Of rows that are no claims, why.
REASONS: Mapping[str, str] = {
    "A7": "37 is refused there with 11, by RocketMQ and by us, and promises nothing",
    "A9": "S8 compares the logs of a set, of the time after the last heal",
    "A10": "two may act at a time while one of them cannot know better; A3 says for how long",
    "L5": "L6 says the same of a member that is silent in whatever way, a dead one among them",
}


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What was noted at a time of one column: how many `runs`, of which targets, by which command
    one of them is repeated, and by claim how many runs came to which status."""

    column: str
    day: str
    runs: int
    targets: tuple[str, ...]
    repeat: str
    claims: dict[str, dict[str, int]]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one run says."""

    column: str
    target: str
    repeat: str
    claims: dict[str, str]


class _Asked(msgspec.Struct, frozen=True):
    environment: str
    target: str = REFERENCE
    mutant: str = ""
    controllers: int = 3


class _Config(msgspec.Struct, frozen=True):
    options: _Asked
    repeat: str = ""


class _Results(msgspec.Struct, frozen=True):
    claims: dict[str, str] = {}


# What stores say.


def told(store: Path) -> Iterator[Told]:
    """The runs of a store."""
    for path in sorted(store.rglob(RESULTS)):
        config = msgspec.json.decode((path.parent / "config.json").read_bytes(), type=_Config)
        asked = config.options
        if not asked.mutant:
            column = asked.environment if asked.target == REFERENCE else "java"
            claims = msgspec.json.decode(path.read_bytes(), type=_Results).claims
            yield Told(
                column=column,
                target=asked.target,
                repeat=config.repeat,
                claims=_of_table(claims, pair=not asked.controllers),
            )
    for path in sorted(store.rglob(JOURNAL)):
        if path.parent.name.startswith(SEEDS):
            yield from _seeds(path, pair=path.parent.name.startswith(PAIRS))


def _seeds(path: Path, *, pair: bool) -> Iterator[Told]:
    """The runs of a journal of `maxq simulate`."""
    for line in path.read_bytes().splitlines():
        said = msgspec.json.decode(line, type=SeedResult)
        mode = "--mode pair " if pair else ""
        mode += f"--layout {said.layout} " if said.layout else ""
        yield Told(
            column=SIMULATED,
            target=REFERENCE,
            repeat=f"maxq simulate {mode}--seeds {said.seed}..{said.seed}",
            claims=_of_table(said.claims, pair=pair),
        )


def _of_table(claims: Mapping[str, str], *, pair: bool) -> dict[str, str]:
    """Of a run of pairs what is judged of pairs, of others what is judged there only."""
    return {
        claim: status
        for claim, status in claims.items()
        if claim in ROWS and claim in BY_ID and (BY_ID[claim].in_pairs is not None) == pair
    }


def noted(runs: Iterable[Told], day: str) -> list[Line]:
    """A line for each column of some runs."""
    by_column: dict[str, list[Told]] = {}
    for run in runs:
        by_column.setdefault(run.column, []).append(run)
    return [_line(column, of, day) for column, of in sorted(by_column.items())]


def _line(column: str, runs: Sequence[Told], day: str) -> Line:
    said = {claim: Counter(r.claims[claim] for r in runs if claim in r.claims) for claim in ROWS}
    return Line(
        column=column,
        day=day,
        runs=len(runs),
        targets=tuple(sorted({run.target for run in runs})),
        repeat=runs[0].repeat,
        claims={claim: dict(sorted(n.items())) for claim, n in said.items() if n},
    )


def known() -> list[Line]:
    """All that was noted, in order."""
    if not DATA.is_file():
        return []
    return [msgspec.json.decode(line, type=Line) for line in DATA.read_bytes().splitlines()]


# The page.


_HEAD = """\
# Claims about pairs and containers

Written by `python -m benchmarks.pair_claims`. What runs said is in `data/pair-claims.jsonl`, where
`python -m benchmarks.pair_claims add STORE...` notes it. A cell is of the last runs of the column
in which any judged the claim. It says in how many the claim was kept, or that it was **broken** in
k of the n. Where none judged it, the cell says what came instead; - means that no run has met the
claim. What each claim says, and under which settings: [claims.md](claims.md).

"""


def page(lines: Sequence[Line]) -> str:
    """The table as Markdown."""
    columns = " | ".join(COLUMNS)
    table = f"| Claim | Checker | Mutants that break it | {columns} |\n"
    table += "|---" * (3 + len(COLUMNS)) + "|\n"
    table += "".join(f"| {' | '.join(_row(claim, lines))} |\n" for claim in ROWS)
    made = "".join(map(_made, lines))
    return f"{_HEAD}{table}\n## The runs\n\n{made}"


def _made(line: Line) -> str:
    of = f"{line.runs} of {', '.join(line.targets)}"
    return f"- {line.column}, {line.day}: {of}; the first again by\n  `{line.repeat}`\n"


def _row(claim: str, lines: Sequence[Line]) -> tuple[str, ...]:
    made = BY_ID.get(claim)
    if made is None:
        return (claim, f"not judged: {REASONS[claim]}", "", *("" for _ in COLUMNS))
    mutants = ", ".join(f"`{m}`" for m in made.mutants) or "none yet"
    where = "" if made.in_pairs is not None else ", with controllers only"
    cells = (cell(claim, column, lines) for column in COLUMNS)
    return (claim, f"`{made.checker}`{where}", mutants, *cells)


def cell(claim: str, column: str, lines: Sequence[Line]) -> str:
    """What the last runs of a column that judged a claim said of it."""
    of = [line.claims[claim] for line in lines if line.column == column and claim in line.claims]
    judged = [said for said in of if any(status in said for status in JUDGED)]
    if not of:
        return "-"
    said = (judged or of)[-1]
    broken, kept = said.get("broken", 0), said.get("kept", 0)
    if broken:
        return f"**broken in {broken} of {broken + kept}**"
    if kept:
        return f"kept in {kept}"
    return status_in_words(max(said, key=lambda status: (said[status], status)))


@click.group(invoke_without_command=True)
@click.pass_context
def main(context: click.Context) -> None:
    """Print the page."""
    if context.invoked_subcommand is None:
        sys.stdout.write(page(known()))


@main.command()
@click.argument("stores", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def add(stores: Sequence[Path]) -> None:
    """Take note of the runs of some stores."""
    lines = noted((run for store in stores for run in told(store)), time.strftime("%Y-%m-%d"))
    with DATA.open("ab") as file:
        file.writelines(msgspec.json.encode(line) + b"\n" for line in lines)
    for line in lines:
        click.echo(f"{line.column}: {line.runs} runs")


if __name__ == "__main__":
    main()
