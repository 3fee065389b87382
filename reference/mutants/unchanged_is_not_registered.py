"""A master that registers again only if something of its registration has changed.

A name server that lost the connection has forgotten it, and the master, of which nothing has
changed, never tells it again. Breaks N7.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.namesrvs import Namesrvs
from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame

FAMILY = "routes"
CLAIM = "N7"
SOURCE = "RocketMQ: with forceRegister=false a broker asks first whether its data version is known"


@contextmanager
def mutant() -> Iterator[None]:
    """Remember what each name server was told."""
    honest = Namesrvs._call
    told: dict[tuple[int, str], tuple[object, ...]] = {}

    async def _call(self: Namesrvs, namesrv: str, frame: Frame) -> bool:
        if frame.code != RequestCode.REGISTER_BROKER or self._me.role != "master":
            return await honest(self, namesrv, frame)
        ran(__name__)
        key, said = (id(self), namesrv), (frame.ext, frame.body)
        if told.get(key) == said:
            if namesrv not in self._watched.values():  # that connection is gone
                diverged(__name__)
            return True
        taken = await honest(self, namesrv, frame)
        if taken:
            told[key] = said
        return taken

    with replaced(Namesrvs, "_call", _call):
        yield
