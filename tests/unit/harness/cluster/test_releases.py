"""Nodes that are started as another release, in the simulator: steps and proofs."""

import asyncio
from typing import Any

import pytest
from run_in_world import Watched, with_cluster

from maxq.harness.cluster.deployment import Deployment
from maxq.harness.contracts.cluster import Replaceable
from maxq.harness.contracts.environment import MissingCapability
from maxq.harness.targets.mixed import MixedTarget
from maxq.harness.targets.reference import ReferenceTarget


class OtherRelease(ReferenceTarget):
    """Ours, under the version of another release."""

    name = "other"

    def answers_as(self, node: Any) -> int:
        return 435


def mixed(cluster: Deployment) -> Replaceable:
    """The contract, of a cluster that has two releases from now on."""
    target = MixedTarget({"reference": ReferenceTarget(), "other": OtherRelease()}, {})
    cluster.releases._target = cluster.processes._target = target
    return cluster.offers(Replaceable)


def test_a_node_that_runs_is_stopped_and_answers_as_what_it_became() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        releases = mixed(cluster)
        for node in ("b0-0", "c0", "n0"):
            proof = await releases.replace_release(node, "reference")
            assert proof.holds, proof
            assert proof.seen["stopped"]["code"] == 0
            assert (proof.seen["version"], proof.seen["command"]) == ("5.3.3", True)
            assert (proof.seen["from"], proof.seen["to"]) == ("reference", "reference")

    with_cluster(main)


def test_another_version_than_that_of_the_release_is_no_proof() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        releases = mixed(cluster)
        assert (await cluster.processes.stop("n0")).holds
        proof = await releases.start_as("n0", "other")
        assert (proof.holds, proof.seen["version"]) == (False, "5.3.3")
        assert cluster.processes.running("n0")

    with_cluster(main)


def test_a_run_of_one_release_cannot() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        with pytest.raises(MissingCapability, match="one release"):
            await cluster.offers(Replaceable).start_as("n0", "other")
        await asyncio.sleep(0)

    with_cluster(main)
