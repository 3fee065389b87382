"""A broker that takes a claim without an answer for a refused one, and claims another id.

The claim may have been applied: then an id belongs to no broker for ever, and stands in the
controllers' tables. RocketMQ drops the temporary file, which knows of the claim, on any failure of
the call. Breaks S2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.controllers import Refused
from maxq.reference.broker.membership.identity import Claimed, IdentityFiles, New, Owned
from maxq.reference.broker.membership.joining import Joining
from maxq.reference.mutants import diverged, ran, replaced

FAMILY = "registration"
CLAIM = "S2"
SOURCE = (
    "any RPC error in a running RocketMQ broker deletes the temporary file "
    "(docs/spec/controller-ha.md 3.3)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Drop the claim whatever went wrong."""
    honest = Joining._prove

    async def _prove(self: Joining, files: IdentityFiles, claim: Claimed) -> New | Owned:
        ran(__name__)
        try:
            return await honest(self, files, claim)
        except (OSError, Refused):
            diverged(__name__)
            await files.drop_claim()
            return New()

    with replaced(Joining, "_prove", _prove):
        yield
