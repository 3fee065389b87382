"""A container that says that it has removed a broker which it does not have.

An operator who mistypes a name believes that a broker is gone which still serves. Breaks B2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.server import Container
from maxq.reference.mutants import diverged, replaced
from maxq.reference.rpc import Connection, Reply
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame

FAMILY = "container"
CLAIM = "B2"
SOURCE = "RocketMQ answers 211 there (BrokerContainerProcessor)"


@contextmanager
def mutant() -> Iterator[None]:
    """Answer every removal alike."""
    honest = Container._remove

    async def remove(self: Container, request: Frame, connection: Connection) -> Reply:
        answer = await honest(self, request, connection)
        if isinstance(answer, Frame) and answer.code == ResponseCode.BROKER_NOT_EXIST:
            diverged(__name__)
            return request.answer(ResponseCode.SUCCESS)
        return answer

    with replaced(Container, "_remove", remove):
        yield
