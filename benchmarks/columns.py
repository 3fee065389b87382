"""Do both ways to judge a history say the same? Run as ``python -m benchmarks.columns``.

Each history is judged with every operation held, and then by columns, which never hold it
(``maxq check --engine columns``): in batches of 7 and 1,000 rows, in one, and, where it is short,
of one row each; so a batch ends between an invocation and its completion, wherever it is. Once more
with every value in a text that is not ours, with spaces and an escape, which takes the slow way.
Results must be equal: verdicts, claims, anomalies, stories, counts and their order; and the pages.

The histories: the run of every seeded bug under its directed schedule, and of the correct reference
under the same; made-up ones, correct and with planted anomalies of every kind; and the runs of
stores that are named. Prints how many there were and which differ, and the share of messages, locks
and offsets of runs that were not read as arrays. Exit code 1 if anything differs.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import click
import pyarrow as pa

from maxq.checkers.availability import attempt_columns
from maxq.checkers.availability.recovery import Recovery, recoveries
from maxq.checkers.core.api import Checker, Context
from maxq.checkers.judgement.piecewise.by_columns import judge_batches
from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.judgement.runner import Results, check_all
from maxq.checkers.locks import lease_columns
from maxq.checkers.messages import offset_columns
from maxq.harness.experiments.simulate import simulated
from maxq.harness.report.evidence import Evidence
from maxq.harness.report.page import render
from maxq.harness.run.judging import checkers_of, counterexamples_of
from maxq.harness.run.replay import options_for
from maxq.harness.run.stored_run import options_of as options_of_run
from maxq.harness.schedule import format as schedules
from maxq.harness.schedule.generated import options_of
from maxq.harness.schedule.options import Options
from maxq.histories.columns import messages
from maxq.histories.columns.outline import batches_of
from maxq.histories.columns.scan import scan
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.histories.store import open_run
from maxq.histories.tables import events_table
from maxq.reference import mutants
from maxq.workloads.generated.asked.kinds import KINDS, WORKLOADS
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.generated.asked.request import Request as Wanted
from maxq.workloads.generated.memory import made

BATCHES = (7, 1_000, 0)  # rows; 0: all of them in one
PAGES = 200  # made-up histories whose pages are compared too
SHORT = 600  # rows of a history that is also read row by row
DIRECTED = Path(schedules.__file__).parent / "directed"
READERS: tuple[Any, ...] = (messages, lease_columns, offset_columns, attempt_columns)


class Case(NamedTuple):
    """A history, and by whom it is judged."""

    name: str
    ops: Sequence[Op]
    checkers: Sequence[Checker]
    context: Context
    options: Options

    def page(self, history: History, results: Results, measured: Sequence[Recovery]) -> str:
        """The report of a verdict on it."""
        return render(
            Evidence(
                history=history, results=results, context=self.context, options=self.options,
                config={}, run=self.name, commit="", recoveries=measured,
                counterexamples=counterexamples_of(
                    history, results, self.checkers, self.context
                ),
            )
        )  # fmt: skip


def case_of(name: str, ops: Sequence[Op], options: Options) -> Case:
    """A history of a run with these options."""
    return Case(name, ops, checkers_of(options), options.context(), options)


def directed() -> Iterator[Case]:
    """Every mutant under its directed schedule, and the reference under the same."""
    for mutant in mutants.names():
        script = schedules.read(DIRECTED / f"{mutant}.jsonl")
        for name in (mutant, ""):
            options = options_for(script, "simulated", mutant=name)
            run = simulated(script, options)
            yield case_of(f"directed {mutant} {name or 'without it'}", run.history.ops, options)


def made_up(count: int) -> Iterator[Case]:
    """So many made-up histories: in turn a correct one, and one with the next kind of anomaly."""
    kinds, seed, found = list(KINDS.values()), 0, 0
    while found < count:
        seed += 1
        kind = kinds[seed // 2 % len(kinds)]
        workloads = sorted(kind.workloads) if seed % 2 else list(WORKLOADS)
        wanted = Wanted(
            workload=workloads[seed % len(workloads)], ops=(40, 80, 160)[seed % 3], concurrency=4,
            anomalies={kind.name: 1} if seed % 2 else {}, seed=seed,
        )  # fmt: skip
        try:
            one = made(wanted)
        except Refusal:
            continue
        found += 1
        options = options_of(
            wanted, one.outcome.main_ns, learners=wanted.learners, trims=wanted.trims
        )
        yield case_of(wanted.command("jsonl"), one.ops, options)


def stored(stores: Sequence[Path]) -> Iterator[Case]:
    """The runs of these stores."""
    for store in stores:
        for config in sorted(store.rglob("config.json")):
            run = open_run(config.parent)
            yield case_of(str(config.parent), run.history.ops, options_of_run(run))


def foreign(table: pa.Table) -> pa.Table:
    """The same values in texts that our writer would not write."""
    at = table.schema.get_field_index("value")
    texts = [
        None if text is None else text.replace(",", " , ").replace("send", "\\u0073end")
        for text in table["value"].to_pylist()
    ]
    return table.set_column(at, table.schema.field(at), pa.array(texts, pa.string()))


def differing(case: Case, *, with_page: bool) -> list[str]:
    """The ways in which it was judged otherwise, or drawn."""
    history = History(case.ops)
    expected = check_all(history, case.checkers, case.context)
    page = case.page(history, expected, recoveries(history)) if with_page else ""
    table = events_table(case.ops, run_id="run")
    every = (*BATCHES, *((1,) if len(case.ops) <= SHORT else ()))
    ways = [(f"batches of {rows or 'all'} rows", table, rows or len(table)) for rows in every]
    ways.append(("texts that are not ours", foreign(table), 1_000))
    request = Request(case.checkers, case.context)
    wrong = []
    for name, read, rows in ways:
        judged = judge_batches(batches_of(read, rows), request)
        if judged.results != expected:
            wrong.append(name)
        elif (
            with_page
            and rows == len(table)
            and case.page(judged.history, expected, judged.recoveries) != page
        ):
            wrong.append(f"{name}: the page")
    return wrong


class Shares:
    """How many texts were read as arrays, and how many by the decoder, while it is patched in."""

    def __init__(self) -> None:
        self.texts: Counter[bool] = Counter()

    def scan(self, texts: pa.StringArray, grammar: Any) -> Any:
        """Count, and scan."""
        found = scan(texts, grammar)
        plain = int(found.plain.sum())
        self.texts[True] += plain
        self.texts[False] += len(texts) - plain
        return found

    def of(self, case: Case) -> None:
        """Judge a history once, and count."""
        table = events_table(case.ops, run_id="run")
        with ExitStack() as patches:
            for module in READERS:
                patches.enter_context(mock.patch.object(module, "scan", self.scan))
            judge_batches(batches_of(table, 1_000), Request(case.checkers, case.context))

    def said(self) -> str:
        """The share, for people."""
        every = self.texts.total()
        return f"{self.texts[False]:,} of {every:,} values of runs took the slow way" + (
            f" ({self.texts[False] / every:.2%})" if every else ""
        )


@click.command()
@click.option("--made", "count", default=2_000, show_default=True, help="made-up histories")
@click.option("--directed/--no-directed", "with_directed", default=True, show_default=True)
@click.option("--store", "stores", multiple=True, type=click.Path(exists=True, path_type=Path),
              help="of runs that are compared as well")  # fmt: skip
def main(count: int, with_directed: bool, stores: tuple[Path, ...]) -> None:
    """Compare, and say what differs."""
    begun, wrong, shares = time.monotonic(), 0, Shares()
    parts = {"made-up": made_up(count), "stored": stored(stores)}
    if with_directed:
        parts = {"directed": directed(), **parts}
    for part, cases in parts.items():
        number = rows = 0
        for number, case in enumerate(cases, start=1):
            rows += len(case.ops)
            if part != "made-up":
                shares.of(case)
            with_page = part != "made-up" or number <= PAGES
            for way in differing(case, with_page=with_page):
                wrong += 1
                print(f"DIFFERS: {case.name}: {way}", flush=True)
            if number % 100 == 0:
                print(f"{part}: {number:,} compared", flush=True)
        print(f"{part}: {number:,} histories, {rows:,} events", flush=True)
    print(f"\n{wrong} differ; {shares.said()}; {time.monotonic() - begun:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
