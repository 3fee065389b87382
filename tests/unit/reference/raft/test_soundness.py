"""What is refused of a peer's message before anything of it is written, and what is not."""

import pytest
from test_core import entry, lead, peer

from maxq.reference.raft.core import BATCH_ENTRIES_MAX, Core, Propose
from maxq.reference.raft.message import (
    Append,
    AppendReply,
    Entry,
    Install,
    Message,
    Vote,
    VoteReply,
)
from maxq.reference.raft.soundness import TERM_JUMP_MAX, complaint


def why(core: Core, message: Message) -> str:
    return complaint(
        core,
        message,
        entry=lambda data: "garbage" if data == b"?" else "",
        snapshot=lambda data: "garbage" if data == b"?" else "",
    )


def append(*entries: Entry, term: int = 3, after: tuple[int, int] = (2, 2), commit: int = 0,
           leader: str = "b") -> Append:  # fmt: skip
    return Append(term=term, leader=leader, previous_index=after[0], previous_term=after[1],
                  entries=entries, commit=commit, round=1)  # fmt: skip


def install(index: int = 9, index_term: int = 2, data: bytes = b"state") -> Install:
    return Install(term=3, leader="b", index=index, index_term=index_term, data=data, round=1)


def reply(index: int, *, accepted: bool = True, round: int = 1, term: int = 4) -> AppendReply:  # noqa: A002
    return AppendReply(term=term, follower="b", accepted=accepted, index=index, round=round)


def committed() -> Core:
    """A follower with two entries of term 1 and 2, the first of which is committed."""
    core = peer(1, 2, term=3)
    core.commit = 1
    return core


@pytest.mark.parametrize(
    "message",
    [
        append(),
        append(commit=2**50),
        append(entry(2, 3), entry(3, 4)),
        append(entry(2, 2), after=(1, 1)),
        append(entry(1, 1), after=(0, 0)),
        append(entry(3, 100), after=(99, 3)),
        Vote(term=4, candidate="b", last_index=9, last_term=3, pre=False),
        VoteReply(term=4, voter="b", granted=True, pre=True),
        install(),
        install(index=1, data=b"?"),
        reply(2**50, term=3),
    ],
)
def test_sound_messages(message: Message) -> None:
    assert why(committed(), message) == ""


@pytest.mark.parametrize(
    "message",
    [
        append(term=2**64 - 1),
        append(term=3 + TERM_JUMP_MAX + 1),
        append(term=-1),
        append(after=(-1, 0)),
        append(after=(0, 2)),
        append(after=(2, 0)),
        append(commit=-1),
        append(leader="a"),
        append(entry(3, 4)),
        append(entry(3, 3), entry(3, 5)),
        append(entry(4, 3)),
        append(entry(2, 1), after=(0, 0)),
        append(*(entry(3, 3 + i) for i in range(BATCH_ENTRIES_MAX + 1))),
        append(Entry(term=3, index=3, data=b"?")),
        Vote(term=4, candidate="b", last_index=-1, last_term=0, pre=False),
        Vote(term=2**64 - 1, candidate="b", last_index=1, last_term=1, pre=True),
        install(index=-5),
        install(index=2**60),
        install(index_term=4),
        install(index_term=0),
        install(data=b"?"),
    ],
)
def test_refused_messages(message: Message) -> None:
    assert why(committed(), message)


def test_a_leader_refuses_another_of_its_term_and_what_was_never_sent() -> None:
    core = lead(peer(1, 2, term=3))
    core.step(0, Propose(data=b"x"))
    end, rounds = core.log.last_index, core.round
    assert core.term == 4
    assert why(core, reply(end)) == ""
    assert why(core, reply(end + 1, accepted=False)) == ""
    assert why(core, append(term=3)) == ""
    assert why(core, append(term=5)) == ""
    for bad in (
        append(term=4),
        reply(end + 1),
        reply(2**62),
        reply(-5, accepted=False),
        reply(end, round=rounds + 1),
    ):
        assert why(core, bad)
