"""What the fuzzer says as a Raft peer: messages that are nearly right, in sessions.

A session begins with a greeting and ends with a request for an answer, which a node that took all
of it gives; one that did not has closed the connection. The fuzzer is all peers of its victim: its
granted votes make it leader, its entries are written and committed. Terms grow with the batches, or
most messages would be of former terms and not be looked at.
"""

from random import Random

import msgspec

from maxq.reference.controller.registry import ApplyBrokerId, RegisterBroker, encode_command
from maxq.reference.raft import handshake
from maxq.reference.raft import message as wire
from maxq.reference.raft.handshake import Hello
from maxq.reference.raft.message import (
    Append,
    AppendReply,
    Entry,
    Install,
    Message,
    Vote,
    VoteReply,
)
from maxq.reference.records import BrokerId
from maxq.reference.wire.codes import RAFT
from maxq.reference.wire.frame import ONEWAY_FLAG, Frame, encode

GROUP, VICTIM, PEERS = "r", "r0", ("r1", "r2")
TERMS_A_BATCH = 3
BIG = (2**31, 2**53, 2**63 - 1, 2**64 - 1, -1)


def session(rng: Random, batch: int, last: int) -> bytes:
    """The bytes of one connection; `last` is the opaque of the request at its end."""
    sender = rng.choice(PEERS)
    said = [handshake.encode(_hello(rng, sender))] if rng.random() < 0.97 else []
    said += [_damaged(rng, wire.encode(_message(rng, batch, sender)))
             for _ in range(rng.randrange(1, 12))]  # fmt: skip
    frames = [Frame(code=RAFT, flag=ONEWAY_FLAG, opaque=n, body=body)
              for n, body in enumerate(said, 1)]  # fmt: skip
    return b"".join(map(encode, [*frames, Frame(code=RAFT, opaque=last)]))


def _hello(rng: Random, sender: str) -> Hello:
    hello = Hello(group=GROUP, sender=sender, receiver=VICTIM)
    if rng.random() < 0.9:
        return hello
    wrong = rng.choice([{"group": "x" * rng.choice([0, 1, 9999])}, {"sender": "r0"},
                        {"sender": "\0"}, {"receiver": "r1"}])  # fmt: skip
    return msgspec.structs.replace(hello, **wrong)


def _damaged(rng: Random, data: bytes) -> bytes:
    """The message, of one in twenty with a flipped bit or a part only."""
    if rng.random() < 0.95:
        return data
    if rng.random() < 0.5:
        return data[: rng.randrange(len(data))]
    raw = bytearray(data)
    raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return bytes(raw)


def _number(rng: Random, near: int) -> int:
    """A small number, one near another, or one that is too large."""
    draw = rng.random()
    if draw < 0.03:
        return rng.choice(BIG)
    return rng.randrange(4) if draw < 0.4 else min(max(0, near + rng.randrange(-3, 4)), BIG[-2])


def _message(rng: Random, batch: int, sender: str) -> Message:
    """A message of a term that is about the batch's."""
    now = 1 + TERMS_A_BATCH * batch
    term, near = _number(rng, now), rng.randrange(1, 40)
    if rng.random() < 0.03:
        sender = rng.choice((VICTIM, *PEERS, "", "x" * 200))
    pre, said = rng.random() < 0.5, rng.random() < 0.8
    kind = rng.randrange(6)
    if kind == 0:
        return Vote(term=term, candidate=sender, last_index=_number(rng, near),
                    last_term=_number(rng, now), pre=pre)  # fmt: skip
    if kind == 1:
        return VoteReply(term=term, voter=sender, granted=said, pre=pre)
    if kind == 2:
        return AppendReply(term=term, follower=sender, accepted=said, index=_number(rng, near),
                           round=_number(rng, near))  # fmt: skip
    if kind == 3:
        data = rng.choice([b"", b"{}", b"\xc1", rng.randbytes(20), b"x" * 100_000])
        return Install(term=term, leader=sender, index=_number(rng, near),
                       index_term=_number(rng, now), data=data, round=1)  # fmt: skip
    return _append(rng, term, now, sender)


def _append(rng: Random, term: int, now: int, leader: str) -> Append:
    previous = _number(rng, rng.randrange(12))
    of = 0 if previous == 0 else _number(rng, now)
    entries = tuple(
        Entry(
            term=min(term, of + 1, BIG[-2]) if rng.random() < 0.9 else _number(rng, now),
            index=min(previous + n, BIG[-2]) if rng.random() < 0.97 else _number(rng, n),
            data=_command(rng),
        )
        for n in range(1, rng.choice([1, 2, 5, 300 if rng.random() < 0.1 else 3]))
    )
    return Append(
        term=term, leader=leader, previous_index=previous, previous_term=of, entries=entries,
        commit=_number(rng, previous), round=_number(rng, now),
    )  # fmt: skip


def _command(rng: Random) -> bytes:
    name = rng.choice(["b", "", "x" * 300, "a\0b", "../x"])
    number = BrokerId(rng.choice([1, 2, 0, -1, 2**62]))
    register = RegisterBroker(cluster="C", broker_set=name, broker_id=number, address="a:1")
    apply = ApplyBrokerId(cluster="C", broker_set=name, broker_id=number, check_code="a;1",
                          address="a:1")  # fmt: skip
    return rng.choice([b"", rng.randbytes(9), encode_command(register), encode_command(apply)])
