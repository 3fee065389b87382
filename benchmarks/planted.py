"""Do checkers find what is planted, and nothing else? Run as ``python -m benchmarks.planted``.

Of each kind of anomaly, at each place (`PLACES`), small histories are generated with one or two of
it and judged in this process. Each must be found by a name that is allowed for it, of the
operations or the message that were planted, and nothing may be found that is neither allowed nor a
symptom. Then as many correct histories of all workloads, where nobody may be blamed; nor after any
of the harmless edits (`benchmarks.harmless_edits`).

Prints a table, kind by place: planted, found, by which names. Exit code 1 if anything was not found
or anybody blamed, with the request that repeats it.
"""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import click
import msgspec

from benchmarks.harmless_edits import edited
from maxq.checkers.core.api import Anomaly
from maxq.checkers.judgement.runner import Results
from maxq.harness.run.judging import judge
from maxq.harness.schedule.generated import options_of
from maxq.harness.schedule.options import Options
from maxq.histories.history import History
from maxq.histories.op import Op
from maxq.workloads.generated.asked.kinds import KINDS, WORKLOADS, Kind
from maxq.workloads.generated.asked.request import PLACES, At, Planted, Refusal, Request
from maxq.workloads.generated.memory import made

SIZES = ((40, 3), (80, 4), (160, 6), (400, 10))  # operations, concurrency
TRIES = 6  # for each history that is wanted: some places are too small


class Judged(NamedTuple):
    """A history, what was planted in it, and the verdict."""

    request: Request
    ops: tuple[Op, ...]
    planted: tuple[Planted, ...]
    options: Options
    results: Results

    @property
    def anomalies(self) -> list[Anomaly]:
        """All that was found."""
        return [a for v in self.results.verdicts for a in v.anomalies]

    def names_of(self, planted: Planted) -> set[str]:
        """The allowed names by which it was found."""
        return {a.name for a in self.anomalies if a.name in planted.allowed and cites(a, planted)}

    def strange(self) -> set[str]:
        """Names of what was found and is neither planted nor a symptom of the same key or set."""
        return {a.name for a in self.anomalies if not any(_explains(p, a) for p in self.planted)}


def cites(anomaly: Anomaly, planted: Planted) -> bool:
    """Whether an anomaly is about what was planted: its operations, or its message."""
    if set(anomaly.ops) & set(planted.ops):
        return True
    detail = anomaly.detail
    if planted.key is None or detail.get("key") != planted.key:
        return False
    return planted.offset in (detail.get("offset", -1), detail.get("young", -1))


def _explains(planted: Planted, anomaly: Anomaly) -> bool:
    if cites(anomaly, planted):
        return anomaly.name in {*planted.allowed, *planted.symptoms}
    key, name = anomaly.detail.get("key"), anomaly.detail.get("set")
    same = key == planted.key if key is not None else name in (planted.set, "", None)
    return same and anomaly.name in planted.symptoms


def judged(request: Request) -> Judged:
    """Generate and judge.

    Raises:
        Refusal: there is no place for what is to be planted.
    """
    found = made(request)
    options = options_of(
        request, found.outcome.main_ns, learners=request.learners, trims=request.trims
    )
    results = judge(options, History(found.ops))
    return Judged(request, found.ops, found.planted, options, results)


def requests(kind: Kind, at: At, count: int, seed: int) -> Iterator[Request]:
    """Requests for one kind at one place: more than are wanted."""
    workloads = sorted(kind.workloads)
    for n in range(count * TRIES):
        ops, concurrency = SIZES[n % len(SIZES)]
        yield Request(
            workload=workloads[n % len(workloads)],
            ops=ops,
            concurrency=concurrency,
            anomalies={kind.name: 1 + (n // 2) % 2},
            at=at,
            seed=seed + n,
        )


class Row(msgspec.Struct):
    """What became of one kind at one place."""

    histories: int = 0
    planted: int = 0
    found: int = 0
    refused: int = 0
    names: Counter[str] = msgspec.field(default_factory=Counter)


def plant(kind: Kind, at: At, count: int, seed: int) -> tuple[Row, list[str]]:
    """So many histories of one kind at one place; and what is not as it should be."""
    row, wrong = Row(), []
    for request in requests(kind, at, count, seed):
        if row.histories == count:
            break
        try:
            one = judged(request)
        except Refusal:
            row.refused += 1
            continue
        row.histories += 1
        for planted in one.planted:
            names = one.names_of(planted)
            row.planted += 1
            row.found += bool(names)
            row.names.update(names)
            if not names:
                wrong.append(f"not found: {planted.kind} {at}: {request.command('jsonl')}")
        if strange := one.strange():
            wrong.append(f"blamed as well: {sorted(strange)}: {request.command('jsonl')}")
    if not row.histories:
        wrong.append(f"{kind.name} {at}: no history has place for it")
    return row, wrong


def correct(count: int, seed: int) -> Iterator[Request]:
    """Requests of all workloads with nothing planted."""
    for n in range(count):
        ops, concurrency = SIZES[n % len(SIZES)]
        workload = WORKLOADS[n // len(SIZES) % len(WORKLOADS)]
        info = (0.05, 0.0, 0.3)[n % 3]
        yield Request(workload=workload, ops=ops, concurrency=concurrency, info=info, seed=seed + n)


def blamed(results: Results) -> str:
    """Who is blamed, if anybody is."""
    names = Counter(a.name for v in results.verdicts for a in v.anomalies)
    broken = results.of("broken")
    breaches = [b.rule for b in results.breaches if not b.warning]
    return f"{dict(names)} {broken} {breaches}" if names or broken or breaches else ""


def check_correct(count: int, seed: int, edits: int) -> tuple[Counter[str], list[str]]:
    """Judge correct histories, and the first of them under every harmless edit."""
    counts: Counter[str] = Counter()
    wrong = []
    for n, request in enumerate(correct(count, seed)):
        one = judged(request)
        counts["correct"] += 1
        counts[f"correct: {one.results.valid}"] += 1
        why = blamed(one.results)
        if why or one.results.valid is not True:
            wrong.append(f"correct, and {why or one.results.whys}: {request.command('jsonl')}")
        if n >= edits:
            continue
        for name, ops in edited(one.ops, Random(f"{seed}/{n}")):
            if ops is None:
                continue
            counts[f"edit {name}"] += 1
            counts["edited"] += 1
            if why := blamed(judge(one.options, History(ops))):
                wrong.append(f"after {name}, {why}: {request.command('jsonl')}")
    return counts, wrong


def table(rows: dict[str, dict[str, Row]]) -> Iterator[str]:
    """Lines: kind by place, found of planted, and the names."""
    wide = max(map(len, rows))
    yield f"{'kind':{wide}}  " + "  ".join(f"{at:>9}" for at in PLACES) + "  found by"
    for kind, by_place in rows.items():
        cells = (f"{by_place[at].found}/{by_place[at].planted}" for at in PLACES)
        names = sum((by_place[at].names for at in PLACES), Counter[str]())
        said = ", ".join(f"{name} {n}" for name, n in names.most_common())
        yield f"{kind:{wide}}  " + "  ".join(f"{c:>9}" for c in cells) + f"  {said}"


@click.command()
@click.option("--each", default=9, show_default=True, help="histories of a kind at a place")
@click.option("--correct", "count", default=2000, show_default=True, help="correct histories")
@click.option("--edits", default=200, show_default=True, help="of these under every edit")
@click.option("--seed", default=0, show_default=True)
@click.option("--kind", "kinds", multiple=True, help="of which kinds alone")
def planted(each: int, count: int, edits: int, seed: int, kinds: Sequence[str]) -> None:
    """Plant every kind at every place, and judge."""
    began = time.monotonic()
    rows: dict[str, dict[str, Row]] = defaultdict(dict)
    wrong: list[str] = []
    chosen = kinds or tuple(KINDS)
    for name in chosen:
        for number, at in enumerate(PLACES):
            place: At = at  # type: ignore[assignment]
            row, found = plant(KINDS[name], place, each, seed + 1000 * number)
            rows[name][at] = row
            wrong += found
    every = [row for of_kind in rows.values() for row in of_kind.values()]
    for line in table(rows):
        click.echo(line)
    click.echo(
        f"{sum(r.histories for r in every):,} histories with planted anomalies: "
        f"{sum(r.found for r in every):,} of {sum(r.planted for r in every):,} found "
        f"({sum(r.refused for r in every):,} requests had no place)"
    )
    counts, found = check_correct(count, seed, edits)
    wrong += found
    for name, n in sorted(counts.items()):
        click.echo(f"{name}: {n:,}")
    for line in wrong:
        click.echo(line)
    click.echo(f"{len(wrong)} not as they should be, in {time.monotonic() - began:.0f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    planted()
