"""Who may speak Raft to a node: the first frame of a connection names group, sender and receiver.

Raft has a port of its own, on which nothing else is served. A connection there says nothing until
its first frame has said, in one message, of which group and which node it is and whom it takes the
other side for: a node that was given another group's peers, or an address that another node has by
now, is refused by name, and is told apart from noise. It must come from where the configuration
has that peer, if that is an address and no name, and may then speak for that peer alone.

This tells mistakes and accidents apart. It is no secret: anyone who can send from a peer's address
can speak for it.
"""

from ipaddress import ip_address

import msgspec

from maxq.reference.records import Record, RemoteProtocolError
from maxq.reference.rpc import split_address


class Hello(Record):
    """Who speaks, and to whom."""

    group: str
    sender: str
    receiver: str


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Hello)


def encode(hello: Hello) -> bytes:
    """Write a first message."""
    return _encoder.encode(hello)


def decode(data: bytes) -> Hello:
    """Read a first message. Raises RemoteProtocolError."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"not the first message of a raft peer: {error}") from None


def complaint(hello: Hello, *, group: str, me: str, peers: dict[str, str], remote: str) -> str:
    """Why a connection is refused; empty if it is a peer's.

    Args:
        hello: its first message.
        group: of this node.
        me: this node's id.
        peers: id -> ``host:port`` of all nodes, this one included.
        remote: ``ip:port`` from where the connection comes.
    """
    if hello.group != group:
        return f"it is of group {hello.group!r}, and this node of {group!r}"
    if hello.receiver != me:
        return f"it takes this node, {me!r}, for {hello.receiver!r}"
    if hello.sender == me or hello.sender not in peers:
        return f"{hello.sender!r} is no other node of this group"
    configured, (host, _) = split_address(peers[hello.sender])[0], split_address(remote)
    if _is_ip(configured) and configured != host:
        return f"{hello.sender!r} is configured at {configured}, and this comes from {host}"
    return ""


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
