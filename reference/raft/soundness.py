"""What is wrong with a peer's message, before anything of it is written or believed.

Raft's invariants hold between honest peers. One frame of another kind, from a stranger who reaches
the port or a peer that is damaged, must not end a node, and nothing may come into the log that the
next start would not read back.
"""

from collections.abc import Callable
from typing import assert_never

from maxq.reference.raft.core import BATCH_ENTRIES_MAX, Core
from maxq.reference.raft.message import (
    Append,
    AppendReply,
    Entry,
    Install,
    Message,
    Vote,
    VoteReply,
)

INDEX_MAX = 2**53
TERM_MAX = 2**53
# Honest peers are never so far apart: who is cut off asks first, and begins no term (pre-vote).
TERM_JUMP_MAX = 1_000_000
Refuses = Callable[[bytes], str]


def complaint(core: Core, message: Message, *, entry: Refuses, snapshot: Refuses) -> str:
    """Why a message is refused; empty if it is sound.

    Args:
        core: whose peer sent it.
        message: as it was read.
        entry: why the state machine cannot take a command; empty if it can.
        snapshot: why it cannot take a snapshot.
    """
    if not 0 <= message.term <= min(TERM_MAX, core.term + TERM_JUMP_MAX):
        return f"term {message.term}, while this one's is {core.term}"
    match message:
        case Vote():
            return _numbers(message.last_index, message.last_term)
        case VoteReply():
            return ""
        case Append():
            return _append(core, message, entry)
        case Install():
            return _install(core, message, snapshot)
        case AppendReply():
            return _reply(core, message)
        case _:
            assert_never(message)


def _numbers(*numbers: int) -> str:
    bad = [n for n in numbers if not 0 <= n <= INDEX_MAX]
    return f"number {bad[0]} is out of range" if bad else ""


def _append(core: Core, m: Append, refuses: Refuses) -> str:
    if bad := _numbers(m.previous_index, m.previous_term, m.commit, m.round) or _rival(core, m):
        return bad
    if bool(m.previous_index) != bool(m.previous_term):
        return f"entry {m.previous_index} of term {m.previous_term} before those of term {m.term}"
    if len(m.entries) > BATCH_ENTRIES_MAX:
        return f"{len(m.entries)} entries in one message"
    if bad := _order(m):
        return bad
    replaced = [e.index for e in m.entries if _is_committed(core, e)]
    if replaced:
        return f"entry {replaced[0]} is committed, and another one"
    wrong = ((e.index, refuses(e.data)) for e in m.entries if e.data)
    return next((f"entry {index} cannot be applied: {why}" for index, why in wrong if why), "")


def _order(m: Append) -> str:
    """Whether entries follow on the one before without a gap, and none is of a later term."""
    for at, e in enumerate(m.entries, m.previous_index + 1):
        if e.index != at or not 1 <= e.term <= m.term:
            return f"entry {e.index} of term {e.term} in place {at} of a message of term {m.term}"
    return ""


def _is_committed(core: Core, entry: Entry) -> bool:
    known = core.log.term_at(entry.index)
    return entry.index <= core.commit and known is not None and known != entry.term


def _rival(core: Core, m: Append | Install) -> str:
    """A term has one leader."""
    if m.term == core.term and core.role == "leader":
        return f"{m.leader} leads in term {m.term}, in which this one leads"
    if m.leader == core.me:
        return "its leader is this one"
    return ""


def _install(core: Core, m: Install, refuses: Refuses) -> str:
    if bad := _numbers(m.index, m.index_term, m.round) or _rival(core, m):
        return bad
    if not (m.index and 1 <= m.index_term <= m.term):
        return f"a snapshot up to entry {m.index} of term {m.index_term} in term {m.term}"
    why = refuses(m.data) if m.index > core.commit else ""
    return f"the snapshot cannot be read: {why}" if why else ""


def _reply(core: Core, m: AppendReply) -> str:
    if bad := _numbers(m.index, m.round):
        return bad
    if m.term != core.term or core.role != "leader":
        return ""  # late, and not looked at
    if m.round > core.round or (m.accepted and m.index > core.log.last_index):
        return f"it acknowledges entry {m.index} of round {m.round}, which were never sent"
    return ""
