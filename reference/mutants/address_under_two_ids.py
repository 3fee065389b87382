"""A name server in which a registration adds an id to an address, and drops none that it had.

A slave that becomes master is listed as both. Some clients write to it as the master; when another
one leads it stays listed twice, or for ever as a slave that does not exist. Breaks N1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv import routes
from maxq.reference.namesrv.routes import Group, Master, Refused, Registration, Routes

FAMILY = "namesrv"
CLAIM = "N1"
SOURCE = "RocketMQ RouteInfoManager.registerBroker: switching a slave removes its old entry first"


@contextmanager
def mutant() -> Iterator[None]:
    """Drop an address only when its broker goes."""
    honest, honest_register = routes._drop, Routes.register
    registering: list[Routes] = []

    def register(self: Routes, now_ns: int, r: Registration) -> Master | Refused:
        registering.append(self)
        try:
            return honest_register(self, now_ns, r)
        finally:
            registering.pop()

    def _drop(group: Group, address: str) -> None:
        ran(__name__)
        if not registering:
            honest(group, address)
        elif address in group.addresses.values():
            diverged(__name__)

    with replaced(Routes, "register", register), replaced(routes, "_drop", _drop):
        yield
