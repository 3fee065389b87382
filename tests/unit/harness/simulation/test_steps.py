"""The record of a run's steps: one digest, and the first step in which two runs differ."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from maxq.harness.simulation import steps
from maxq.harness.simulation.steps import CHUNK, Steps, first_difference, name_of
from maxq.harness.simulation.world import World


def recorded(path: Path, pauses_ms: tuple[int, ...]) -> Steps:
    """Sleep so often and so long, recorded."""

    async def sleeps(_: object) -> None:
        for pause in pauses_ms:
            await asyncio.sleep(pause / 1000)

    with path.open("wb") as file:
        made = Steps(file)
        world = World(1, steps=made)
        world.run(world.add_machine("a", "198.18.0.16"), sleeps)
        world.close()
        made.digest()
    return made


def test_equal_runs_have_equal_digests_and_no_difference(tmp_path: Path) -> None:
    one, other = (recorded(tmp_path / name, (1, 2) * CHUNK) for name in "ab")
    assert one.count == other.count > 2 * CHUNK
    assert one.digest() == other.digest()
    assert first_difference(tmp_path / "a", tmp_path / "b") is None
    assert steps.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0


def test_the_first_difference_is_told_with_what_was_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = recorded(tmp_path / "a", (1, 2, 3))
    other = recorded(tmp_path / "b", (1, 5, 3))
    assert one.digest() != other.digest()
    found = first_difference(tmp_path / "a", tmp_path / "b")
    assert found is not None
    assert found.one.startswith("3000000 1 ")
    assert found.other.startswith("6000000 1 ")
    assert found.before[-1].endswith("sleeps")
    assert steps.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 1
    assert f"step {found.number}" in capsys.readouterr().out


def test_a_run_that_ends_earlier_differs(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1 1 x\n")
    (tmp_path / "b").write_text("1 1 x\n2 1 y\n")
    assert "(ended)" in str(first_difference(tmp_path / "a", tmp_path / "b"))


def test_names_hold_no_addresses() -> None:
    class Thing:
        def act(self) -> None: ...

        def __call__(self) -> None: ...

    for callback in (Thing().act, partial(Thing().act), Thing(), print, lambda: None):
        assert "0x" not in name_of(callback)
    assert name_of(partial(Thing().act)).endswith("Thing.act")
