"""A removal in a container that takes a neighbour off the name servers' lists.

In RocketMQ the brokers of a container share one connection to each name server, which drops all of
them when it closes. Breaks B5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.server import Container
from maxq.reference.mutants import diverged, replaced
from maxq.reference.rpc import Connection, Reply
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame

FAMILY = "container"
CLAIM = "B5"
SOURCE = "RocketMQ NettyRemotingClient and RouteInfoManager: one channel for each address"


@contextmanager
def mutant() -> Iterator[None]:
    """Let who is left say goodbye as well."""
    honest = Container._remove

    async def remove(self: Container, request: Frame, connection: Connection) -> Reply:
        answer = await honest(self, request, connection)
        if isinstance(answer, Frame) and answer.code == ResponseCode.SUCCESS:
            for inner in self.brokers[:1]:
                if inner.broker.membership is not None:
                    diverged(__name__)
                    await inner.broker.membership.unregister()
        return answer

    with replaced(Container, "_remove", remove):
        yield
