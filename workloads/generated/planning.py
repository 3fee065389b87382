"""Finds a place for everything that is to be planted, by making the history without texts."""

import numpy as np

from maxq.workloads.generated.asked.kinds import KINDS
from maxq.workloads.generated.asked.request import Refusal, Request
from maxq.workloads.generated.history import BEGIN, END, Maker, rounds_of, struck_in
from maxq.workloads.generated.world import Outcome, Task

TRIES_MAX = 12


def tasks_of(request: Request) -> list[Task]:
    """Everything that is to be planted."""
    kinds = [name for name, count in request.anomalies.items() for _ in range(count)]
    return [Task(n, kind, request.at) for n, kind in enumerate(kinds)]


def preferred(request: Request, task: Task, rng: np.random.Generator) -> list[int]:
    """The rounds in which to try it, in order."""
    where = KINDS[task.kind].where
    if where in ("begin", "end"):
        return [BEGIN if where == "begin" else END]
    rounds = list(range(rounds_of(request)))
    struck = [r for r in rounds if struck_in(r, request) >= 0]
    if where == "fail-over":
        rounds = struck
    match request.at:
        case "first":
            order = rounds
        case "last":
            order = rounds[::-1]
        case "fail-over":
            order = [*struck, *(r + 1 for r in struck if r + 1 < len(rounds))]
        case _:
            order = [int(r) for r in rng.permutation(rounds)]
    return order[:TRIES_MAX]


def planned(request: Request) -> tuple[dict[int, list[Task]], Outcome]:
    """Find rounds for everything that is asked for.

    Returns:
        What to plant in which round, and what will come of it.

    Raises:
        Refusal: there is no place for something; says of what and how much there is place.
    """
    tasks = tasks_of(request)
    rng = np.random.default_rng([request.seed, 1 << 20])
    orders = {t.number: preferred(request, t, rng) for t in tasks}
    tried = dict.fromkeys(orders, 0)
    while True:
        plan: dict[int, list[Task]] = {}
        for t in tasks:
            plan.setdefault(orders[t.number][tried[t.number]], []).append(t)
        maker = Maker(request, plan, None)
        for _ in maker.pieces():
            """Made, and not written."""
        outcome = maker.world.outcome
        left = [t for t in tasks if t.number not in outcome.planted]
        if not left:
            return plan, outcome
        for t in left:
            tried[t.number] += 1
            if tried[t.number] >= len(orders[t.number]):
                raise Refusal(_no_place(request, t, outcome))


def _no_place(request: Request, task: Task, outcome: Outcome) -> str:
    wanted = request.anomalies[task.kind]
    there = sum(p.kind == task.kind for p in outcome.planted.values())
    return (
        f"{task.kind}={wanted}: there is place for {there} only, with --ops {request.ops}, "
        f"--concurrency {request.concurrency} and --at {request.at}"
    )
