"""Crashes at points of flows: all of registration, a sample of the rest; and bugs they find."""

from random import Random
from typing import Any

import pytest

from maxq.harness.experiments.crash_points.flows import FLOWS, Flow, Outcome, perform, record
from maxq.harness.simulation.crash_points import Crash, crashes
from maxq.reference.broker.membership import identity
from maxq.reference.broker.membership.identity import Claimed, IdentityFiles
from maxq.reference.broker.store.commit_log import CommitLog
from maxq.reference.host import Disk
from maxq.reference.raft.message import Entry
from maxq.reference.raft.storage import Storage
from maxq.reference.records import PhyOffset

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SAMPLE = 8  # crashes of a flow, in CI; `python -m benchmarks.crash_points` has them all
POINTS_MIN = {  # a flow of fewer points was not watched
    "registration": 50, "registration-controller": 40, "election": 80, "epoch-file": 45,
    "demotion": 45, "truncation": 50, "raft-append-leader": 40, "raft-append-follower": 18,
    "raft-snapshot": 70, "raft-install": 18, "unlabelled-cut": 50, "unlabelled-copy": 50,
    "unlabelled-election": 40,
    "retention": 25, "retention-slave": 150,
}  # fmt: skip


def not_whole(flow: Flow, chosen: list[Crash]) -> list[Outcome]:
    return [o for c in chosen if (o := perform(flow, c)).verdict != "whole"]


@pytest.mark.parametrize("part", range(4))
def test_a_broker_that_registers_may_crash_anywhere(part: int) -> None:
    """S1, S2: every disk operation and message, before, in the middle and after, three losses."""
    flow = FLOWS["registration"]
    assert not_whole(flow, crashes(record(flow))[part::4]) == []


@pytest.mark.parametrize("name", sorted(set(FLOWS) - {"registration"}))
def test_a_sample_of_every_other_flow(name: str) -> None:
    """S1, S2, S5 to S9 and Raft's safety."""
    flow = FLOWS[name]
    every = crashes(record(flow))
    assert not_whole(flow, Random(f"sample/{name}").sample(every, SAMPLE)) == []


@pytest.mark.parametrize("name", sorted(FLOWS))
def test_a_flow_has_points_of_every_kind_that_it_must(name: str) -> None:
    """What is not counted is not crashed at; and a recording is the same each time."""
    points = record(FLOWS[name])
    assert points == record(FLOWS[name])
    assert len(points) >= POINTS_MIN[name]
    kinds = {p.kind for p in points}
    assert {"write", "sync", "send", "receive"} <= kinds
    if name not in ("registration-controller", "raft-append-leader", "raft-append-follower"):
        assert {"create", "truncate", "rename", "sync-dir"} <= kinds
    assert len(crashes(points)) > 5 * len(points)


def test_a_crash_says_where_it_was() -> None:
    point = record(FLOWS["raft-append-follower"])[0]
    assert "before 0 (" in str(Crash(point, "before", "kill"))
    assert str(Crash(point, "after", "power-some", 2)).endswith("power-some draw 2")


# Bugs that only a crash at the right point shows.


async def replace_without_sync(disk: Disk, path: str, data: bytes) -> None:
    """A rename may be durable before what it names."""
    file = disk.open(path + ".new", create=True)
    file.truncate(0)
    file.pwrite(data, 0)
    file.close()
    disk.rename(path + ".new", path)
    await disk.sync_dir(path.rpartition("/")[0])


async def replace_in_place(disk: Disk, path: str, data: bytes) -> None:
    """No file aside: a crash leaves half of the new content."""
    file = disk.open(path, create=True)
    file.truncate(0)
    file.pwrite(data, 0)
    await file.sync()
    file.close()


async def forget_claim(self: IdentityFiles, claim: Claimed) -> None:
    """An id is claimed before the claim is on the disk: the id leaks."""


async def append_without_sync(
    self: Storage, term: int, vote: str, entries: tuple[Entry, ...]
) -> None:
    """A controller acknowledges what is not on its disk."""
    file: Any = self._file
    sync = file.sync

    async def no_sync() -> None:
        pass

    file.sync = no_sync
    try:
        await honest_append(self, term, vote, entries)
    finally:
        file.sync = sync


honest_append = Storage.append


async def cut_in_memory(self: CommitLog, offset: PhyOffset) -> None:
    """A slave goes on behind a cut that the disk does not know of."""
    self._cuts += 1
    self.end = PhyOffset(offset)
    self.durable = PhyOffset(min(self.durable, self.end))


def test_a_damaged_identity_is_refused_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """S1: half an identity file is nobody's; its store is removed, and another id taken."""
    monkeypatch.setattr(identity, "replace_file", replace_in_place)
    flow = FLOWS["registration"]
    torn = [c for c in crashes(record(flow)) if c.moment == "torn"
            and c.point.what.endswith("brokerIdentity") and c.loss == "kill"]  # fmt: skip
    (outcome,) = [perform(flow, c) for c in torn]
    assert outcome.verdict == "refused"
    assert "IdentityError: /b0-1/store/brokerIdentity: identity file needs 3 parts" in outcome.why


@pytest.mark.parametrize(
    ("owner", "name", "made", "flow", "kinds"),
    [
        (identity, "replace_file", replace_without_sync, "registration", {"send"}),
        (identity, "replace_file", replace_in_place, "registration", {"send", "write"}),
        (IdentityFiles, "save_claim", forget_claim, "registration", {"send"}),
        (Storage, "append", append_without_sync, "registration-controller", {"send"}),
        (CommitLog, "truncate", cut_in_memory, "truncation", {"rename"}),
    ],
)
def test_a_bug_is_found_at_some_point(
    monkeypatch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    made: Any,
    flow: str,
    kinds: set[str],
) -> None:
    monkeypatch.setattr(owner, name, made)
    every = [c for c in crashes(record(FLOWS[flow]), draws=2) if c.point.kind in kinds]
    assert next((o for c in every if (o := perform(FLOWS[flow], c)).verdict != "whole"), None)
