"""Connections that are reset, as by a firewall that forgets them or a proxy that starts again.

reset-connections  all TCP connections that are established between a node and others end by a
                   reset at both ends; from: which others (`maxq.nemeses.peers`; the default: all);
                   ports: ``all`` (the default), ``ha``, ``raft``, ``remoting``: those to such
                   ports alone

Nodes and ways are sound before and after it: everybody may connect again at once, and must notice
that it has to. Of nodes without a connection to those others nothing is recorded.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from maxq.harness.contracts.cluster import Part, Proof
from maxq.harness.contracts.environment import Capability
from maxq.harness.contracts.ways import Resettable
from maxq.histories.fault_facts import RESET_CONNECTIONS
from maxq.nemeses.bag import Bag
from maxq.nemeses.kind import ActKind, Args, Drawing, Kind, Step, running
from maxq.nemeses.kinds.process import one_of
from maxq.nemeses.peers import REST, complaint, no_ports, peers_of
from maxq.nemeses.stage import Stage, Told, told

STRUCK: tuple[Part, ...] = ("master", "master", "slave", "namesrv")
FROM: tuple[dict[str, Any], ...] = (
    {"from": "namesrvs"}, {"from": "namesrvs"}, {"from": "brokers"}, {},
)  # fmt: skip


async def _reset(stage: Stage, act: str, nodes: Sequence[str], args: Args) -> Told:
    cluster, done = stage.cluster.offers(Resettable), dict[str, Proof]()
    peers, ports = await peers_of(stage, args.get("from", REST)), args.get("ports", "all")
    for node in nodes:
        for end, proof in (await cluster.reset_connections(node, peers, ports)).items():
            done[end] = _both(done[end], proof) if end in done else proof
    return {end: told(proof) for end, proof in done.items()}


def _both(one: Proof, other: Proof) -> Proof:
    """The proof of a node that lost connections to several that were struck."""
    seen = {key: {**one.seen[key], **other.seen[key]} for key in one.seen}
    return Proof(one.holds and other.holds, seen)


def _rounds(drawing: Drawing) -> Iterator[Sequence[Step]]:
    parts, others = drawing.bag(STRUCK), Bag(drawing.rng, FROM)
    while True:
        yield (Step(RESET_CONNECTIONS, who=one_of(parts), args=others.next()),)


RESETS = Kind(
    name=RESET_CONNECTIONS,
    about="all connections between a node and others are reset, and may be made again at once",
    acts=(
        ActKind(
            f=RESET_CONNECTIONS, needs=frozenset({Capability.CUT}), fit=running, do=_reset,
            complaint=lambda args, nodes: (
                no_ports(args) or complaint("reset", args.get("from", REST), nodes)
            ),
        ),
    ),
    rounds=_rounds,
    asked_only=True,
)  # fmt: skip
