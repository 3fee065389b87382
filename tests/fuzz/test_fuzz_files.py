"""A short share of the damaged files, with every one that has found something."""

from pathlib import Path

import fuzz_files
import pytest

KEPT = [(int(seed), int(number)) for seed, number, _ in
        (line.split(maxsplit=2) for line in
         (Path(__file__).parent / "file_seeds.txt").read_text().splitlines()
         if line and not line.startswith("#"))]  # fmt: skip
COUNT = 500


def test_a_damaged_file_ends_in_a_verdict_or_a_named_error(tmp_path: Path) -> None:
    found = fuzz_files.run(tmp_path, 1, range(COUNT), say=lambda line: None)
    assert found.faults == []
    assert sum(found.ends.values()) == COUNT
    assert sum(count for end, count in found.ends.items() if end.endswith(" read")) > COUNT / 20


@pytest.mark.parametrize(("seed", "number"), KEPT)
def test_what_found_something_is_read_again(tmp_path: Path, seed: int, number: int) -> None:
    found = fuzz_files.run(tmp_path, seed, [number], say=lambda line: None)
    assert found.faults == []
