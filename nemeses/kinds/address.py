"""Change of address: a node's machine gets another address of its block.

`change-address` changes it under the running process, which is not informed, or, with ``restart``,
with the node stopped before and started after; it completes when the node answers at its new
address and nobody at the old one. With ``stays`` the change is permanent, and no heal concerns
it. `restore-address` gives the first address again. A broker must keep its id, and every peer must
find it. A node that is down gets another address as well, and starts there.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from maxq.harness.contracts.cluster import AddressChangeable, Part
from maxq.harness.contracts.environment import Capability
from maxq.nemeses.bag import Bag
from maxq.nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step, on_each
from maxq.nemeses.kinds.process import one_of
from maxq.nemeses.stage import Stage

CHANGED: tuple[Part, ...] = ("master", "master", "slave", "sync-state-set-slave")
BY_NAME: tuple[Part, ...] = ("controller-leader", "controller", "namesrv")
APART_S = 5.0  # between two changes
NEEDS = frozenset({Capability.CHANGE_ADDRESS})


def _changeable(stage: Stage, args: Args) -> Fit:
    """A node that is down and should be gets another address; of one that should run it is proven
    that it answers."""
    anew = bool(args.get("restart"))
    return lambda n: n not in stage.ended and (stage.writable(n) or not anew)


def _changed(stage: Stage, args: Args) -> Fit:
    changeable = _changeable(stage, args)
    return lambda n: n not in stage.settled and changeable(n)


def _changes(drawing: Drawing) -> Iterator[Sequence[Step]]:
    """One node, and back; then two, one after the other; half of the changes with a restart."""
    parts = drawing.bag(CHANGED + BY_NAME if drawing.by_name else CHANGED)
    ways: Bag[bool] = Bag(drawing.rng, (False, True))
    while True:
        for restarts in ((False,), (True, False), (True,)):
            yield (
                *(_change(one_of(parts), anew) for anew in restarts),
                *(Step("restore-address", APART_S if n == 0 else 0.0, args=_args(ways.next()), of=n)
                  for n in range(len(restarts))),
            )  # fmt: skip


def _change(who: Any, anew: bool) -> Step:
    return Step("change-address", APART_S, who=who, args=_args(anew))


def _args(anew: bool) -> dict[str, Any]:
    return {"restart": True} if anew else {}


CHANGE_ADDRESS = Kind(
    name="change-address",
    about="a broker, controller or name server gets another address, live or stopped and restarted",
    acts=(
        ActKind(
            f="change-address", needs=NEEDS, fit=_changeable,
            do=on_each(AddressChangeable, lambda cluster, args: partial(
                cluster.change_address, restart=bool(args.get("restart"))
            )),
        ),
        ActKind(
            f="restore-address", needs=NEEDS, fit=_changed, back=True,
            do=on_each(AddressChangeable, lambda cluster, args: partial(
                cluster.restore_address, restart=bool(args.get("restart"))
            )),
        ),
    ),
    rounds=_changes,
)  # fmt: skip
