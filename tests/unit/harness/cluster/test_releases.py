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


def test_a_node_goes_on_with_other_settings_as_it_says_itself() -> None:
    """They last: a later restart has them as well."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        releases = cluster.offers(Replaceable)
        proof = await releases.change_settings("b0-0", {"fileReservedTime": "71"})
        assert proof.holds, proof
        assert (await releases.change_settings("b0-0", {"deleteWhen": "05"})).holds
        config = await cluster.processes.machine("b0-0").get(cluster.processes.config_path("b0-0"))
        assert b"fileReservedTime=71" in (config or b"")
        unused = await releases.change_settings("b0-0", {"traceTopicEnable": "true"})
        assert unused.holds, "the reference does not show what it does not use"
        assert await cluster.otherwise() == {}

    with_cluster(main)


def test_settings_that_a_node_has_otherwise_are_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        monkeypatch.setattr(ReferenceTarget, "config", without_hours)
        releases = cluster.offers(Replaceable)
        proof = await releases.change_settings("b0-0", {"fileReservedTime": "71"})
        assert (proof.holds, proof.seen["otherwise"]) == (False, {"fileReservedTime": "72"})

    kept = ReferenceTarget.config

    def without_hours(self: ReferenceTarget, *args: Any) -> str:
        lines = kept(self, *args).splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("fileReservedTime"))

    with_cluster(main)


def test_a_run_of_one_release_cannot() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        with pytest.raises(MissingCapability, match="one release"):
            await cluster.offers(Replaceable).start_as("n0", "other")
        await asyncio.sleep(0)

    with_cluster(main)
