"""A short share of the fuzzer, with every seed that has found something."""

from pathlib import Path
from random import Random

import pytest
from fuzz_cluster import FuzzCluster
from fuzz_run import run

SEEDS = [int(line.split()[0]) for line in
         (Path(__file__).parent / "seeds.txt").read_text().splitlines()
         if line and not line.startswith("#")]  # fmt: skip
BATCHES = 400


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_node_lives_serves_others_and_starts_again(tmp_path: Path, seed: int) -> None:
    cluster = FuzzCluster(tmp_path, Random(seed))
    try:
        cluster.start()
        found = run(cluster, seed, lambda sent: sent < BATCHES, say=lambda line: None)
    finally:
        cluster.stop()
    assert found.faults == []
    assert len(found.frames) == 11  # every port was sent something, and stories were performed
