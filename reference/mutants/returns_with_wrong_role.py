"""A container that gives its slaves other numbers when it starts again.

A slave comes back under another id than its file has, and who acts next is decided by the wrong
one. Breaks B8.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from maxq.reference.config import ContainerConfig
from maxq.reference.container import files, server
from maxq.reference.container.files import BrokerFile
from maxq.reference.container.registry import member_of
from maxq.reference.host import Disk
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B8"
SOURCE = "docs/spec/acting-master.md 2.1: the file says a broker's id, at each start"


@contextmanager
def mutant() -> Iterator[None]:
    """Give a slave that has a store the id behind its own."""
    honest = files.read_broker

    def read_broker(disk: Disk, path: str, container: ContainerConfig) -> BrokerFile:
        file = honest(disk, path, container)
        config = file.config
        if config.broker_role != "SLAVE" or not _has_store(disk, config.store_path_root_dir):
            return file
        diverged(__name__)
        other = msgspec.structs.replace(config, broker_id=config.broker_id + 1)
        return msgspec.structs.replace(file, config=other, member=member_of(other))

    with replaced(server, "read_broker", read_broker):
        yield


def _has_store(disk: Disk, folder: str) -> bool:
    try:
        return bool(disk.list(folder))
    except OSError:
        return False
