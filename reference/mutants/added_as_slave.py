"""A container that starts as a slave whomever it is asked to add.

A master that was removed for a while comes back, and its set has none. Breaks S13.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from maxq.reference.config import ContainerConfig
from maxq.reference.container import server
from maxq.reference.container.files import BrokerFile, read_broker
from maxq.reference.container.registry import member_of
from maxq.reference.host import Disk
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "S13"
SOURCE = "RocketMQ BrokerContainer.addBroker: masters and slaves are added by two methods"


@contextmanager
def mutant() -> Iterator[None]:
    """Let masters come in as slaves; those of the container's own file stay what they are."""
    made = server.Container.__init__
    listing: list[bool] = []

    def init(self: server.Container, *args: Any, **more: Any) -> None:
        listing.append(True)
        try:
            made(self, *args, **more)
        finally:
            listing.pop()

    def read(disk: Disk, path: str, container: ContainerConfig) -> BrokerFile:
        file = read_broker(disk, path, container)
        if listing or file.config.broker_role == "SLAVE":
            return file
        diverged(__name__)
        config = msgspec.structs.replace(file.config, broker_role="SLAVE", broker_id=1)
        return msgspec.structs.replace(file, config=config, member=member_of(config))

    with replaced(server, "read_broker", read), replaced(server.Container, "__init__", init):
        yield
