"""Which runs are a night: by folders, or by the pauses between them."""

import json
from pathlib import Path

import pytest

from maxq.harness.experiments.nights.nights import nights_of


def stored(store: Path, *stamps: str) -> None:
    """Runs with a configuration alone, of certain times."""
    for stamp in stamps:
        folder = store / "queue" / stamp
        folder.mkdir(parents=True)
        options = {"environment": "local", "seed": 1, "workload": ["queue"]}
        (folder / "config.json").write_text(json.dumps({"options": options}))


EVENING = ("20261128T220000.000Z", "20261128T233000.000Z", "20261129T013000.000Z")
NEXT = ("20261129T220000.000Z",)


def test_a_pause_ends_a_night_and_midnight_does_not(tmp_path: Path) -> None:
    stored(tmp_path, *NEXT, *EVENING)
    first, second = nights_of([tmp_path])
    assert [len(first.runs), len(second.runs)] == [3, 1]
    assert (first.name, second.name) == ("2026-11-28 22:00 UTC", "2026-11-29 22:00 UTC")


@pytest.mark.parametrize("below", ["runs", "", "campaigns/nightly/runs"])
def test_each_folder_is_a_night_wherever_its_store_lies(tmp_path: Path, below: str) -> None:
    stored(tmp_path / "b" / below, *EVENING)
    stored(tmp_path / "a" / below, *NEXT)
    (tmp_path / "empty").mkdir()
    for asked in ([tmp_path], [tmp_path / "a", tmp_path / "b"]):
        first, second = nights_of(asked)
        assert [(first.name, len(first.runs)), (second.name, len(second.runs))] == [
            ("b", 3), ("a", 1),
        ]  # fmt: skip
        assert all(Path(run.name).is_dir() for run in first.runs)


def test_a_folder_with_one_store_somewhere_in_it_has_nights_by_pauses(tmp_path: Path) -> None:
    stored(tmp_path / "campaigns" / "nightly" / "runs", *EVENING, *NEXT)
    assert [len(night.runs) for night in nights_of([tmp_path])] == [3, 1]
    (tmp_path / "no").mkdir()
    assert nights_of([tmp_path / "no"]) == []
