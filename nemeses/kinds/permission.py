"""Write permissions that operators take and give, as before and after a maintenance.

wipe-write  of a broker: name servers learn (205) that nobody may write to its broker set any
            more; from: which name servers (`maxq.nemeses.peers`; the default: all)
add-write   they learn (327) that everybody may read and write; from: as above

The brokers go on taking what is sent to them: clients are to go by the routes. A name server
forgets an order when the master registers again, or with another table of topics. Each third round
orders while the master is away, when the second order opens a set that nobody serves, and takes
the acting master off the routes.
Source: docs/spec/acting-master.md 1.9; RocketMQ's `mqadmin wipeWritePerm` and `addWritePerm`.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import cycle

from maxq.harness.contracts.cluster import Part, Permitting
from maxq.harness.schedule.format import Who
from maxq.histories.fault_facts import ADD_WRITE, WIPE_WRITE
from maxq.nemeses.kind import ActKind, Args, Drawing, Fit, Kind, Step
from maxq.nemeses.kinds.process import DOWN_S, KILL_ACT, START, held, one_of
from maxq.nemeses.peers import complaint, peers_of
from maxq.nemeses.stage import Stage, Told, told

STRUCK: tuple[Part, ...] = ("master", "slave")
EVERY = "namesrvs"
CLOSED_S = 5.0


def _brokers(stage: Stage, args: Args) -> Fit:
    return lambda node: bool(stage.nodes[node].broker_set)


async def _ordered(given: bool, stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    cluster = stage.cluster.offers(Permitting)
    order = cluster.add_write if given else cluster.wipe_write
    namesrvs = await peers_of(stage, args.get("from", EVERY))
    done: dict[str, dict[str, object]] = {}
    for node in nodes:
        if node not in done:
            proofs = await order(node, namesrvs)
            done |= {member: told(proof) for member, proof in proofs.items()}
    return done


def _rounds(drawing: Drawing) -> Iterator[Sequence[Step]]:
    parts = drawing.bag(STRUCK)
    for away in cycle((False, False, True)):
        if away:
            yield (
                Step("kill", who=Who(part="master")),
                Step(WIPE_WRITE, DOWN_S, of=0),
                Step(ADD_WRITE, DOWN_S, of=0),
                Step("start", DOWN_S, of=0),
            )
        else:
            yield held(Step(WIPE_WRITE, who=one_of(parts)), ADD_WRITE, CLOSED_S)


def _complaint(args: Args, nodes: Sequence[str]) -> str:
    return complaint("ordered", args.get("from", EVERY), nodes)


PERMISSION = Kind(
    name="write-permission",
    about="name servers learn that nobody may write to a broker set, and later that all may",
    acts=(
        ActKind(
            f=WIPE_WRITE, needs=frozenset(), fit=_brokers, do=partial(_ordered, False), alone=True,
            complaint=_complaint,
        ),
        ActKind(
            f=ADD_WRITE, needs=frozenset(), fit=_brokers, back=True, do=partial(_ordered, True),
            alone=True,
            complaint=_complaint,
        ),
        KILL_ACT,
        START,
    ),
    rounds=_rounds,
    asked_only=True,
)  # fmt: skip
