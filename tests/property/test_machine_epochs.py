"""Epoch lists and truncation, driven by rules beside logs whose every byte says who wrote it.

The model of a log is the list of its bytes, each unique. Masters grow it, slaves copy it, crashes
come between the saving of a list and the change of a log, in the order that `epochs` demands. Then
two logs that share an entry must agree (S8), and a slave that cuts where it is told to can copy on.
"""

from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machines import SETTINGS, finds

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.records import MasterEpoch, PhyOffset

SIZE = 3
WHO = st.integers(0, SIZE - 1)


@dataclass
class Replica:
    """One log, byte by byte, and its epoch list as saved."""

    data: list[tuple[int, int]] = field(default_factory=list)  # (epoch of the writer, number)
    saved: Epochs = ()

    @property
    def end(self) -> PhyOffset:
        return PhyOffset(len(self.data))

    def restart(self) -> None:
        self.saved = policy.reconcile(self.saved, self.end)


def common(a: Replica, b: Replica) -> int:
    """How many bytes two logs have in common, from their beginning."""
    both = min(a.end, b.end)
    return next((at for at in range(both) if a.data[at] != b.data[at]), both)


class EpochMachine(RuleBasedStateMachine):
    """Three replicas, one of which is master of the newest epoch."""

    @initialize()
    def begin(self) -> None:
        self.replicas = [Replica() for _ in range(SIZE)]
        self.epoch = 0
        self.written = 0
        self.masters: dict[int, int] = {}  # who -> the epoch that it leads, maybe long over

    @rule(who=WHO, crashes=st.booleans())
    def is_elected(self, who: int, crashes: bool) -> None:
        self.epoch += 1
        replica = self.replicas[who]
        grown = policy.append(replica.saved, MasterEpoch(self.epoch), replica.end)
        assert grown is not None
        assert policy.is_ascending(grown)
        assert policy.append(grown, MasterEpoch(self.epoch), replica.end) is None
        replica.saved = grown
        self.masters[who] = self.epoch
        if crashes:
            self.crash(who)

    @precondition(lambda self: self.masters)
    @rule(data=st.data(), count=st.integers(1, 4))
    def writes(self, data: st.DataObject, count: int) -> None:
        """A master appends; also one that is not the newest any more."""
        who = data.draw(st.sampled_from(sorted(self.masters)))
        for _ in range(count):
            self.written += 1
            self.replicas[who].data.append((self.masters[who], self.written))

    @rule(who=WHO)
    def crash(self, who: int) -> None:
        """A master does not resume its term; it must be elected anew."""
        self.masters.pop(who, None)
        self.replicas[who].restart()

    @rule(who=WHO, lost=st.integers(1, 4))
    def loses_its_tail(self, who: int, lost: int) -> None:
        """The loss of power takes what was not synced, not the list."""
        del self.replicas[who].data[-lost:]
        self.crash(who)

    @precondition(lambda self: self.masters)
    @rule(data=st.data(), who=WHO, count=st.integers(0, 9),
          crashes=st.sampled_from(["", "", "", "cut", "label"]))  # fmt: skip
    def follows(self, data: st.DataObject, who: int, count: int, crashes: str) -> None:
        """A slave cuts, takes over its master's list, and copies some bytes."""
        of = data.draw(st.sampled_from(sorted(self.masters)))
        mine, theirs = self.replicas[who], self.replicas[of]
        newest = policy.last_epoch(theirs.saved)
        if who == of or newest < policy.last_epoch(mine.saved):
            return
        self.masters.pop(who, None)
        point = policy.truncation_point(mine.saved, mine.end, theirs.saved, theirs.end)
        assert point is None or point <= common(mine, theirs)
        keep = PhyOffset(point or 0)
        del mine.data[keep:]
        if crashes == "cut":
            mine.restart()
            return
        mine.saved = policy.adopted(mine.saved if keep else (), theirs.saved, PhyOffset(0), keep)
        assert policy.is_ascending(mine.saved)
        for at in range(keep, min(keep + count, theirs.end)):
            index = policy.index_at(theirs.saved, PhyOffset(at))
            assert index is not None
            label = theirs.saved[index]
            mine.saved = policy.append(mine.saved, label.epoch, label.start) or mine.saved
            if crashes == "label":
                mine.restart()
                return
            mine.data.append(theirs.data[at])
        if mine.end == theirs.end:
            assert mine.data == theirs.data

    @invariant()
    def replicas_that_share_an_entry_agree(self) -> None:
        """S8."""
        for a in getattr(self, "replicas", ()):
            for b in self.replicas:
                ends = {e: policy.end_of(b.saved, at, b.end) for at, e in enumerate(b.saved)}
                for at, entry in enumerate(a.saved):
                    if entry in ends:
                        both = min(policy.end_of(a.saved, at, a.end), ends[entry])
                        assert a.data[:both] == b.data[:both]

    @invariant()
    def labels_are_true(self) -> None:
        """Each byte was written by the master of the epoch that labels it; where the list had to
        drop its oldest entries, the bytes before have no label."""
        for replica in getattr(self, "replicas", ()):
            assert policy.is_ascending(replica.saved)
            for at, (epoch, _) in enumerate(replica.data):
                index = policy.index_at(replica.saved, PhyOffset(at))
                assert index is not None
                assert replica.saved[index].epoch == epoch

    @rule(who=WHO, at=st.integers(0, 12), epoch=st.integers(0, 12))
    def cuts_equal_their_definition(self, who: int, at: int, epoch: int) -> None:
        saved = self.replicas[who].saved
        assert policy.cut_from_epoch(saved, MasterEpoch(epoch)) == tuple(
            e for e in saved if e.epoch not in range(epoch, 10**6)
        )
        assert all(e.start <= at for e in policy.reconcile(saved, PhyOffset(at)))


EpochMachine.TestCase.settings = SETTINGS
TestEpochMachine = EpochMachine.TestCase


def cut_nothing(mine: Epochs, my_end: PhyOffset, theirs: Epochs, their_end: PhyOffset) -> PhyOffset:
    return min(my_end, their_end)


def refuse_equal_starts(epochs: Epochs, epoch: MasterEpoch, start: PhyOffset) -> Epochs:
    """RocketMQ: an epoch without bytes is not recorded by the next.

    docs/spec/controller-ha.md 6.4 (H2)
    """
    grown = REAL_APPEND(epochs, epoch, start)
    equal = bool(epochs) and epochs[-1].start >= start
    return epochs if grown is None or equal else grown


def keep_what_is_behind(epochs: Epochs, end: PhyOffset) -> Epochs:
    return epochs


REAL_APPEND = policy.append


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("truncation_point", cut_nothing), ("append", refuse_equal_starts),
     ("reconcile", keep_what_is_behind)],
)  # fmt: skip
def test_the_machine_can_fail(monkeypatch: pytest.MonkeyPatch, name: str, wrong: object) -> None:
    monkeypatch.setattr(policy, name, wrong)
    finds(EpochMachine)
