"""The permission to write to a broker set, taken away and given by an operator's order to name
servers (205 and 327), with the proof.

Each name server has permissions of its own, so each is ordered, and asked for the routes of the
run's topics afterwards: of none of them may the set be written to, or of all. An order is given
again as long as routes show otherwise, since a registration that came in between sets its own
permissions. A name server that does not answer, or that knows no topic of the set, is left out; if
none answers, that is said: one that is only silent follows the order once it goes on. Orders are
given from the observers' address. Units: seconds.
Source: docs/spec/acting-master.md 1.9.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from maxq.harness.client.probes import PROBE_TIMEOUT_S, probing, until
from maxq.harness.cluster.processes import Nodes
from maxq.harness.contracts.cluster import Proof
from maxq.harness.contracts.environment import Environment, Role
from maxq.histories.fault_facts import NOBODY
from maxq.histories.observed import WRITE
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import NotSent, Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.node_headers import PermRequest, TopicRequest
from maxq.reference.wire.route import TopicRouteData

ORDER_TIMEOUT_S = 5.0
Perms = dict[str, dict[str, int]]  # by name server and topic


class Permissions:
    """What name servers let clients do with broker sets.

    Args:
        environment: how they are asked.
        nodes: who is asked.
        topics: gives those whose routes are looked at.
    """

    def __init__(
        self, environment: Environment, nodes: Nodes, topics: Callable[[], Sequence[str]]
    ) -> None:
        self._environment = environment
        self._nodes = nodes
        self._topics = topics

    async def wipe_write(self, node: str, namesrvs: Sequence[str]) -> Mapping[str, Proof]:
        return await self._order(node, namesrvs, RequestCode.WIPE_WRITE_PERM_OF_BROKER, given=False)

    async def add_write(self, node: str, namesrvs: Sequence[str]) -> Mapping[str, Proof]:
        return await self._order(node, namesrvs, RequestCode.ADD_WRITE_PERM_OF_BROKER, given=True)

    async def _order(
        self, node: str, namesrvs: Sequence[str], code: RequestCode, *, given: bool
    ) -> dict[str, Proof]:
        broker_set = self._nodes.node(node).broker_set
        order = Frame(code=code, ext=to_ext(PermRequest(broker_name=broker_set)))
        shown: Perms = {}
        silent = set[str]()

        async def obeyed() -> bool:
            shown.clear()
            async with probing(self._environment.observer_dial) as pool:
                for namesrv in namesrvs:
                    perms = await self._ordered(pool, namesrv, order, broker_set)
                    shown.update({namesrv: perms} if perms else {})
                    silent.update({namesrv} if perms is None else ())
            return all(bool(p & WRITE) is given for of in shown.values() for p in of.values())

        holds = await until(obeyed, ORDER_TIMEOUT_S)
        if not shown:
            return _unanswered(broker_set, silent) if silent else {}
        members = [n.name for n in self._nodes.all if n.broker_set == broker_set and not n.spare]
        seen: dict[str, Any] = {"set": broker_set, "perms": {n: dict(p) for n, p in shown.items()}}
        return {member: Proof(holds, seen) for member in members}

    async def _ordered(
        self, pool: Pool, namesrv: str, order: Frame, broker_set: str
    ) -> dict[str, int] | None:
        """The set's permissions by topic, once a name server was ordered; empty where it serves
        none of them or takes no connection, None where it does not answer."""
        address, found = self._nodes.address(namesrv, Role.NAMESRV), dict[str, int]()
        try:
            await pool.call(address, order, timeout_s=PROBE_TIMEOUT_S)
            for topic in self._topics():
                ext = to_ext(TopicRequest(topic=topic))
                request = Frame(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=ext)
                answer = await pool.call(address, request, timeout_s=PROBE_TIMEOUT_S)
                if answer.code == ResponseCode.SUCCESS:
                    queues = TopicRouteData.from_json(answer.body).queue_datas
                    found.update((topic, q.perm) for q in queues if q.broker_name == broker_set)
        except NotSent:
            return {}
        except (OSError, RemoteProtocolError):
            return None
        return found


def _unanswered(broker_set: str, silent: Iterable[str]) -> dict[str, Proof]:
    """Of an order that may still be followed, the set that it is about."""
    names = sorted(silent)
    why = f"no answer of {', '.join(names)}, which may follow the order later"
    return {NOBODY: Proof(True, {"set": broker_set, "role": "namesrv", "reason": why})}
