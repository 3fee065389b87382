"""Are models' counterexamples small, and invalid alone?

Run as ``python -m benchmarks.model_counterexamples``.

Histories of every model of which some are made are generated with one anomaly each, of every kind,
of 20 to 160 calls, with values that are unique and with five values; all are invalid. Each is
judged in a budget, and what is shown of it is judged again alone.

Prints by model how many came down to `ENOUGH` calls, the longest, and the slowest. Exit code 1 if
less than 95 % did, or one is not invalid alone.
"""

import itertools
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import click
import msgspec

from maxq.checkers.linearizability.minimal import ENOUGH
from maxq.checkers.linearizability.model import Model
from maxq.checkers.models.catalogue import models
from maxq.checkers.models.judged import ModelJudged, judge
from maxq.harness.cli.given.budget import Budget, BudgetType
from maxq.histories.history import History
from maxq.workloads.generated.asked.request import Refusal
from maxq.workloads.of_models.making import Made, made
from maxq.workloads.of_models.request import ANOMALIES, ModelRequest

SHARE_MIN = 0.95
SIZES = ((20, 3), (40, 4), (80, 5), (160, 6))  # calls, concurrency
FEW = 5  # values that are written again and again


class Reduced(NamedTuple):
    """Of one history: what was asked for, how many calls are shown, and how long it took; whether
    they are invalid alone."""

    request: ModelRequest
    length: int
    seconds: float
    alone: bool


def requests(count: int, seed: int) -> Iterator[tuple[ModelRequest, Made]]:
    """So many histories, of every kind of every model in turn."""
    cells = list(itertools.product(models().items(), ANOMALIES, (0, FEW)))
    found = 0
    for number in itertools.count():
        for (name, model), anomaly, values in list(cells):
            ops, concurrency = SIZES[number % len(SIZES)]
            request = ModelRequest(
                model=name, ops=ops, concurrency=concurrency, values=values,
                anomalies={anomaly: 1}, seed=seed + number,
            )  # fmt: skip
            one = _made(request, model)
            if one is None:
                cells.remove(((name, model), anomaly, values))
                continue
            yield request, one
            if (found := found + 1) == count:
                return


def _made(request: ModelRequest, model: Model) -> Made | None:
    """None: it cannot be planted, or the model writes no values that could come again."""
    try:
        one = made(request, model)
        unique = made(msgspec.structs.replace(request, values=0), model)
    except Refusal:
        return None
    return None if request.values and one.ops == unique.ops else one


def reduced(request: ModelRequest, one: Made, model: Model, budget: Budget) -> Reduced:
    """Judge a history, and what is shown of it."""
    history = History(one.ops)
    begun = time.process_time()
    judged = judge(model, history, budget.begun())
    seconds = time.process_time() - begun
    key = judged.counterexample
    if judged.valid is not False or key is None or key.smallest is None:
        return Reduced(request, request.ops, seconds, judged.valid is False)
    part = _alone(history, key.smallest.begins, model, budget)
    return Reduced(request, len(key.smallest.begins), seconds, part.valid is False)


def _alone(history: History, begins: tuple[int, ...], model: Model, budget: Budget) -> ModelJudged:
    """The verdict on some calls, numbered anew as a file has them."""
    pairs = [(history[at], history.completion(history[at])) for at in begins]
    ops = sorted((op for pair in pairs for op in pair if op), key=lambda op: op.index)
    numbered = [msgspec.structs.replace(op, index=at) for at, op in enumerate(ops)]
    return judge(model, History(numbered), budget.begun())


@click.command()
@click.option("--count", default=500, show_default=True, help="histories")
@click.option("--seed", default=1, show_default=True)
@click.option("--budget", type=BudgetType(), default="30s,1GB", show_default=True, help="of each")
@click.option("--verbose", is_flag=True, help="name every one that is longer")
def main(count: int, seed: int, budget: Budget, verbose: bool) -> None:
    """Reduce, judge again, and say how it went."""
    known = models()
    by_model: dict[str, list[Reduced]] = defaultdict(list)
    for request, one in requests(count, seed):
        found = reduced(request, one, known[request.model], budget)
        by_model[request.model].append(found)
        if not found.alone:
            print(f"NOT INVALID ALONE: {request}", flush=True)
        elif verbose and found.length > ENOUGH:
            print(f"{found.length} calls, {found.seconds:.1f} s: {request}", flush=True)
    print(f"{'model':20} {'histories':>9} {'<= 20':>6} {'longest':>8} {'slowest s':>10}")
    for name, some in sorted(by_model.items()):
        small = sum(r.length <= ENOUGH for r in some)
        print(f"{name:20} {len(some):9} {small:6} {max(r.length for r in some):8} "
              f"{max(r.seconds for r in some):10.2f}")  # fmt: skip
    every = [r for some in by_model.values() for r in some]
    small = sum(r.length <= ENOUGH and r.alone for r in every)
    print(f"{small} of {len(every)} came down to {ENOUGH} calls or fewer; "
          f"{sum(not r.alone for r in every)} not invalid alone")  # fmt: skip
    sys.exit(1 if small < SHARE_MIN * len(every) or not all(r.alone for r in every) else 0)


if __name__ == "__main__":
    main()
