"""The controllers' registry, driven by rules beside the rules of the specification.

The twin is written from docs/spec/controller-ha.md 2.2 and 2.4, not from the code: what is allowed,
and what an allowed command changes. A second registry applies the same commands from their bytes,
restored from a snapshot at any time: it must have the same state (claims S1 to S5, S7).
"""

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from machines import SETTINGS, finds

from maxq.reference.controller import election, registry
from maxq.reference.controller.election import Candidate
from maxq.reference.controller.registry import (
    AlterSyncStateSet,
    ApplyBrokerId,
    CleanBrokerData,
    Command,
    ElectMaster,
    Machine,
    RegisterBroker,
    Registry,
    encode_command,
    from_bytes,
    to_bytes,
)
from maxq.reference.records import BrokerId
from maxq.reference.wire.codes import ResponseCode

SET = "b"
IDS = st.integers(1, 4).map(BrokerId)
SOME = st.frozensets(IDS, max_size=4)
CODES = st.sampled_from(["x", "y", "z"])


class RegistryMachine(RuleBasedStateMachine):
    """One broker set."""

    @initialize()
    def begin(self) -> None:
        self.machine, self.other = Machine(), Machine()
        self.index = 0
        self.codes: dict[int, str] = {}  # registered id -> check code
        self.next_id = 1
        self.master: int | None = None
        self.epoch = 0
        self.members: frozenset[int] = frozenset()
        self.set_epoch = 0
        self.masters: dict[int, int] = {}  # epoch -> master
        self.given: dict[int, str] = {}  # every id that was ever given out

    def apply(self, command: Command) -> bool:
        self.index += 1
        data = encode_command(command)
        result, again = (m.apply(self.index, data) for m in (self.machine, self.other))
        assert result == again
        return result.code == ResponseCode.SUCCESS

    @rule()
    def the_other_restarts(self) -> None:
        restored = Machine()
        restored.restore(self.other.snapshot())
        self.other = restored

    @rule(wanted=IDS, code=CODES, next_one=st.booleans())
    def a_broker_applies(self, wanted: int, code: str, next_one: bool) -> None:
        broker = BrokerId(self.next_id if next_one else wanted)
        ok = self.apply(ApplyBrokerId(
            cluster="c", broker_set=SET, broker_id=broker, check_code=code, address="1:1"
        ))  # fmt: skip
        repeated = self.codes.get(broker) == code
        assert ok == (repeated or broker == self.next_id)
        if ok and not repeated:
            assert broker not in self.given, "an id was given out twice"
            self.codes[broker] = self.given[broker] = code
            self.next_id += 1

    @rule(broker=IDS, port=st.integers(1, 9))
    def a_broker_registers(self, broker: BrokerId, port: int) -> None:
        ok = self.apply(RegisterBroker(
            cluster="c", broker_set=SET, broker_id=broker, address=f"1:{port}"
        ))  # fmt: skip
        assert ok == (broker in self.codes)
        if ok:
            assert self.machine.registry.sets[SET].replicas[broker].address == f"1:{port}"

    @rule(preferred=st.none() | IDS, designate=st.booleans(), alive=SOME, unclean=st.booleans())
    def somebody_is_elected(
        self, preferred: BrokerId | None, designate: bool, alive: frozenset[int], unclean: bool
    ) -> None:
        living = tuple(Candidate(broker_id=BrokerId(i)) for i in sorted(alive))
        ok = self.apply(ElectMaster(
            broker_set=SET, preferred=preferred, designate=designate, alive=living, unclean=unclean
        ))  # fmt: skip
        safe = frozenset(self.codes) if not self.epoch else self.members
        fit = alive & safe & self.codes.keys()
        if unclean and not (fit & {preferred} if designate else fit):
            fit = alive & self.codes.keys()
        if designate:
            fit &= {-1 if preferred is None else preferred}
        again = self.master is not None and preferred == self.master
        stays = self.master in fit and (designate or not again)
        assert ok == (bool(fit) and not stays)
        if not ok:
            return
        now = self.machine.registry.sets[SET]
        assert now.master in fit
        assert now.master is not None
        self.master, self.epoch, self.set_epoch = now.master, self.epoch + 1, self.set_epoch + 1
        self.members = frozenset({now.master})
        assert self.epoch not in self.masters
        self.masters[self.epoch] = now.master

    @rule(
        by=IDS, members=SOME, alive=SOME, stale_term=st.booleans(), stale_set=st.booleans(),
        by_master=st.booleans(),
    )  # fmt: skip
    def a_master_alters_the_set(
        self, by: BrokerId, members: frozenset[int], alive: frozenset[int], stale_term: bool,
        stale_set: bool, by_master: bool,
    ) -> None:  # fmt: skip
        master = BrokerId(self.master or 1) if by_master else by
        ok = self.apply(AlterSyncStateSet(
            broker_set=SET, master=master, master_epoch=self.epoch - stale_term,
            sync_state_set=tuple(sorted(members)),
            sync_state_set_epoch=self.set_epoch - stale_set, alive=tuple(sorted(alive)),
        ))  # fmt: skip
        assert ok == (
            self.next_id > 1 and master == self.master and not stale_term and not stale_set
            and members != self.members and members <= self.codes.keys() & alive
            and master in members
        )  # fmt: skip
        if ok:
            self.members, self.set_epoch = members, self.set_epoch + 1

    @rule(ids=st.none() | SOME, living=st.booleans(), alive=SOME)
    def an_operator_cleans(
        self, ids: frozenset[int] | None, living: bool, alive: frozenset[int]
    ) -> None:
        ok = self.apply(CleanBrokerData(
            broker_set=SET, ids=None if ids is None else tuple(sorted(ids)), living=living,
            alive=tuple(sorted(alive)),
        ))  # fmt: skip
        kept = not living and (self.master is not None if ids is None else bool(ids & alive))
        assert ok == (self.next_id > 1 and not kept)
        if ok:
            gone = frozenset(self.codes) if ids is None else ids
            self.codes = {i: c for i, c in self.codes.items() if i not in gone}
            self.members -= gone
            self.master = None if self.master in gone else self.master

    @invariant()
    def the_state_is_the_twins(self) -> None:
        if not hasattr(self, "machine") or self.next_id == 1:
            return
        now = self.machine.registry.sets[SET]
        assert {i: r.check_code for i, r in now.replicas.items()} == self.codes
        assert (now.next_broker_id, now.master, now.master_epoch, now.sync_state_set_epoch) == (
            self.next_id, self.master, self.epoch, self.set_epoch
        )  # fmt: skip
        assert now.sync_state_set == tuple(sorted(self.members))
        assert to_bytes(self.machine.registry) == to_bytes(self.other.registry)
        assert to_bytes(from_bytes(to_bytes(self.machine.registry))) == self.machine.snapshot()


RegistryMachine.TestCase.settings = SETTINGS
TestRegistryMachine = RegistryMachine.TestCase


def keep_epoch(self: Registry, command: ElectMaster) -> registry.Result:
    known = self.sets.get(command.broker_set)
    before = 0 if known is None else known.master_epoch
    result = REAL_ELECT(self, command)
    if known is not None and before:
        known.master_epoch = before
    return result


def reuse_ids(self: Registry, broker_set: str) -> int:
    known = self.sets.get(broker_set)
    return 1 if known is None else max(known.replicas, default=0) + 1


def no_fault(*_: object) -> None:
    return None


def outside_the_set(**given: object) -> int | None:
    return REAL_CHOOSE(**{**given, "sync_state_set": None})  # type: ignore[arg-type]


REAL_ELECT, REAL_CHOOSE = Registry._elect, election.choose


@pytest.mark.parametrize(
    ("owner", "name", "wrong"),
    [
        (Registry, "_elect", keep_epoch),
        (Registry, "next_broker_id", reuse_ids),
        (registry, "_alter_fault", no_fault),
        (election, "choose", outside_the_set),
    ],
)
def test_the_machine_can_fail(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, wrong: object
) -> None:
    monkeypatch.setattr(owner, name, wrong)
    finds(RegistryMachine)
