"""Seeds that nobody has seen before: others for each commit, and the same on each machine."""

import subprocess
from hashlib import blake2b
from pathlib import Path

import pytest

from maxq.harness.experiments.simulate import SeedResult, run_seed

ROOT = Path(__file__).parent.parent.parent
COUNT, PAIRS, LENGTH_MS = 8, 4, 30_000


def commit() -> str:
    """What the seeds follow from; outside of a checkout they are always the same."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "no commit"


def fresh(number: int) -> int:
    """A seed of this commit."""
    return int.from_bytes(blake2b(f"{commit()}/{number}".encode(), digest_size=6).digest(), "big")


def blamed(result: SeedResult) -> str:
    """What the correct reference is blamed for; empty if for nothing."""
    return " ".join([*result.found, *(f"oracle/{name}" for name in result.oracle), result.error])


@pytest.mark.parametrize("number", range(COUNT))
def test_the_correct_reference_is_never_blamed(number: int) -> None:
    result = run_seed(fresh(number), length_ms=LENGTH_MS)
    assert not blamed(result), f"maxq simulate --seeds {result.seed} --length 30s: {blamed(result)}"


@pytest.mark.parametrize("number", range(PAIRS))
def test_nor_are_pairs_of_it(number: int) -> None:
    result = run_seed(fresh(number), length_ms=LENGTH_MS, pairs=True)
    again = f"maxq simulate --mode pair --seeds {result.seed} --length 30s"
    assert not blamed(result), f"{again}: {blamed(result)}"


def test_a_seeded_bug_is_blamed() -> None:
    """Or the test above could not fail."""
    assert any(blamed(run_seed(seed, mutant="ack_without_replicas", length_ms=LENGTH_MS))
               for seed in range(8))  # fmt: skip
