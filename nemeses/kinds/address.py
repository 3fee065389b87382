"""Readdress: a node's machine gets another address of its block.

`change-ip` changes it under the running process, which is not informed, or, with ``restart``, with
the node stopped before and started after; it completes when the node answers at its new address and
nobody at the old one. With ``stays`` the move is for good, and no heal concerns it. `restore-ip`
gives the first address again. A broker must keep its id, and every peer must find it. A node that
is down is moved as well, and starts at its new address.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from harness.contracts.cluster import Part, Readdressable
from harness.contracts.environment import Capability
from nemeses.bag import Bag
from nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step, on_each
from nemeses.kinds.process import one_of
from nemeses.stage import Stage

MOVED: tuple[Part, ...] = ("master", "master", "slave", "sync-state-set-slave")
BY_NAME: tuple[Part, ...] = ("controller-leader", "controller", "namesrv")
AWAY_S = 5.0  # between two moves
NEEDS = frozenset({Capability.READDRESS})


def _movable(stage: Stage, args: Args) -> Fit:
    """A node that is down and should be is moved; of one that should run it is proven that it
    answers."""
    anew = bool(args.get("restart"))
    return lambda n: n not in stage.ended and (stage.writable(n) or not anew)


def _moved(stage: Stage, args: Args) -> Fit:
    movable = _movable(stage, args)
    return lambda n: n not in stage.settled and movable(n)


def _moves(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """One node away and back; then two, one after the other; half of the moves with a restart."""
    parts = Bag(drawing.rng, MOVED + BY_NAME if drawing.by_name else MOVED)
    ways: Bag[bool] = Bag(drawing.rng, (False, True))
    while True:
        for away in ((False,), (True, False), (True,)):
            yield (
                *(_away(one_of(parts), anew) for anew in away),
                *(Step("restore-ip", AWAY_S if n == 0 else 0.0, args=_args(ways.next()), of=n)
                  for n in range(len(away))),
            )  # fmt: skip


def _away(who: Any, anew: bool) -> Step:
    return Step("change-ip", AWAY_S, who=who, args=_args(anew))


def _args(anew: bool) -> dict[str, Any]:
    return {"restart": True} if anew else {}


READDRESS = Kind(
    name="readdress",
    acts=(
        ActKind(
            f="change-ip", needs=NEEDS, fit=_movable,
            do=on_each(Readdressable, lambda cluster, args: partial(
                cluster.change_ip, restart=bool(args.get("restart"))
            )),
        ),
        ActKind(
            f="restore-ip", needs=NEEDS, fit=_moved, back=True,
            do=on_each(Readdressable, lambda cluster, args: partial(
                cluster.restore_ip, restart=bool(args.get("restart"))
            )),
        ),
    ),
    rounds=_moves,
)  # fmt: skip
