"""A checksum inside a JSON file, as its last member, where Java's readers overlook it.

A flipped bit in a table of topics or offsets is another topic or offset, and valid JSON. So a file
that this project writes ends in ``,"crc32":"xxxxxxxx"}``: the CRC-32 of the object without that
member, in hexadecimal. fastjson ignores members that it does not know, and writes the file without
it; a file without it is read unchecked.
"""

import re
import zlib

from maxq.reference.records import LocalProtocolError, RemoteProtocolError

_SEAL = re.compile(rb',?"crc32":"([0-9a-f]{8})"\}\Z')


def seal(body: bytes) -> bytes:
    """Add the checksum to a JSON object.

    Raises:
        LocalProtocolError: it is no object.
    """
    if not (body.startswith(b"{") and body.endswith(b"}")):
        raise LocalProtocolError("only a JSON object carries a checksum")
    comma = b"" if body == b"{}" else b","
    return b'%s%s"crc32":"%08x"}' % (body[:-1], comma, zlib.crc32(body))


def unseal(data: bytes) -> bytes:
    """The object without its checksum; as it is where it has none.

    Raises:
        RemoteProtocolError: the checksum is another one.
    """
    found = _SEAL.search(data)
    if found is None:
        return data
    body = data[: found.start()] + b"}"
    if zlib.crc32(body) != int(found[1], 16):
        raise RemoteProtocolError("does not fit its crc32")
    return body
