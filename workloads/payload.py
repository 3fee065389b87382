"""What clients send: unique, self-describing payloads. A checker trusts bytes, not client memory.

``maxq1 KEY PROCESS VALUE CRC``: the key it was sent to, the process that sent it, the value that is
unique in the run, and a CRC-32 over the rest in hex. A payload read back that is not exactly this,
or that belongs to another key, becomes a value that nobody ever sent.
"""

import re
import zlib

MARK = "maxq1"
CORRUPT = "corrupt:"
CORRUPT_BYTES_MAX = 200
_FORM = re.compile(rb"maxq1 [0-9]+ ([0-9]{1,20}) ([0-9]{1,20}) [0-9a-f]{8}")


def encode(key: int, process: int, value: int) -> bytes:
    """Write a payload."""
    text = f"{MARK} {key} {process} {value}"
    return f"{text} {zlib.crc32(text.encode()):08x}".encode()


def decode(key: int, body: bytes) -> int | str:
    """Read the value of a payload polled from `key`.

    Returns:
        The value; or ``corrupt:HEX`` with the body's first bytes, if it is not ours or not here.
    """
    found = _FORM.fullmatch(body)
    if found is not None:
        value = int(found[2])
        if encode(key, int(found[1]), value) == body:  # so key and checksum are as they should be
            return value
    return CORRUPT + body[:CORRUPT_BYTES_MAX].hex()
