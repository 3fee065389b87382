"""Files of settings with any values that people set: refused by the key, or a run that is decided.

And what keeps messages is what loses them: a run whose settings lose says so, whatever else its
files say. 408 files have every pair of values of 94 keys; all of them by `pytest -m campaign`.
"""

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from covering import covering
from hypothesis import given
from hypothesis import strategies as st
from operators_files import KEEPING, LOSES, Settings, factors, files, options

from maxq.harness.contracts.environment import Role
from maxq.harness.run.stored_run import run_test
from maxq.harness.targets.known_keys import REFUSED
from maxq.harness.targets.settings_files import OWN
from maxq.reference.java_keys import keys_of

SEED, EVERY = 2, 408
WAY = next(iter(KEEPING))


def decided(folder: Path, way: str, settings: Settings) -> None:
    """No file of these breaks a promise of the reference; one that loses shows it, and what is
    unknown says why."""
    judged = run_test(options(folder, way, settings, SEED), folder / "runs", quiet=True)
    lost = judged.results.lost
    assert judged.results.valid is True or (judged.results.valid == "unknown" and lost.why)
    assert way not in LOSES or lost.lost or lost.why


@pytest.mark.parametrize(("way", "settings"), list(files(2 * len(KEEPING)))[len(KEEPING) :])
def test_a_file_is_decided(tmp_path: Path, way: str, settings: Settings) -> None:
    """Each way to keep messages, beside the values that meet most pairs."""
    decided(tmp_path, way, settings)


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_files_with_every_pair_of_values_are_decided(tmp_path: Path) -> None:
    asked = list(files(EVERY))
    assert len(asked) == EVERY
    for number, (way, settings) in enumerate(asked):
        folder = tmp_path / str(number)
        folder.mkdir()
        decided(folder, way, settings)


def test_values_that_no_run_can_have_are_refused_by_their_key(tmp_path: Path) -> None:
    """Before anything runs: what is of another type, and what Max-Q cannot do."""
    wrong = [(f"{role.value}:{key}", value) for role in Role for key, value in REFUSED[role]
             if key not in OWN[role]]  # fmt: skip
    for setting in factors():
        role, _, key = setting.partition(":")
        java = keys_of(role)[key][-1]
        if java.type != "string" or java.values:
            wrong.append((setting, "ture"))
    assert len(wrong) > 80
    for setting, value in wrong:
        way = "controllers" if setting.startswith("controller") else WAY
        with pytest.raises(ValueError, match=setting.partition(":")[2]):
            options(tmp_path, way, {setting: value}, SEED)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=9), st.integers(0, 3))
def test_every_pair_of_values_is_in_a_row(counts: Sequence[int], seed: int) -> None:
    """And rows are far fewer than there are combinations: no more than pairs of two factors."""
    rows = list(covering(counts, seed))
    for one, other in combinations(range(len(counts)), 2):
        assert len({(row[one], row[other]) for row in rows}) == counts[one] * counts[other]
    assert len(rows) <= 3 * max(a * b for a, b in combinations(counts, 2))
