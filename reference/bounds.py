"""What peers can make a node hold, and who is cut off where it gets too much. Pure.

A peer can begin a frame and never end it, or ask and never read the answers. Each such connection
is small; there can be any number of them. So a node counts what all of them hold together, and
where that passes a bound it cuts off anyone who has held on for longest: who is merely slow has
most likely come later, and comes again.

RocketMQ has no such bounds but that of one frame. Figures: docs/security.md.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

HALF_BYTES_MAX = 64 << 20  # of frames that have begun and not ended, on all connections together
HALF_FREE_BYTES = 65_536  # what each connection may hold of one without being counted
FRAME_S_MAX = 30.0  # from a frame's first byte to its last
UNREAD_BYTES_MAX = 64 << 20  # of what peers were sent and do not read, on all connections

K = TypeVar("K")


class Shares(Generic[K]):
    """Bytes by holder, within a bound.

    Args:
        bytes_max: of all holders together.
    """

    def __init__(self, bytes_max: int) -> None:
        self._max = bytes_max
        self._held: dict[K, int] = {}  # who holds longest comes first
        self.total = 0

    def hold(self, holder: K, size: int) -> list[K]:
        """A holder has `size` bytes now, maybe none.

        Returns:
            Who must go, since all together hold too much; they hold nothing any more.
        """
        self.total += size - self._held.get(holder, 0)
        if size:
            self._held[holder] = size
        else:
            self._held.pop(holder, None)
        gone: list[K] = []
        while self.total > self._max:
            oldest = next(iter(self._held))
            self.total -= self._held.pop(oldest)
            gone.append(oldest)
        return gone


class Bounds(Generic[K]):
    """The bounds of one node.

    Args:
        log: is told who was cut off and why, as `Host.log`.
    """

    def __init__(
        self,
        log: Callable[..., None] = lambda trace, **fields: None,
        *,
        half_bytes_max: int = HALF_BYTES_MAX,
        unread_bytes_max: int = UNREAD_BYTES_MAX,
    ) -> None:
        self.log = log
        self.half: Shares[K] = Shares(half_bytes_max)
        self.unread: Shares[K] = Shares(unread_bytes_max)
