"""What operators do, and what written schedules ask for beside faults.

elect-master    replica: the set's replica of this number shall lead, or ``other``: one that
                does not; refusable: to be refused is no failure
apply-ids       count: controllers are asked for so many broker ids, each of a set of its own
order-election  of each victim, whether it can lead or not; no effect is awaited
read-log        of a broker that is down: where its log begins and ends, and a digest of its bytes
"""

from collections.abc import Sequence

from maxq.harness.client.stored_logs import STORE, read_log
from maxq.harness.contracts.cluster import Electing, Proof, Stored
from maxq.harness.contracts.environment import Role
from maxq.histories.fault_facts import READ_LOG
from maxq.nemeses.kind import ActKind, Args, Fit, Kind, on_each
from maxq.nemeses.stage import Stage, Told, told

OTHER = "other"


async def _elect(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    replica = args.get("replica", 0)
    sets: dict[str, list[str]] = {}
    for node in stage.cluster.by_role(Role.BROKER):
        sets.setdefault(node.broker_set, []).append(node.name)
    if replica == OTHER:
        chosen = await _others_in_sync(stage, list(sets.values()))
    else:
        chosen = [names[int(replica) % len(names)] for names in sets.values()]
    done = await stage.each_alone(stage.cluster.offers(Electing).elect, chosen)
    if not args.get("refusable"):
        return done
    return {node: {**what, "elected": what["holds"], "holds": True} for node, what in done.items()}


async def _others_in_sync(stage: Stage, sets: Sequence[Sequence[str]]) -> list[str]:
    """Of each set, a replica that does not lead: one that can be elected now, where there is
    one."""
    led = await stage.cluster.playing("master")
    in_sync = await stage.cluster.playing("sync-state-set-slave")
    found = ([n for n in names if n not in led] for names in sets)
    return [min(names, key=lambda n: n not in in_sync) for names in found if names]


async def _apply_ids(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    proof = await stage.cluster.offers(Electing).apply_ids(act, count=int(args.get("count", 1)))
    return {"controllers": told(proof)}


def _stopped(stage: Stage, args: Args) -> Fit:
    return lambda node: not stage.up(node)


async def _read_log(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    stores = stage.cluster.offers(Stored)

    async def read(node: str) -> Proof:
        log = read_log(await stores.stored(node, STORE))
        return Proof(True, {"start": log.start, "end": log.end, "digest": log.digest()})

    return await stage.each_alone(read, nodes)


ORDERS = Kind(
    name="orders",
    about="elections by an operator's order",
    acts=(
        ActKind(f="elect-master", needs=frozenset(), do=_elect, order=True, alone=True),
        ActKind(
            f="order-election", needs=frozenset(), order=True, alone=True,
            do=on_each(Electing, lambda cluster, args: cluster.order_election, alone=True),
        ),
        ActKind(f="apply-ids", needs=frozenset(), do=_apply_ids),
        ActKind(
            f=READ_LOG, needs=frozenset(), fit=_stopped, do=_read_log, order=True, alone=True,
        ),
    ),
)  # fmt: skip
