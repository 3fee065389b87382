"""A container that deletes the store of a broker that is removed.

The operator wanted to move it, or to add it again later, and its messages are gone. Breaks B11.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.inner import Inner
from maxq.reference.container.server import Container
from maxq.reference.host import Disk
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B11"
SOURCE = "docs/spec/acting-master.md 2.5: a removal ends a broker, and its files stay"


@contextmanager
def mutant() -> Iterator[None]:
    """Delete the files of a broker that an operator has ended."""
    honest = Container._on_end

    def on_end(self: Container, inner: Inner) -> None:
        honest(self, inner)
        if inner._ending and inner.failure is None:
            diverged(__name__)
            _delete(self._host.disk, inner.file.config.store_path_root_dir)

    with replaced(Container, "_on_end", on_end):
        yield


def _delete(disk: Disk, path: str) -> None:
    for name in disk.list(path):
        try:
            disk.unlink(f"{path}/{name}")
        except OSError:
            _delete(disk, f"{path}/{name}")
