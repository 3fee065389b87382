"""A broker whose identity files are never synced, and that takes a torn one for none.

After a loss of power the name may be there without the content, or neither, and the broker comes
back as a new broker, while the SyncStateSet still counts on its old id. Breaks S2.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.broker.membership import identity
from maxq.reference.broker.membership.identity import IdentityError, IdentityFiles, New, State
from maxq.reference.host import Disk
from maxq.reference.mutants import diverged, replaced

FAMILY = "registration"
CLAIM = "S2"
SOURCE = (
    "RocketMQ writes its identity in two non-atomic steps, without a sync "
    "(docs/spec/controller-ha.md 3.1)"
)


@contextmanager
def mutant() -> Iterator[None]:
    """Leave it to the kernel."""

    async def replace_file(disk: Disk, path: str, data: bytes) -> None:
        diverged(__name__)
        file = disk.open(path, create=True)
        try:
            file.truncate(0)
            file.pwrite(data, 0)
        finally:
            file.close()

    honest = IdentityFiles.load

    def load(self: IdentityFiles) -> State:
        try:
            return honest(self)
        except IdentityError:
            return New()

    with (
        replaced(identity, "replace_file", replace_file),
        replaced(IdentityFiles, "load", load),
    ):
        yield
