"""Who is in a broker's group, as a name server says: 901, or of an old one the route of a topic.

Units: seconds. Source: docs/spec/acting-master.md 1.8, 7.
"""

import asyncio
from collections.abc import Sequence

from maxq.reference.names import GROUP_TOPIC_PREFIX
from maxq.reference.records import RemoteProtocolError
from maxq.reference.rpc import Pool
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.reference.wire.route import MemberGroupBody, TopicRouteData

TIMEOUT_S = 3.0
# Of the question alone, less than of all: a call that times out closes its connection, and one that
# is cancelled does not. One that a cut has left hanging is not to be asked again.
CALL_TIMEOUT_S = 2.5


def preferred(namesrvs: Sequence[str], answered: str) -> list[str]:
    """Name servers in the order in which they are asked: the one that has answered last first."""
    return sorted(namesrvs, key=lambda namesrv: namesrv != answered)


async def members_of(
    pool: Pool, namesrv: str, cluster: str, broker_name: str, *, by_route: bool = False
) -> dict[int, str]:
    """Ask a name server.

    Args:
        pool: connections.
        namesrv: whom to ask.
        cluster: the broker's cluster.
        broker_name: its group.
        by_route: ask for the route of the group's own topic (``compatibleWithOldNameSrv``).

    Returns:
        Addresses by id; empty where the name server knows none.

    Raises:
        OSError, TimeoutError: no answer.
        RemoteProtocolError: another answer than that.
    """
    if by_route:
        topic = headers.TopicRequest(topic=GROUP_TOPIC_PREFIX + broker_name)
        frame = Frame(code=RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=to_ext(topic))
    else:
        group = headers.MemberGroupRequest(cluster_name=cluster, broker_name=broker_name)
        frame = Frame(code=RequestCode.GET_BROKER_MEMBER_GROUP, ext=to_ext(group))
    async with asyncio.timeout(TIMEOUT_S):
        answer = await pool.call(namesrv, frame, timeout_s=CALL_TIMEOUT_S)
    if by_route and answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return {}
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteProtocolError(f"code {answer.code}: {answer.remark}")
    if not by_route:
        said = MemberGroupBody.from_json(answer.body).broker_member_group
        return {} if said is None else dict(said.broker_addrs)
    for data in TopicRouteData.from_json(answer.body).broker_datas:
        if (data.cluster, data.broker_name) == (cluster, broker_name):
            return dict(data.broker_addrs)
    return {}
