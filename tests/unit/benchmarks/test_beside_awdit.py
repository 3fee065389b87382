"""A sample of what ``python -m benchmarks.beside_awdit`` compares, without AWDIT."""

from collections import Counter
from pathlib import Path

from benchmarks.beside_awdit import LEVELS, compared

COUNT = 200


def test_texts_of_sessions_are_judged_by_the_definitions_of_levels(tmp_path: Path) -> None:
    seen = Counter[tuple[str, object]]()
    for number in range(COUNT):
        for level, said in compared(number, tmp_path / "text", lambda *_: None).items():
            assert said["ours"] is said["definition"], (number, level, said)
            seen[level, said["ours"]] += 1
    assert min(seen[level, kept] for level in LEVELS for kept in (True, False)) > COUNT / 5, seen
