"""A removal in a container that closes the connections through which neighbours are listed.

They come back at their next registration, and clients lose them until then. Breaks B5.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from maxq.reference.container.inner import Inner
from maxq.reference.container.server import Container
from maxq.reference.mutants import diverged, replaced

FAMILY = "container"
CLAIM = "B5"
SOURCE = "RocketMQ NettyRemotingClient: one channel of a container for each address"


@contextmanager
def mutant() -> Iterator[None]:
    """Close what a neighbour has open to name servers when a broker ends."""
    honest = Container._on_end

    def on_end(self: Container, inner: Inner) -> None:
        honest(self, inner)
        for other in self.brokers:
            if other.broker.membership is not None:
                for connection in list(other.broker.membership._namesrvs._watched):
                    diverged(__name__)
                    connection.close()

    with replaced(Container, "_on_end", on_end):
        yield
