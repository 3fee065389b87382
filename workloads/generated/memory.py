"""A small generated history as operations in memory."""

from typing import NamedTuple

from maxq.histories.op import Op
from maxq.histories.text import decode_fields, op_of_fields
from maxq.workloads.generated.asked.request import Planted, Request
from maxq.workloads.generated.columns.sinks import Lines
from maxq.workloads.generated.planning import planned
from maxq.workloads.generated.sharing import Coming
from maxq.workloads.generated.world import Outcome


class Made(NamedTuple):
    """A history, what was planted in it, and what came of making it."""

    ops: tuple[Op, ...]
    planted: tuple[Planted, ...]
    outcome: Outcome


def made(request: Request) -> Made:
    """Make one.

    Raises:
        Refusal: it cannot be made.
    """
    request.checked()
    plan, outcome = planned(request)
    coming = Coming(request, plan, Lines(), None)
    lines = [line for chunk in coming.chunks(1) for line in chunk.data.splitlines()]
    ops = tuple(op_of_fields(decode_fields(line)) for line in lines)
    return Made(ops, tuple(coming.planted[n] for n in sorted(coming.planted)), outcome)
