"""The other side of a faulty link, as `from` of an act names it, and its `ports`.

``rest`` (all others), ``brokers``, ``controllers``, ``namesrvs``, a part that nodes play when the
act strikes, or names of nodes.
"""

from collections.abc import Sequence
from typing import Any, get_args

import msgspec

from maxq.harness.contracts.cluster import Part
from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.ways import Ports
from maxq.nemeses.kind import Args
from maxq.nemeses.stage import Stage

REST = "rest"
GROUPS = {"brokers": Role.BROKER, "controllers": Role.CONTROLLER, "namesrvs": Role.NAMESRV}


async def peers_of(stage: Stage, whom: object) -> list[str]:
    """The nodes that are meant now."""
    if isinstance(whom, list | tuple):
        return [n for n in whom if n in stage.nodes]
    if whom == REST:
        return list(stage.nodes)
    if whom in GROUPS:
        return [n.name for n in stage.cluster.by_role(GROUPS[str(whom)])]
    return list(await stage.cluster.playing(msgspec.convert(whom, Part)))


def complaint(what: str, whom: Any, nodes: Sequence[str]) -> str:
    """What of it can never be; empty if there is nothing. `what` is the act as a participle."""
    if isinstance(whom, list | tuple):
        strange = [n for n in whom if n not in nodes]
        return f"{what} from {strange[0]!r}, which is no node" if strange else ""
    known = (REST, *GROUPS, *get_args(Part))
    return "" if whom in known else f"{what} from {whom!r}, which is none of {', '.join(known)}"


def no_ports(args: Args) -> str:
    """Names a kind of ports that is none."""
    ports = args.get("ports", "all")
    return (
        ""
        if ports in get_args(Ports)
        else f"ports {ports!r} is none of {', '.join(get_args(Ports))}"
    )
