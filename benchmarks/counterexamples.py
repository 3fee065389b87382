"""Are counterexamples small, and invalid alone? Run as ``python -m benchmarks.counterexamples``.

Histories are generated with one or two anomalies each (`benchmarks.planted`): every kind, at every
place, until there are as many as asked for. Of each that is found invalid the smallest part is
looked for that shows what was planted; the part is judged again as the whole was, and must be
invalid for the same promise.

Prints how many came down to `ENOUGH` operations, the longest, and those of which nothing was found.
Exit code 1 if less than 95 % did, or one is not invalid alone.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import get_args

import click

from benchmarks.planted import Judged, cites, judged, requests
from maxq.checkers.core.api import Anomaly
from maxq.checkers.counterexample.of_anomaly import Counterexample
from maxq.harness.run.judging import checkers_of, context_of, judge, searching_in
from maxq.histories.grounds import RUN
from maxq.histories.history import History
from maxq.workloads.generated.asked.kinds import KINDS
from maxq.workloads.generated.asked.request import At, Refusal, Request

ENOUGH, SHARE_MIN = 20, 0.95


def histories(count: int, seed: int) -> Iterator[Judged]:
    """So many histories, of every kind at every place in turn."""
    cells = [
        iter(requests(kind, at, count, seed)) for kind in KINDS.values() for at in get_args(At)
    ]
    found = 0
    while cells and found < count:
        for cell in list(cells):
            one = next(_judged(cell), None)
            if one is None:
                cells.remove(cell)
                continue
            found += 1
            yield one
            if found == count:
                return


def _judged(cell: Iterator[Request]) -> Iterator[Judged]:
    for request in cell:
        try:
            yield judged(request)
        except Refusal:
            continue


def planted_in(one: Judged) -> Anomaly:
    """The first anomaly that is what was planted."""
    for anomaly in one.anomalies:
        for planted in one.planted:
            if anomaly.name in planted.allowed and cites(anomaly, planted):
                return anomaly
    raise LookupError(f"not found: {one.request}")


def alone(one: Judged, found: Counterexample) -> bool:
    """Whether what was found is invalid by itself, for the same promise."""
    own = [op for op in one.ops if op.process == RUN]
    part = History(sorted([*own, *found.ops], key=lambda op: op.index))
    results = judge(one.options, part)
    return results.valid is False and results.claims[found.anomaly.claim].status == "broken"


@click.command()
@click.option("--count", default=500, show_default=True, help="histories")
@click.option("--seed", default=1, show_default=True)
def main(count: int, seed: int) -> None:
    """Reduce, judge again, and say how it went."""
    begun, lengths, left_out = time.process_time(), Counter[int](), 0
    wrong = none = 0
    names = Counter[str]()
    for one in histories(count, seed):
        anomaly = planted_in(one)
        search = searching_in(
            History(one.ops), one.results, checkers_of(one.options), context_of(one.options)
        )
        found = search.of(anomaly)
        if found is None:
            none += 1
            print(f"no part was found: {anomaly.name}: {one.request}", flush=True)
            continue
        if not alone(one, found):
            wrong += 1
            print(f"NOT INVALID ALONE: {anomaly.name}: {one.request}", flush=True)
            continue
        names[anomaly.name] += 1
        lengths[found.length] += 1
        left_out += found.left_out > 0
    total, small = lengths.total(), sum(n for length, n in lengths.items() if length <= ENOUGH)
    print(
        f"{small} of {total + wrong + none} came down to {ENOUGH} operations or fewer "
        f"({len(names)} names of anomalies); the longest has {max(lengths, default=0)}; "
        f"{sum(n * k for k, n in lengths.items()) / max(1, total):.1f} on average; of {left_out} "
        f"messages were left out; {wrong} not invalid alone; "
        f"{time.process_time() - begun:.0f} s of CPU"
    )
    sys.exit(1 if wrong or small < SHARE_MIN * (total + wrong + none) else 0)


if __name__ == "__main__":
    main()
