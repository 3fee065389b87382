"""A small generated history as operations in memory."""

from typing import NamedTuple

from maxq.histories.op import Op
from maxq.histories.text import decode_fields, op_of_fields
from maxq.workloads.generated.asked.request import Planted, Request
from maxq.workloads.generated.columns.sinks import lines_of
from maxq.workloads.generated.columns.spool import Spool
from maxq.workloads.generated.history import Maker
from maxq.workloads.generated.planning import planned
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
    spool = Spool(None, request.sets)
    maker = Maker(request, plan, spool)
    ops: list[Op] = []
    for piece in maker.pieces():
        lines = lines_of(piece.batch(), len(ops))
        ops += (op_of_fields(decode_fields(line.encode())) for line in lines)
    spool.close()
    found = maker.world.outcome.planted
    return Made(tuple(ops), tuple(found[n] for n in sorted(found)), outcome)
