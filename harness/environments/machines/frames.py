"""Messages of an agent on a stream: a length of 4 bytes, and a JSON object of so many. Pure.

Rules for those who edit it: this module also runs on hosts of others, which may have Python 3.9, so
it imports nothing but the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

FRAME_MAX = 1 << 20  # bytes of a message
LENGTH = 4
BEAT = "beat"  # what is asked to be heard of
BEAT_S, SILENT_S = 3.0, 10.0  # at most between two; and whoever is silent for so long is gone


def framed(message: dict[str, Any]) -> bytes:
    """A message as bytes.

    Raises:
        ValueError: it is too long.
    """
    data = json.dumps(message).encode()
    if len(data) > FRAME_MAX:
        raise ValueError(f"a message of {len(data)} bytes: longer than {FRAME_MAX}")
    return len(data).to_bytes(LENGTH, "big") + data


class Frames:
    """Messages from a stream whose pieces come as they will."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, piece: bytes) -> Iterator[dict[str, Any]]:
        """The messages that are whole with this piece.

        Raises:
            ValueError: this is no such stream.
        """
        self._rest += piece
        while len(self._rest) >= LENGTH:
            size = int.from_bytes(self._rest[:LENGTH], "big")
            if size > FRAME_MAX:
                raise ValueError(f"a message of {size} bytes: longer than {FRAME_MAX}")
            if len(self._rest) < LENGTH + size:
                return
            data, self._rest = self._rest[LENGTH : LENGTH + size], self._rest[LENGTH + size :]
            message = json.loads(data)
            if not isinstance(message, dict):
                raise ValueError("a message that is no object")
            yield message
