"""A container of which one broker keeps the name servers informed, as one timer has one task.

A name server that has restarted hears of it alone; its neighbours serve, and nobody finds them.
Breaks N11.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.namesrvs import Namesrvs
from maxq.reference.container.logs import NamedHost
from maxq.reference.mutants import diverged, replaced
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame

FAMILY = "container"
CLAIM = "N11"
SOURCE = "RIP-31: brokers of a container share what informs name servers"


@contextmanager
def mutant() -> Iterator[None]:
    """Register all others once."""
    honest = Namesrvs._call
    first: dict[int, Namesrvs] = {}  # by host
    known: set[tuple[int, str]] = set()

    async def call(self: Namesrvs, namesrv: str, frame: Frame) -> bool:
        host = self._host
        if not isinstance(host, NamedHost) or frame.code != RequestCode.REGISTER_BROKER:
            return await honest(self, namesrv, frame)
        if first.setdefault(id(host._host), self) is not self:
            if (id(self), namesrv) in known:
                diverged(__name__)
                return True
            known.add((id(self), namesrv))
        return await honest(self, namesrv, frame)

    with replaced(Namesrvs, "_call", call):
        yield
