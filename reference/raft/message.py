"""What Raft peers say to each other, what is in the log, and their bytes.

Peers are named by their configured ids. Terms and indices begin at 1; 0 means none. Index and term
of the snapshot stand for everything before the log's first entry.
"""

from typing import TypeAlias

import msgspec

from maxq.reference.records import Record, RemoteProtocolError


class Entry(Record):
    """One entry of the log. Empty data is the no-op with which a leader begins its term."""

    term: int
    index: int
    data: bytes


class Vote(Record):
    """A request for a vote; `pre` asks only whether it would be given, and changes nothing."""

    term: int  # of a pre-vote: the term that the candidate would begin
    candidate: str
    last_index: int
    last_term: int
    pre: bool


class VoteReply(Record):
    """The answer to a vote; of a granted pre-vote it carries the asked-for term."""

    term: int
    voter: str
    granted: bool
    pre: bool


class Append(Record):
    """Entries for a follower, or none: a heartbeat. `round` numbers the leader's broadcasts, so
    that its replies prove whom it still leads."""

    term: int
    leader: str
    previous_index: int
    previous_term: int
    entries: tuple[Entry, ...]
    commit: int
    round: int


class AppendReply(Record):
    """The answer to an append. `index` is the last entry known to agree with the leader's, or,
    when refused, where the leader should try again."""

    term: int
    follower: str
    accepted: bool
    index: int
    round: int


class Install(Record):
    """A snapshot for a follower whose next entry the leader no longer has."""

    term: int
    leader: str
    index: int
    index_term: int
    data: bytes
    round: int


Message: TypeAlias = Vote | VoteReply | Append | AppendReply | Install

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Write a message."""
    return _encoder.encode(message)


def decode(data: bytes) -> Message:
    """Read a message. Raises RemoteProtocolError."""
    try:
        message: Message = _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise RemoteProtocolError(f"not a raft message: {error}") from None
    return message
