"""The oracle sees each invariant break, and nothing on the correct reference.

Every break is made by a seeded bug: one of `maxq.reference.mutants`, or a patch of a few lines
here.
"""

import contextlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import maxq.harness.run.execute
from maxq.harness.run.stored_run import run_test
from maxq.harness.schedule.options import Options
from maxq.harness.simulation.oracle.log import CHUNK, LogDigest
from maxq.harness.simulation.oracle.oracle import Oracle, OracleAnomaly
from maxq.histories.store import ORACLE
from maxq.reference.broker.replication import epochs
from maxq.reference.broker.replication.epochs import Epochs
from maxq.reference.broker.replication.ha import HaClient
from maxq.reference.broker.replication.ha_slave_events import Truncate
from maxq.reference.broker.store.store import Store
from maxq.reference.controller import election, registry
from maxq.reference.controller.registry import (
    AlterSyncStateSet,
    ApplyBrokerId,
    ElectMaster,
    Registry,
    Result,
)
from maxq.reference.raft import quorum
from maxq.reference.records import PhyOffset
from maxq.reference.wire.ha import EpochStart

SECOND_NS = 1_000_000_000
TRIO: dict[str, Any] = {
    "environment": "simulated", "workload": ("queue",), "controllers": 3, "broker_sets": 1,
    "replicas": 3, "profile": "P-SAFE", "rate": 50.0,
}  # fmt: skip
KILLS = ("kill", "partition")


def options(seed: int, seconds: int, nemesis: tuple[str, ...] = KILLS, **more: Any) -> Options:
    return Options(
        seed=seed, time_limit_ns=seconds * SECOND_NS, nemesis=nemesis, **{**TRIO, **more}
    )


def found(folder: Path, made: Options, *, broken: bool = False) -> list[OracleAnomaly]:
    """What the oracle saw in a run, as the run stores it; a broken cluster may end its run."""
    with contextlib.suppress(*((Exception,) if broken else ())):
        run_test(made, folder, quiet=True)
    lines = (folder / "latest" / ORACLE).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=OracleAnomaly) for line in lines]


def names(anomalies: list[OracleAnomaly]) -> set[str]:
    return {a.invariant for a in anomalies}


# Nothing where nothing is wrong.


def test_the_correct_reference_breaks_nothing(tmp_path: Path) -> None:
    """Under kill, cut and loss of power at once. Other profiles, under each fault alone and under
    all: `test_fault_runs`."""
    made = options(4, 30, ("kill", "partition", "power"), profile="P-UNCLEAN")
    assert found(tmp_path, made) == []


def test_ordered_queues_of_the_correct_reference_break_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, options(1, 15, workload=("lock",))) == []


def test_a_run_is_the_same_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It draws nothing and changes nothing."""
    made = options(7, 10, ("kill", "partition", "power"))
    first = run_test(made, tmp_path / "a", quiet=True).stored.path / "history.jsonl"
    watched: list[str] = []
    monkeypatch.setattr(Oracle, "attach", lambda self, loop, machine, node: watched.append(""))
    second = run_test(made, tmp_path / "b", quiet=True).stored.path / "history.jsonl"
    assert len(watched) >= 7
    assert first.read_bytes() == second.read_bytes()


# Everything that can be wrong: by mutants.


@pytest.mark.parametrize(
    ("mutant", "invariant", "more"),
    [
        ("ack_before_write", "acknowledged-beyond-end", {}),
        ("ack_without_replicas", "promised-beyond-replicas", {}),
        ("ack_without_replicas", "promised-beyond-replicas", {"profile": "P-NUM"}),
        ("elect_keeps_epoch", "one-master-per-epoch", {}),
        ("new_id_each_start", "id-changed", {}),
        ("lock_without_quorum", "lock-held-twice", {"workload": ("lock",)}),
    ],
)
def test_a_mutant_is_seen(
    tmp_path: Path, mutant: str, invariant: str, more: dict[str, Any]
) -> None:
    anomalies = found(tmp_path, options(5, 15, mutant=mutant, **more), broken=True)
    assert invariant in names(anomalies)
    first = next(a for a in anomalies if a.invariant == invariant)
    assert first.time_ns > 0
    assert first.trace
    assert first.detail


# And by patches, where no mutant breaks it.


def no_cut(mine: Epochs, my_end: PhyOffset, theirs: Epochs, their_end: PhyOffset) -> PhyOffset:
    """A slave keeps what its master does not have."""
    return my_end


async def label_before_cut(self: HaClient, group: Any, effect: Truncate) -> None:
    """A slave takes its master's epoch list, then cuts what that list does not describe."""
    await self._save_if_new(effect.epochs)
    if effect.end < self._access.end:
        await self._access.truncate(effect.end)
    await self._step(group, effect.done)


def append_any(known: Epochs, epoch: Any, start: PhyOffset) -> Epochs:
    """An epoch list takes what is no newer than its last."""
    return (*known, EpochStart(epoch=epoch, start=start))[-200:]


def elect_anybody(**given: Any) -> int | None:
    """Controllers elect whoever is first, in the SyncStateSet or not."""
    alive = [c.broker_id for c in given["alive"] if c.broker_id in given["registered"]]
    others = [i for i in alive if i != given["old_master"]]
    return next(iter(others or alive), None)


def alone_is_enough(peers: int) -> int:
    """One vote is a majority."""
    return 1


def confirm_beyond(honest: Callable[[Store, PhyOffset], None]) -> Any:
    """Readers see a thousand bytes more than there are."""
    return lambda store, offset: honest(store, PhyOffset(offset + 1000))


def states_apart(honest: Callable[[Registry, ApplyBrokerId], Result]) -> Any:
    """What a controller keeps depends on which one it is."""
    count = itertools.count()

    def apply(self: Registry, command: ApplyBrokerId) -> Result:
        result = honest(self, command)
        for replica in self.sets[command.broker_set].replicas.values():
            replica.check_code = f"{command.check_code}{next(count)}"
        return result

    return apply


def everybody_is_one(self: Registry, command: ApplyBrokerId) -> Result:
    """Controllers give out the same id again and again."""
    known = self.sets.setdefault(
        command.broker_set, registry.BrokerSet(command.cluster, command.broker_set)
    )
    known.replicas[1] = registry.Replica(command.address, command.check_code)
    return registry.OK


def set_epoch_back(honest: Callable[[Registry, AlterSyncStateSet], Result]) -> Any:
    """A change of a SyncStateSet counts its epoch down."""

    def alter(self: Registry, command: AlterSyncStateSet) -> Result:
        result = honest(self, command)
        if result == registry.OK:
            self.sets[command.broker_set].sync_state_set_epoch -= 3
        return result

    return alter


def set_without_master(honest: Callable[[Registry, ElectMaster], Result]) -> Any:
    """A new master's SyncStateSet lacks it."""

    def elect(self: Registry, command: ElectMaster) -> Result:
        result = honest(self, command)
        if result == registry.OK:
            self.sets[command.broker_set].sync_state_set = ()
        return result

    return elect


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Callable[[object, str, Any], None]:
    def replace(owner: object, name: str, make: Any) -> None:
        """Put `make` in place of an attribute, or what it makes of the one that is there."""
        wraps = next(iter(getattr(make, "__annotations__", {})), "") == "honest"
        monkeypatch.setattr(owner, name, make(getattr(owner, name)) if wraps else make)

    return replace


@pytest.mark.parametrize(
    ("owner", "name", "made", "seed", "seconds", "invariants"),
    [
        (epochs, "truncation_point", no_cut, 1, 20, {"log-agreement"}),
        (HaClient, "_truncate", label_before_cut, 1, 20, {"log-agreement"}),
        (epochs, "append", append_any, 3, 5, {"epochs-ascend"}),
        (election, "choose", elect_anybody, 5, 30, {"master-from-set", "promise-lost"}),
        (quorum, "majority", alone_is_enough, 6, 15, {
            "promise-lost", "applied-agree", "one-leader-per-term", "committed-agree",
        }),
        (Store, "confirm", confirm_beyond, 3, 5, {"confirm-beyond-end"}),
        (Registry, "_apply_broker_id", states_apart, 3, 5, {"applied-agree"}),
        (Registry, "_apply_broker_id", everybody_is_one, 3, 5, {"id-owned-twice"}),
        (Registry, "_alter", set_epoch_back, 3, 5, {"registry-epochs-ascend"}),
        (Registry, "_elect", set_without_master, 3, 5, {"master-in-set"}),
    ],
)  # fmt: skip
def test_a_bug_is_seen(
    tmp_path: Path,
    patch: Callable[[object, str, Any], None],
    owner: object,
    name: str,
    made: Any,
    seed: int,
    seconds: int,
    invariants: set[str],
) -> None:
    patch(owner, name, made)
    assert invariants <= names(found(tmp_path, options(seed, seconds), broken=True))


def test_a_run_says_that_it_found_something(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line among what is told of the run; the verdict of the checkers is theirs alone."""
    told: list[str] = []
    oracle = type("Seen", (), {"anomalies": [OracleAnomaly(
        invariant="log-agreement", time_ns=SECOND_NS, nodes=("a", "b"), detail="they differ",
        trace=())]})()  # fmt: skip
    teller = type("Teller", (), {"say": lambda self, text: told.append(text)})()
    run = type("Folder", (), {"path": tmp_path})()
    maxq.harness.run.execute._save_findings(oracle, run, teller)
    assert told == ["oracle: 1 broken invariants, the first is log-agreement at 1.000 s: they "
                    "differ (see oracle.jsonl)"]  # fmt: skip
    assert b'"nodes":["a","b"]' in (tmp_path / ORACLE).read_bytes()


# The running digest, beside the bytes themselves.


def test_a_digest_finds_the_first_byte_that_differs() -> None:
    logs = [bytearray(range(256)) * 64 for _ in range(2)]
    digests = [LogDigest(lambda a, b, log=log: bytes(log[a:b])) for log in logs]  # type: ignore[misc]
    for digest in digests:
        digest.grow(3 * CHUNK + 7)
    assert digests[0].differs_at(digests[1], 3 * CHUNK + 7) is None
    logs[1][CHUNK + 5] ^= 1
    assert digests[0].differs_at(digests[1], 3 * CHUNK) is None  # read once, when they came
    digests[1].cut(CHUNK + 5)
    digests[1].grow(2 * CHUNK + 1)
    assert digests[0].differs_at(digests[1], CHUNK + 5) is None
    assert digests[0].differs_at(digests[1], 2 * CHUNK) == CHUNK + 5


def test_logs_that_begin_elsewhere_are_compared_where_both_are() -> None:
    log = bytes(range(256)) * 64
    other = bytes(100) + log[100:]
    digests = [LogDigest(lambda a, b, of=of: of[a:b]) for of in (log, other)]  # type: ignore[misc]
    digests[1].restart(CHUNK)
    for digest in digests:
        digest.grow(2 * CHUNK + 9)
    assert digests[0].differs_at(digests[1], 2 * CHUNK + 9) is None
