"""A container that writes who was added into its file, and starts with them the next time.

An operator who restarts a container to be rid of what was tried there still has it. Breaks B7.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.files import FILE_BYTES_MAX
from maxq.reference.container.inner import Inner
from maxq.reference.container.server import Container
from maxq.reference.mutants import diverged, replaced
from maxq.reference.wire.files import decode_properties

FAMILY = "container"
CLAIM = "B7"
SOURCE = "docs/spec/acting-master.md 2: the file alone counts"
PATHS = "brokerConfigPaths"


@contextmanager
def mutant() -> Iterator[None]:
    """Write down who is added."""
    honest = Container._added

    async def added(self: Container, path: str) -> Inner:
        inner = await honest(self, path)
        content = self._host.disk.read(self._file, FILE_BYTES_MAX)
        listed = next(e.value for e in decode_properties(content) if e.key == PATHS)
        if path not in listed.split(":"):
            diverged(__name__)
            await self._write(f"{PATHS}={listed}:{path}\n".encode())
        return inner

    with replaced(Container, "_added", added):
        yield
