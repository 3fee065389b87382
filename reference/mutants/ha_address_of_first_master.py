"""A name server that gives slaves the HA address of the first master that it knew.

Slaves follow the new master by name and dial the old one, who does not lead, or leads in an older
epoch: they never copy anything. Breaks S14.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from maxq.reference.mutants import diverged, ran, replaced
from maxq.reference.namesrv.routes import Master, Refused, Registration, Routes

FAMILY = "namesrv"
CLAIM = "S14"
SOURCE = (
    "slaves keep an HA address from before the new master registered (docs/spec/controller-ha.md "
    "6.4 (H16))"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Remember the first answer for each broker name."""
    honest = Routes.register
    first: list[tuple[Routes, str, str]] = []  # tables, broker name, HA address

    def register(self: Routes, now_ns: int, r: Registration) -> Master | Refused:
        ran(__name__)
        answer = honest(self, now_ns, r)
        if not isinstance(answer, Master) or not answer.ha_address:
            return answer
        for routes, name, ha_address in first:
            if routes is self and name == r.broker_name:
                if ha_address != answer.ha_address:
                    diverged(__name__)
                return msgspec.structs.replace(answer, ha_address=ha_address)
        first.append((self, r.broker_name, answer.ha_address))
        return answer

    with replaced(Routes, "register", register):
        yield
