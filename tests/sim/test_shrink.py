"""Shrinking: a failing schedule becomes small, still fails the same way, and goes on where it was.

The pool of simulations takes the most time here, so one shrinking serves all tests of this module.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.experiments.shrink import (
    BEST,
    SCRIPT,
    TRIED,
    Seen,
    Shrinker,
    Shrunk,
    Tried,
    examine,
    noisy,
    roomier,
    shrunk,
    signature_of,
    story_of,
)
from maxq.harness.run.replay import NotRepeated
from maxq.harness.schedule.format import (
    Act,
    Call,
    Header,
    Schedule,
    When,
    Who,
    decode,
    encode,
    read,
)
from maxq.harness.schedule.reductions import size_of

SIGNATURE = "S6/lost-write"
OPTIONS = {"workload": ["queue"], "profile": "P-SAFE", "concurrency": 8}
BUDGET = 10


def schedule(mutant: str = "ack_without_replicas") -> Schedule:
    """A master that is cut off acknowledges on its own; all else is beside the point."""
    return Schedule(
        header=Header(length=14.0, seed=3, options={**OPTIONS, "mutant": mutant}),
        calls=tuple(
            Call(id=f"s{n}", at=0.5 + n / 5, thread=3 + n % 5, value=[n % 2, 0, n])
            for n in range(60)
        ),
        acts=(
            Act(id="f0", f="kill", when=When(at=0.5), who=Who(part="namesrv")),
            Act(id="f0.h", f="start", when=When(after="f0", at=1.0), who=Who(of="f0")),
            Act(id="f1", f="start-partition", when=When(at=3.0), who=Who(part="master")),
            Act(id="f1.h", f="stop-partition", when=When(after="f1", at=7.0), who=Who(of="f1")),
            Act(id="f2", f="pause", when=When(at=11.5), who=Who(part="controller")),
            Act(id="f2.h", f="resume", when=When(after="f2", at=1.0), who=Who(of="f2")),
        ),
    )


class Done(NamedTuple):
    """What came of a shrinking."""

    folder: Path
    found: Shrunk
    story: str

    @property
    def tried(self) -> list[Tried]:
        lines = (self.folder / TRIED).read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Tried) for line in lines]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("shrink")
    found = shrunk(schedule(), folder, SIGNATURE, jobs=1, budget=BUDGET, noise=2)
    return Done(folder, found, "\n".join(story_of(found, folder / SCRIPT)))


def test_it_becomes_smaller_and_fails_in_the_same_way(done: Done) -> None:
    """S6: a master without its replicas acknowledged, and was deposed."""
    small = read(done.folder / SCRIPT)
    assert small == done.found.script
    before, after = done.found.before, done.found.after
    assert (before, after) == ((3, 60), size_of(small))
    assert done.found.rate.hits > 0
    assert len(done.tried) == done.found.simulations <= BUDGET + 8
    assert after[0] < before[0]
    assert after[1] < before[1]
    assert small.header.name == SIGNATURE
    assert small.header.options["mutant"] == "ack_without_replicas"
    assert "start-partition" in {act.f for act in small.acts}
    assert SIGNATURE in examine(small, SIGNATURE).found
    best = read(done.folder / BEST)
    assert SIGNATURE in examine(best, SIGNATURE).found


def test_the_story_says_what_became_of_it_and_how_to_repeat_it(done: Done) -> None:
    small = read(done.folder / SCRIPT)
    faults, ops = size_of(small)
    assert done.story.startswith(f"{SIGNATURE}: 3 faults and 60 operations became {faults} fault")
    assert f" and {ops} operations, by" in done.story
    assert encode(small).decode().rstrip() in done.story
    assert "Under noise: " in done.story
    assert "acknowledged value" in done.story
    assert f"maxq replay {done.folder / SCRIPT}" in done.story


def test_noise_leaves_no_act_out_where_there_is_room() -> None:
    """An act just before the end is beyond it where it is late."""
    act = Act(id="f", f="restart", when=When(at=0.677), who=Who(part="slave"))
    tight = Schedule(header=Header(length=0.7, seed=1), acts=(act,))
    (roomy,) = roomier(tight)

    def left_out(script: Schedule) -> int:
        scripts = [noisy(script, number) for number in range(1, 21)]
        return sum(s.acts[0].when.at > s.header.length for s in scripts)

    assert left_out(tight) > 0
    assert left_out(roomy) == 0
    assert not list(roomier(msgspec.structs.replace(tight, acts=())))


def test_what_was_tried_is_not_tried_again(done: Done, tmp_path: Path) -> None:
    """The same shrinking goes on: only what failed is simulated anew, since it leads on."""
    for name in (TRIED, BEST):
        (tmp_path / name).write_bytes((done.folder / name).read_bytes())
    with (tmp_path / TRIED).open("ab") as journal:
        journal.write(b'{"digest":"abc","found":{}')  # cut off by a crash
    misses = {t.digest for t in done.tried if SIGNATURE not in t.found}
    hits = {t.digest for t in done.tried if SIGNATURE in t.found}
    assert misses
    with Shrinker(tmp_path, SIGNATURE, jobs=1, budget=2) as shrinker:
        assert set(shrinker.others) >= {s for t in done.tried for s in t.found} - {SIGNATURE}
        shrinker.shrink(schedule())
    lines = (tmp_path / TRIED).read_bytes().splitlines()
    after = [msgspec.json.decode(line, type=Tried) for line in lines[len(done.tried) :]]
    assert 0 < len(after) == shrinker.simulations
    assert not {t.digest for t in after} & misses
    assert {t.digest for t in after} <= hits, "the way is the same, down to each step"


def test_a_schedule_that_shows_nothing_is_not_shrunk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet = msgspec.structs.replace(
        schedule(), acts=(), header=Header(length=2.0, options=OPTIONS), calls=schedule().calls[:9]
    )
    (tmp_path / "quiet.jsonl").write_bytes(encode(quiet))
    with pytest.raises(NotRepeated, match="the schedule shows no anomaly"):
        signature_of(quiet)
    assert run_cli(["shrink", str(tmp_path / "quiet.jsonl")]) == 254
    assert "the schedule shows no anomaly" in capsys.readouterr().err
    with (
        Shrinker(tmp_path, SIGNATURE, jobs=1) as shrinker,
        pytest.raises(NotRepeated, match=f"{SIGNATURE} does not appear again"),
    ):
        shrinker.shrink(quiet)


def test_what_a_schedule_shows() -> None:
    seen = examine(schedule(), SIGNATURE)
    assert seen.found[SIGNATURE] > 0
    assert seen.times
    assert all(t >= 0 for t in seen.times)
    assert set(seen.values) <= set(range(60))
    assert "acknowledged value" in seen.story
    performed = decode(seen.performed)
    assert all(act.done is not None for act in performed.acts)
    right = examine(schedule(mutant=""), SIGNATURE)
    assert (right.found, right.error) == ({}, "")


def test_nonsense_is_no_smaller_version() -> None:
    """A candidate may have no replica to strike, or no thread for a call: that shows nothing."""
    strange = Schedule(header=Header(length=2.0, options={"workload": ["quue"]}))
    assert examine(strange, SIGNATURE) == Seen(
        found={}, error="ScheduleError: header: no workload 'quue', did you mean queue?"
    )
