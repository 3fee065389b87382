"""Raft cores, driven by rules beside the one list of entries that they must agree on.

`test_raft_safety.Group` is the model: a committed list, disks, what was acknowledged; it asserts at
every step. There random schedules drive it, here rules do, which shrink to the shortest failure.
Reads, snapshots and writes that end late are among them (claims of figure 3 of the Raft paper).
"""

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from machines import SETTINGS, finds
from test_raft_safety import Group, sender

from maxq.reference.raft import core as raft
from maxq.reference.raft.core import Core, Received, Timeout

NAMES = st.sampled_from(["n0", "n1", "n2"])
WIRE_MAX = 60  # messages on their way; older ones are lost


class RaftMachine(RuleBasedStateMachine):
    """Three nodes."""

    @initialize(seed=st.integers(0, 99))
    def begin(self, seed: int) -> None:
        self.group = Group(3, seed)
        self.is_impatient("n0")
        self.all_goes_well_for_a_while(30)
        assert self.group.cores["n0"].ready

    def a_leader(self, data: st.DataObject) -> str:
        """Who leads, or believes so."""
        cores = self.group.cores
        leading = [n for n, c in cores.items() if c.role == "leader"]
        return data.draw(st.sampled_from(leading or self.group.names))

    @rule(who=NAMES)
    def is_impatient(self, who: str) -> None:
        """Its election time passes, or its heartbeat is due; others have heard nothing lately."""
        group = self.group
        group.now = max(group.now + 1, group.cores[who].next_deadline_ns())
        group.step(who, Timeout())

    @precondition(lambda self: self.group.wire)
    @rule(data=st.data(), fate=st.sampled_from(["once", "once", "once", "twice", "lost"]))
    def a_message_arrives(self, data: st.DataObject, fate: str) -> None:
        at = data.draw(st.integers(0, len(self.group.wire) - 1))
        self._deliver(at, fate)

    def _deliver(self, at: int, fate: str = "once") -> None:
        to, message = self.group.wire[at] if fate == "twice" else self.group.wire.pop(at)
        if fate != "lost" and (sender(message), to) not in self.group.cut:
            self.group.step(to, Received(message=message))
        del self.group.wire[:-WIRE_MAX]

    @rule(count=st.sampled_from([3, 12, 30]))
    def all_goes_well_for_a_while(self, count: int) -> None:
        for _ in range(count):
            for name in self.group.names:
                self.group.write(name)
            if self.group.wire:
                self._deliver(0)

    @rule(who=NAMES)
    def a_write_ends(self, who: str) -> None:
        self.group.write(who)

    @rule(data=st.data())
    def a_command_is_proposed(self, data: st.DataObject) -> None:
        self.group.propose(self.a_leader(data))

    @rule(data=st.data())
    def somebody_reads(self, data: st.DataObject) -> None:
        self.group.read(self.a_leader(data))

    @rule(who=NAMES, count=st.integers(1, 3), stays=st.booleans())
    def a_node_misses_commands(self, who: str, count: int, stays: bool) -> None:
        """Nobody hears it, it hears nobody; whoever leads, itself maybe, takes commands."""
        names, cores = self.group.names, self.group.cores
        self.group.cut = {(a, b) for a in names for b in names if who in (a, b)}
        for name in [n for n in names if cores[n].role == "leader"] * count:
            self.group.propose(name)
        self.all_goes_well_for_a_while(12)
        if not stays:
            self.group.cut = set()

    @rule(data=st.data(), who=NAMES)
    def a_leader_is_superseded(self, data: st.DataObject, who: str) -> None:
        """It is cut off, another one takes its place and a command; it does not know yet."""
        old = self.a_leader(data)
        self.group.depose(old)
        if who != old:
            self.is_impatient(who)
            self.all_goes_well_for_a_while(30)
            self.group.propose(who)
            self.all_goes_well_for_a_while(12)

    @rule(who=NAMES)
    def a_snapshot_is_taken(self, who: str) -> None:
        self.group.compact(who)

    @rule(who=NAMES)
    def a_node_crashes(self, who: str) -> None:
        """What it had not written is lost."""
        self.group.crash(who)

    @rule(who=NAMES)
    def a_node_is_cut_off(self, who: str) -> None:
        """And the others grow impatient."""
        self.group.depose(who)

    @rule()
    def cuts_heal(self) -> None:
        self.group.cut = set()

    @invariant()
    def whoever_knows_of_a_commit_has_it(self) -> None:
        """Leader completeness, in what can be seen: applied lists are beginnings of one list."""
        if hasattr(self, "group"):
            for name, core in self.group.cores.items():
                applied = self.group.applied[name]
                assert applied == self.group.committed[: len(applied)]
                assert core.commit <= core.log.last_index
                assert core.durable <= core.log.last_index

    def teardown(self) -> None:
        """Once nothing goes wrong any more there is progress, and all have all."""
        if hasattr(self, "group"):
            self.group.settle()


MANY = settings(SETTINGS, max_examples=250, stateful_step_count=60)
RaftMachine.TestCase.settings = MANY
TestRaftMachine = RaftMachine.TestCase


def vote_for_all(self: Core, now_ns: int, m: Any) -> Any:
    """A node forgets its vote."""
    self.vote = "" if m.term == self.term and self.role != "leader" else self.vote
    return REAL_VOTE(self, now_ns, m)


def vote_for_shorter_logs(self: Core, now_ns: int, m: Any) -> Any:
    """A node votes for who lacks entries that it has."""
    return REAL_VOTE(self, now_ns, msgspec.structs.replace(m, last_term=10**6))


def read_at_once(self: Core) -> Any:
    """A leader answers reads without asking whether it still leads."""
    self.reads = [(ticket, 0) for ticket, _ in self.reads]
    return REAL_READS(self)


REAL_VOTE, REAL_READS = Core._on_vote, Core._reads_ready


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (Core, "_on_vote", vote_for_all),
        (Core, "_on_vote", vote_for_shorter_logs),
        (Core, "_reads_ready", read_at_once),
        (raft, "is_majority", lambda of, peers: bool(of)),
    ],
)
def test_the_machine_can_fail(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: object
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    finds(RaftMachine, MANY)
