"""Do both ways to judge a history say the same? Run as ``python -m benchmarks.columns``.

Each history is judged with every operation held, and then by columns, which never hold it
(``maxq check``): in batches of 7 and 1,000 rows, in one, and, where it is short,
of one row each; so a batch ends between an invocation and its completion, wherever it is. Once more
with every value in a text that is not ours, with spaces and an escape, which takes the slow way.
And in batches that begin, or end, with each operation that something was found by, its rows dealt
over 16 buckets or more. Results must be equal: verdicts, claims, anomalies, stories, counts and
their order; and the pages.

With `--spark`, made-up histories are also the runs of one job of Spark, their tables in one file or
in parts, a row group of some rows each; their results are compared.

The histories: the run of every seeded bug under its directed schedule, and of the correct reference
under the same; made-up ones, correct and with planted anomalies of every kind; and the runs of
stores that are named. Prints how many there were and which differ, and the share of messages, locks
and offsets of runs that were not read as arrays. Exit code 1 if anything differs.
"""

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import click
import pyarrow as pa
import pyarrow.parquet as pq

from maxq.checkers.availability import attempt_columns
from maxq.checkers.availability.recovery import Recovery, recoveries
from maxq.checkers.core.api import Checker, Context
from maxq.checkers.judgement.piecewise.buckets import ROW_BYTES
from maxq.checkers.judgement.piecewise.by_columns import MEMORY, judge_batches
from maxq.checkers.judgement.piecewise.dealt import Request
from maxq.checkers.judgement.piecewise.memory import Memory
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
from maxq.histories.columns.outline import Reading, batches_of, reading_of
from maxq.histories.columns.scan import scan
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.histories.store import open_run
from maxq.histories.tables import events_table
from maxq.reference import mutants
from maxq.spark_checkers.engine import Table, judge_on
from maxq.spark_checkers.session import spark_context
from maxq.workloads.generated.asked.kinds import KINDS, WORKLOADS
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.generated.asked.request import Request as Wanted
from maxq.workloads.generated.memory import made

BATCHES = (7, 1_000, 0)  # rows; 0: all of them in one
PAGES = 200  # made-up histories whose pages are compared too
SHORT = 600  # rows of a history that is also read row by row
CITED, BUCKETS = 40, 16  # operations beside which batches are cut; buckets of these, at least
DIRECTED = Path(schedules.__file__).parent / "directed"
READERS: tuple[Any, ...] = (messages, lease_columns, offset_columns, attempt_columns)


class Way(NamedTuple):
    """How a history is read, whether its page is compared, and what memory there is."""

    name: str
    reading: Reading
    drawn: bool = False
    memory: Callable[[], Memory] = lambda: MEMORY


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
        yield case_of(f"{wanted.command('jsonl')} (seed {seed})", one.ops, options)


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
    ways = [
        Way(
            f"batches of {rows or 'all'} rows",
            batches_of(table, rows or len(table)),
            with_page and not rows,
        )
        for rows in every
    ]
    ways.append(Way("texts that are not ours", batches_of(foreign(table), 1_000)))
    ways += beside_findings(table, expected)
    request = Request(case.checkers, case.context)
    wrong = []
    for way in ways:
        judged = judge_batches(way.reading, request, way.memory)
        if judged.results != expected:
            wrong.append(way.name)
        elif way.drawn and case.page(judged.history, expected, judged.recoveries) != page:
            wrong.append(f"{way.name}: the page")
    return wrong


def beside_findings(table: pa.Table, expected: Results) -> Iterator[Way]:
    """Batches that begin, and that end, with an operation that something was found by."""
    at = dict(zip(table["index"].to_pylist(), range(len(table)), strict=True))
    found = {i for v in expected.verdicts for a in v.anomalies for i in (*a.ops, *a.acts)}
    rows = [at[index] for index in sorted(found)[:CITED] if index in at]
    many = Memory(aim=max(1, len(table) * ROW_BYTES // BUCKETS), most=MEMORY.most)
    for name, cuts in (("begin", rows), ("end", [row + 1 for row in rows])):
        bounds = sorted({0, *cuts, len(table)})
        batches = [
            batch
            for begin, end in pairwise(bounds)
            for batch in table.slice(begin, end - begin).combine_chunks().to_batches()
        ]
        if rows:
            yield Way(
                f"batches that {name} with what was found", reading_of(batches), memory=lambda: many
            )


def on_one_job(cases: Sequence[Case]) -> list[str]:
    """The names of those that Spark judges otherwise, all at once."""
    rng, wrong = random.Random(len(cases)), []
    with tempfile.TemporaryDirectory(prefix="maxq-columns-") as folder:
        tables = {}
        for number, case in enumerate(cases):
            run, path = f"r{number}", Path(folder, f"r{number}")
            events = events_table(case.ops, run_id=run)
            parts = rng.choice((1, 1, 3, 50))
            share = -(-len(events) // parts)
            path.mkdir()
            for begin in range(0, len(events), share):
                rows = events.slice(begin, share)
                pq.write_table(
                    rows, path / f"part-{begin:06}.parquet", row_group_size=rng.randint(3, 99)
                )
            tables[run] = Table(path, Request(case.checkers, case.context))
        with spark_context("local[2]") as context:
            found = judge_on(context, tables)
    for number, case in enumerate(cases):
        if found[f"r{number}"].results != check_all(History(case.ops), case.checkers, case.context):
            wrong.append(case.name)
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
@click.option("--spark", "with_spark", is_flag=True, help="made-up histories on Spark too")
@click.option("--store", "stores", multiple=True, type=click.Path(exists=True, path_type=Path),
              help="of runs that are compared as well")  # fmt: skip
def main(count: int, with_directed: bool, with_spark: bool, stores: tuple[Path, ...]) -> None:
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
    if with_spark:
        differ = on_one_job(list(made_up(count)))
        wrong += len(differ)
        print(*(f"DIFFERS on Spark: {name}" for name in differ), sep="\n")
        print(f"{count:,} made-up histories in one job of Spark: {len(differ)} differ", flush=True)
    print(f"\n{wrong} differ; {shares.said()}; {time.monotonic() - begun:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
