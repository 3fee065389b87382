"""Raft's rules one by one, as events and the effects that must follow."""

from random import Random

from maxq.reference.raft.core import (
    Apply,
    Core,
    NotLeading,
    Persist,
    Persisted,
    Propose,
    Received,
    Restore,
    Send,
    SendSnapshot,
    Timeout,
    Timing,
)
from maxq.reference.raft.log import Log
from maxq.reference.raft.message import Append, AppendReply, Entry, Install, Vote, VoteReply

PEERS = ("a", "b", "c")
LATE = 10**12


def entry(term: int, index: int) -> Entry:
    return Entry(term=term, index=index, data=b"%d.%d" % (term, index))


def peer(*terms: int, term: int, me: str = "a", vote: str = "", snapshot: int = 0) -> Core:
    """A peer whose log has entries of these terms behind its snapshot."""
    entries = [entry(t, snapshot + 1 + at) for at, t in enumerate(terms)]
    log = Log(snapshot, 1 if snapshot else 0, entries)
    core = Core(me=me, peers=PEERS, rng=Random, timing=Timing(), log=log, term=term, vote=vote)
    core.start(0)
    return core


def lead(core: Core) -> Core:
    """Make a peer win the next election."""
    core.step(LATE, Timeout())
    core.step(
        LATE, Received(message=VoteReply(term=core.term + 1, voter="b", granted=True, pre=True))
    )
    core.step(LATE, Received(message=VoteReply(term=core.term, voter="b", granted=True, pre=False)))
    assert core.role == "leader"
    return core


def vote(*, term: int, candidate: str = "b", last: tuple[int, int]) -> Received:
    message = Vote(term=term, candidate=candidate, last_term=last[0], last_index=last[1], pre=False)
    return Received(message=message)


def granted(effects: object) -> list[bool]:
    assert isinstance(effects, list)
    sends = [s for e in effects for s in (e.then if isinstance(e, Persist) else (e,))]
    return [s.message.granted for s in sends if isinstance(s, Send)
            and isinstance(s.message, VoteReply)]  # fmt: skip


def test_a_vote_leaves_only_behind_its_write() -> None:
    core = peer(1, term=1)
    effects = core.step(LATE, vote(term=2, last=(1, 1)))
    reply = VoteReply(term=2, voter="a", granted=True, pre=False)
    assert effects[-1] == Persist(term=2, vote="b", entries=(), then=(Send(to="b", message=reply),))


def test_a_term_has_one_vote() -> None:
    core = peer(1, term=2, vote="c")
    assert granted(core.step(LATE, vote(term=2, last=(1, 1)))) == [False]
    assert granted(core.step(LATE, vote(term=2, candidate="c", last=(1, 1)))) == [True]


def test_a_shorter_or_older_log_gets_no_vote() -> None:
    for last in ((1, 9), (2, 1)):
        core = peer(1, 2, term=2)
        assert granted(core.step(LATE, vote(term=3, last=last))) == [False]
    assert granted(peer(1, 2, term=2).step(LATE, vote(term=3, last=(2, 2)))) == [True]


def test_who_hears_a_leader_refuses_a_pre_vote_and_keeps_its_term() -> None:
    core = peer(1, term=2)
    heartbeat = Append(term=2, leader="c", previous_index=1, previous_term=1, entries=(),
                       commit=0, round=1)  # fmt: skip
    core.step(LATE, Received(message=heartbeat))
    ask = Vote(term=3, candidate="b", last_term=9, last_index=9, pre=True)
    assert granted(core.step(LATE + 1, Received(message=ask))) == [False]
    assert core.term == 2
    much_later = LATE + 10 * Timing().election_ns
    assert granted(core.step(much_later, Received(message=ask))) == [True]
    assert core.term == 2


def test_an_entry_of_an_older_term_is_not_committed_by_counting() -> None:
    """The paper's figure 8: on a majority, and still not committed before one of the own term."""
    core = lead(peer(1, 2, term=3))
    old = AppendReply(term=core.term, follower="b", accepted=True, index=2, round=1)
    assert core.step(LATE, Received(message=old)) == []
    assert core.commit == 0
    core.step(LATE, Persisted(index=3, term=core.term))
    new = AppendReply(term=core.term, follower="b", accepted=True, index=3, round=2)
    effects = core.step(LATE, Received(message=new))
    noop = Entry(term=core.term, index=3, data=b"")
    assert effects == [Apply(entries=(entry(1, 1), entry(2, 2), noop))]


def test_a_leader_counts_its_own_disk_only_when_it_has_written() -> None:
    core = lead(peer(term=0))
    reply = AppendReply(term=1, follower="b", accepted=True, index=1, round=1)
    assert core.step(LATE, Received(message=reply)) == []
    assert core.step(LATE, Persisted(index=1, term=1)) == [
        Apply(entries=(Entry(term=1, index=1, data=b""),))
    ]


def test_a_late_write_of_a_replaced_entry_proves_nothing() -> None:
    core = peer(1, 1, term=1)
    replaced = Append(term=2, leader="b", previous_index=1, previous_term=1,
                      entries=(entry(2, 2),), commit=0, round=1)  # fmt: skip
    effects = core.step(LATE, Received(message=replaced))
    assert core.durable == 1
    core.step(LATE, Persisted(index=2, term=1))
    assert core.durable == 1
    ack = AppendReply(term=2, follower="a", accepted=True, index=2, round=1)
    assert effects[-1] == Persist(
        term=2, vote="", entries=(entry(2, 2),), then=(Send(to="b", message=ack),)
    )


def test_a_late_shorter_append_cuts_nothing() -> None:
    core = peer(1, 1, 1, term=1)
    short = Append(term=1, leader="b", previous_index=0, previous_term=0,
                   entries=(entry(1, 1),), commit=0, round=1)  # fmt: skip
    core.step(LATE, Received(message=short))
    assert core.log.last_index == 3


def test_a_gap_is_refused_with_the_place_to_try_again() -> None:
    core = peer(1, term=1)
    ahead = Append(term=1, leader="b", previous_index=5, previous_term=1, entries=(), commit=0,
                   round=7)  # fmt: skip
    answer = AppendReply(term=1, follower="a", accepted=False, index=2, round=7)
    assert core.step(LATE, Received(message=ahead)) == [Send(to="b", message=answer)]


def test_a_follower_behind_the_snapshot_gets_the_snapshot() -> None:
    core = lead(peer(term=3, snapshot=5))
    behind = AppendReply(term=core.term, follower="c", accepted=False, index=2, round=1)
    effects = core.step(LATE, Received(message=behind))
    assert effects == [SendSnapshot(to="c", term=core.term, round=core.round)]


def test_a_snapshot_keeps_the_entries_behind_it_that_agree() -> None:
    """They may be acknowledged; a late snapshot must not cut them."""
    core = peer(1, 1, 2, 2, term=2)
    install = Install(term=2, leader="b", index=2, index_term=1, data=b"state", round=4)
    effects = core.step(LATE, Received(message=install))
    assert isinstance(effects[-1], Restore)
    assert core.log.entries == [entry(2, 3), entry(2, 4)]
    assert core.commit == 2


def test_a_snapshot_replaces_a_log_that_disagrees() -> None:
    core = peer(1, 1, 1, term=1)
    install = Install(term=3, leader="b", index=2, index_term=2, data=b"", round=4)
    core.step(LATE, Received(message=install))
    assert (core.log.snapshot_index, core.log.entries) == (2, [])


def test_a_leader_that_nobody_answers_steps_down() -> None:
    core = lead(peer(term=0))
    later = LATE + 2 * Timing().election_ns + 1
    core.step(later, Timeout())
    assert core.role == "follower"
    assert core.step(later, Propose(data=b"x")) == [NotLeading(leader=None)]


def test_a_new_leader_takes_no_proposal_before_it_knows_what_is_committed() -> None:
    core = lead(peer(1, term=1))
    assert core.step(LATE, Propose(data=b"x")) == [NotLeading(leader=None)]


def test_alone_one_leads_at_once() -> None:
    core = Core(me="a", peers=("a",), rng=Random, timing=Timing(), log=Log())
    core.start(5)
    assert core.next_deadline_ns() == 5
    core.step(5, Timeout())
    core.step(5, Persisted(index=1, term=1))
    assert core.ready
