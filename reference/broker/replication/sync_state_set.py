"""The SyncStateSet as its master sees it: who must have a message, and which change to ask for.

The controller decides on the set; a master proposes. Between the sending of a proposal and the
answer it is unknown here which set holds, so whatever waits for the members waits for those of the
set *and of every proposal that may yet be applied*. The controller applies a proposal only on top
of the epoch that it was derived from. So one answer closes all older proposals; until then a lost
one stays. At most one is under way.

A slave joins in two steps. First it is held: from then on nothing is acknowledged or confirmed
without it. When it has reached what was confirmed before, it is proposed. Without the first step a
slave under constant load would be behind at each instant that one looks at it, and never join.

RocketMQ replaces its one pending set at each change and repeats reports of long ago with the epochs
of now (docs/spec/controller-ha.md 6.4 (H4, H5)); it lets a member that is connected and silent hold
nothing back.

Times are ns. Claims: S6, S7, S9, S14b. Source: docs/spec/controller-ha.md 5.1 to 5.5 and 6.5;
RocketMQ ``AutoSwitchHAService``, ``ReplicasManager``.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Literal

from maxq.reference.records import BrokerId, MasterEpoch, Record

Members = frozenset[BrokerId]
Outcome = Literal["refused", "unknown"]
NO_TERM = MasterEpoch(0)


class ProposeSyncStateSet(Record):
    """Effect: send request 1001; deliver `Known` if it is applied, `Answered` if not."""

    number: int
    master_epoch: MasterEpoch
    sync_state_set_epoch: int  # the one it was derived from
    members: tuple[BrokerId, ...]  # ascending


class JoinTiming(Record):
    """How a slave joins. A slave that is too slow must not hold up the others for long."""

    hold_ns: int = 2_000_000_000  # a held slave that is not proposed by then is let go
    pause_ns: int = 5_000_000_000  # before the same slave is held again
    retry_ns: int = 1_000_000_000  # after a proposal that was not applied


@dataclass(slots=True)
class SyncStateSet:
    """State of one master's term. `me` is always a member."""

    me: BrokerId
    timing: JoinTiming
    master_epoch: MasterEpoch = NO_TERM
    members: Members = frozenset()
    epoch: int = 0  # of the set, not of the master
    held: BrokerId | None = None  # joins; not proposed yet
    proposals: list[ProposeSyncStateSet] = field(default_factory=list)  # may yet be applied
    _held_until_ns: int = 0
    _asked: int | None = None  # number of the proposal under way
    _number: int = 0
    _quiet_until_ns: int = 0
    _not_before_ns: dict[BrokerId, int] = field(default_factory=dict)  # held again

    def begin(self, master_epoch: MasterEpoch, members: Set[BrokerId], epoch: int) -> None:
        """A term begins. The controller refuses what was proposed in an older one."""
        self.master_epoch = master_epoch
        self.members, self.epoch = frozenset(members) | {self.me}, epoch
        self.held, self._asked, self._quiet_until_ns = None, None, 0
        self.proposals.clear()
        self._not_before_ns.clear()

    def adopt(self, master_epoch: MasterEpoch, members: Set[BrokerId], epoch: int) -> bool:
        """Take over what the controller says; false if it is older, or not of this term."""
        if master_epoch != self.master_epoch or epoch <= self.epoch or self.me not in members:
            return False
        self.members, self.epoch = frozenset(members), epoch
        self.proposals.clear()  # each was derived from an older epoch
        self._asked, self._quiet_until_ns = None, 0
        if self.held in self.members:
            self.held = None
        return True

    def in_question(self) -> Members:
        """Members of the set that holds, whichever that is; counted for minInSyncReplicas."""
        if not self.proposals:
            return self.members
        return self.members.union(*(p.members for p in self.proposals))

    def waited_for(self) -> Members:
        """Those without whom nothing is acknowledged or confirmed."""
        members = self.in_question()
        return members if self.held is None else members | {self.held}

    def open_beside(self, number: int) -> bool:
        """Whether a proposal other than this one may yet be applied."""
        return any(p.number != number for p in self.proposals)

    # Joining.

    def hold(self, now_ns: int, slave: BrokerId) -> bool:
        """Begin to wait for a slave that is nearly there; false if it must not be now."""
        busy = self.held is not None or self.proposals or slave in self.members
        if busy or now_ns < self._not_before_ns.get(slave, 0):
            return False
        self.held, self._held_until_ns = slave, now_ns + self.timing.hold_ns
        return True

    def let_go(self, now_ns: int) -> None:
        """Wait no longer for the held slave."""
        if self.held is not None:
            self._not_before_ns[self.held] = now_ns + self.timing.pause_ns
            self.held = None

    # Proposing.

    def propose(
        self, now_ns: int, *, gone: Set[BrokerId], joins: BrokerId | None
    ) -> ProposeSyncStateSet | None:
        """Decide which change to ask for now, if any.

        Args:
            now_ns: now.
            gone: who is unreachable or too far behind.
            joins: the held slave, if it is ready.
        """
        if self._asked is not None or now_ns < self._quiet_until_ns:
            return None
        wanted = self.members - gone
        if joins is not None:
            wanted |= {joins}
        if wanted == self.members:
            if not self.proposals:
                return None
            # One was lost. The controller refuses a set that it has, so ask for that one again:
            # if it is applied, its members are known, and can be changed.
            wanted = frozenset(self.proposals[-1].members)
        self._number += 1
        proposal = ProposeSyncStateSet(
            number=self._number,
            master_epoch=self.master_epoch,
            sync_state_set_epoch=self.epoch,
            members=tuple(sorted(wanted)),
        )
        self.proposals.append(proposal)
        self._asked = proposal.number
        if self.held in wanted:
            self.held = None
        return proposal

    def answered(self, now_ns: int, number: int, outcome: Outcome) -> bool:
        """A proposal was refused, or that is unknown; false if it was no longer open."""
        if number != self._asked:
            return False
        self._asked, self._quiet_until_ns = None, now_ns + self.timing.retry_ns
        if outcome == "refused":
            refused = next(p for p in self.proposals if p.number == number)
            self.proposals.remove(refused)
            for slave in sorted(set(refused.members) - self.members):
                self._not_before_ns[slave] = now_ns + self.timing.pause_ns
        else:
            self._forget_twins(number)
        return True

    def _forget_twins(self, number: int) -> None:
        """Of lost proposals that are alike keep the last, so that their number is bounded."""
        last = next(p for p in self.proposals if p.number == number)
        self.proposals[:] = [
            p for p in self.proposals if p.number == number or p.members != last.members
        ]

    # Time.

    def next_deadline_ns(self) -> int | None:
        """When `due` has something to do."""
        due = [self._held_until_ns] if self.held is not None else []
        if self.proposals and self._asked is None:
            due.append(self._quiet_until_ns)
        return min(due, default=None)

    def due(self, now_ns: int) -> None:
        """Let go of a held slave that took too long."""
        if self.held is not None and now_ns >= self._held_until_ns:
            self.let_go(now_ns)


def confirmed(
    waited_for: Set[BrokerId], me: BrokerId, mine: int, acked: Mapping[BrokerId, int]
) -> int | None:
    """Up to where everybody has the log.

    Args:
        waited_for: who must have it.
        me, mine: this broker, and how far its own log counts.
        acked: acknowledgements of those who are connected and have made one.

    Returns:
        An offset; None if some member is not connected or has acknowledged nothing: RocketMQ
        leaves the second kind out, and lets consumers read what that member may not have
        (docs/spec/controller-ha.md 6.4 (H6)).
    """
    others = sorted(waited_for - {me})
    if any(slave not in acked for slave in others):
        return None
    return min([mine, *(acked[slave] for slave in others)])


def reached(members: Set[BrokerId], acked: Mapping[BrokerId, int], count: int) -> int | None:
    """Up to where `count` distinct slaves of `members` have the log; None if there are fewer.

    RocketMQ counts connections, also a second one of the same slave, and learners
    (docs/spec/controller-ha.md 5.2).
    """
    offsets = sorted((acked[slave] for slave in sorted(members & acked.keys())), reverse=True)
    return offsets[count - 1] if len(offsets) >= count else None
