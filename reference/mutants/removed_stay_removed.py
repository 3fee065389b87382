"""A container that takes who was removed out of its file, and starts without him the next time.

A broker that was removed for a while is missed after a restart, and nobody knows why. Breaks S15.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.files import FILE_BYTES_MAX
from maxq.reference.container.inner import Inner
from maxq.reference.container.server import Container
from maxq.reference.mutants import diverged, replaced
from maxq.reference.rpc import Connection, Reply
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.files import decode_properties
from maxq.reference.wire.frame import Frame

FAMILY = "container"
CLAIM = "S15"
SOURCE = "docs/spec/acting-master.md 2: the file alone counts, and only operators change it"
PATHS = "brokerConfigPaths"


@contextmanager
def mutant() -> Iterator[None]:
    """Write down who is removed."""
    honest, end, last = Container._remove, Container._on_end, dict[int, str]()

    def on_end(self: Container, inner: Inner) -> None:
        last[id(self)] = inner.file.path
        end(self, inner)

    async def remove(self: Container, request: Frame, connection: Connection) -> Reply:
        answer = await honest(self, request, connection)
        if isinstance(answer, Frame) and answer.code == ResponseCode.SUCCESS:
            content = self._host.disk.read(self._file, FILE_BYTES_MAX)
            listed = next(e.value for e in decode_properties(content) if e.key == PATHS).split(":")
            if last[id(self)] in listed:
                diverged(__name__)
                listed.remove(last[id(self)])
                await self._write(f"{PATHS}={':'.join(listed)}\n".encode())
        return answer

    with replaced(Container, "_remove", remove), replaced(Container, "_on_end", on_end):
        yield
