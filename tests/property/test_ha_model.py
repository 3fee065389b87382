"""Replication under random schedules: no acknowledged send is lost, logs agree, all is well again.

Made of cores only (`ha_model`), so a second is thousands of steps. Each run draws what can be lost,
delayed, killed between two effects, and elected; promises are checked after every step.
"""

from collections.abc import Mapping, Set
from random import Random

import msgspec
import pytest
from ha_model import Model

from maxq.reference.broker.replication import epochs as policy
from maxq.reference.broker.replication import sync_state_set as sets
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.sync_state_set import Outcome, SyncStateSet
from maxq.reference.records import BrokerId, MasterEpoch, PhyOffset
from maxq.reference.wire.ha import EpochStart

STEPS = 1500


def live(model: Model, steps: int, *, power: bool = False) -> None:
    model.election()
    for _ in range(steps):
        model.act(power=power)
    model.heal()
    model.check()
    logs = [b.log for b in model.brokers.values()]
    assert len({log.data for log in logs}) == 1
    assert len({log.saved for log in logs}) == 1  # S8b, epochs without bytes included
    assert model.members == frozenset(model.brokers)  # S14


def model(seed: int, *, durable: bool = False, minimum: int = 1, size: int = 3) -> Model:
    made = Model(rng=Random(seed), size=size, durable=durable)
    made.settings = msgspec.structs.replace(made.settings, min_in_sync_replicas=minimum)
    for broker in made.brokers.values():
        made.start(broker)
    return made


@pytest.mark.parametrize("block", range(5))
def test_nothing_acknowledged_is_lost(block: int) -> None:
    """S6, S8, S8b, S9, S10, S14 with P-ALL and P-SAFE."""
    seen: dict[str, int] = {}
    for seed in range(block * 30, block * 30 + 30):
        made = model(seed, minimum=1 + seed % 2, size=3 + seed % 4 // 3)
        live(made, STEPS)
        for name, count in made.seen.items():
            seen[name] = seen.get(name, 0) + count
    for name in ("kill", "elect", "cut", "grow", "shrink", "acknowledged", "crash within a step",
                 "lead refused"):  # fmt: skip
        assert seen.get(name, 0) >= 5, (name, seen)


@pytest.mark.parametrize("block", range(3))
def test_nothing_acknowledged_is_lost_with_the_power(block: int) -> None:
    """S6 in durable mode: a crash also loses what was not synced."""
    acknowledged = 0
    for seed in range(block * 30, block * 30 + 30):
        made = model(seed, durable=True, minimum=1 + seed % 2)
        live(made, STEPS, power=True)
        acknowledged += made.seen.get("acknowledged", 0)
    assert acknowledged >= 100


def test_the_model_can_fail() -> None:
    """A slave that acknowledges what is not synced loses with the power; the model sees it."""
    broken = 0
    for seed in range(60):
        made = Model(rng=Random(seed))  # not durable, but power is lost
        try:
            live(made, STEPS, power=True)
        except AssertionError:
            broken += 1
    assert broken


def test_a_log_is_walked_by_its_records() -> None:
    made = model(0)
    made.brokers[1].log.data = bytes([3, 1, 1, 2, 1, 9, 9])
    assert PhyOffset(made.brokers[1].log.whole_end()) == 5


# Deliberately wrong variants: the model must see each of them.


def cut_nothing(mine: Epochs, my_end: PhyOffset, theirs: Epochs, their_end: PhyOffset) -> PhyOffset:
    return my_end


def refuse_equal_starts(epochs: Epochs, epoch: MasterEpoch, start: PhyOffset) -> Epochs:
    """RocketMQ: an epoch that begins where the last one did is not kept.

    docs/spec/controller-ha.md 6.4 (H2)
    """
    if epochs and epochs[-1].start >= start:
        return epochs
    return (*epochs, EpochStart(epoch=epoch, start=start))


def resume_a_term(epochs: Epochs, epoch: MasterEpoch, start: PhyOffset) -> Epochs | None:
    """A master that restarts within its term goes on."""
    if policy.last_epoch(epochs) == epoch:
        return epochs
    return REAL_APPEND(epochs, epoch, start)


def leave_out_the_silent(
    waited_for: Set[BrokerId], me: BrokerId, mine: int, acked: Mapping[BrokerId, int]
) -> int | None:
    """RocketMQ: a member that has not acknowledged holds nothing back.

    docs/spec/controller-ha.md 6.4 (H6)
    """
    return min([mine, *(acked[s] for s in sorted(waited_for - {me}) if s in acked)])


def lost_is_refused(self: SyncStateSet, now_ns: int, number: int, outcome: Outcome) -> bool:
    return REAL_ANSWERED(self, now_ns, number, "refused")


REAL_APPEND, REAL_ANSWERED = policy.append, SyncStateSet.answered
MUTANTS: dict[str, tuple[object, str, object, bool]] = {
    "no truncation": (policy, "truncation_point", cut_nothing, False),
    "equal starts refused": (policy, "append", refuse_equal_starts, False),
    "term resumed": (policy, "append", resume_a_term, True),
    "silent members left out": (sets, "confirmed", leave_out_the_silent, False),
    "lost proposals forgotten": (SyncStateSet, "answered", lost_is_refused, False),
    "joins without being waited for": (SyncStateSet, "waited_for", lambda s: s.members, False),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_the_model_catches(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who never fails proves nothing."""
    where, what, wrong, power = MUTANTS[name]
    monkeypatch.setattr(where, what, wrong)
    for seed in range(150):
        made = model(seed, durable=power, minimum=1 + seed % 2)
        try:
            live(made, STEPS, power=power)
        except (AssertionError, ValueError):
            return
    raise AssertionError(f"not caught: {name}")
