"""A broker that refreshes its identity file at each registration: first it goes, then it comes.

The old file is unlinked before the controller is asked, and the new one written when it has
answered. A process that dies in between (here: while no controller can be reached) leaves a store
without an identity, and the next start asks for another id. RocketMQ replaces its small files in
this order. Breaks S2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership.identity import IdentityFiles
from maxq.reference.broker.membership.joining import Joining
from maxq.reference.mutants import diverged, replaced
from maxq.reference.records import BrokerId

FAMILY = "registration"
CLAIM = "S2"
SOURCE = "RocketMQ MixAll.string2File: the old file is deleted before the new one has its name"


@contextmanager
def mutant() -> Iterator[None]:
    """Unlink, register, write."""
    honest = Joining.register

    async def register(self: Joining, broker_id: BrokerId, address: str) -> bool:
        diverged(__name__)
        config = self._config
        files = IdentityFiles(
            self._host.disk,
            config.identity_path,
            epochs=config.epoch_path,
            cluster=config.broker_cluster_name,
            broker_name=config.broker_name,
        )
        await files._unlink(config.identity_path)
        done = await honest(self, broker_id, address)
        await files.keep(broker_id)
        return done

    def lost(self: IdentityFiles) -> None:
        """Nothing is noticed of it."""

    with (
        replaced(Joining, "register", register),
        replaced(IdentityFiles, "_refuse_lost", lost),
    ):
        yield
