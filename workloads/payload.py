"""What clients send: unique, self-describing payloads. A checker trusts bytes, not client memory.

``maxq1 KEY PROCESS VALUE CRC``: the key it was sent to, the process that sent it, the value that is
unique in the run, and a CRC-32 over the rest in hex; where it shall be larger, that sum again and
again. A payload read back that is not exactly this, or that belongs to another key, becomes a value
that no client ever sent.
"""

import re
import zlib

MARK = "maxq1"
CORRUPT = "corrupt:"
CORRUPT_BYTES_MAX = 200
_FORM = re.compile(rb"maxq1 [0-9]+ ([0-9]{1,20}) ([0-9]{1,20}) [0-9a-f]{8}")


def encode(key: int, process: int, value: int, *, size: int = 0) -> bytes:
    """Write a payload of `size` bytes, or of as many as it needs if that is more."""
    text = f"{MARK} {key} {process} {value}"
    check = f" {zlib.crc32(text.encode()):08x}"
    body = text + check
    more = max(size - len(body), 0)
    return (body + check * -(-more // len(check)))[: max(size, len(body))].encode()


def decode(key: int, body: bytes) -> int | str:
    """Read the value of a payload polled from `key`.

    Returns:
        The value; or ``corrupt:HEX`` with the body's first bytes, if it is not ours or not here.
    """
    found = _FORM.match(body)
    if found is not None:
        value = int(found[2])
        # So key and checksum are as they should be, and so is what follows.
        if encode(key, int(found[1]), value, size=len(body)) == body:
            return value
    return CORRUPT + body[:CORRUPT_BYTES_MAX].hex()
