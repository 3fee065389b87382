"""A deployed cluster in the simulator: what proves a death, a start, an end."""

import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from run_in_world import Watched, with_cluster

from maxq.harness.client.probes import runtime_info, until
from maxq.harness.cluster import queries
from maxq.harness.cluster.deployment import Deployment, SetupFailed
from maxq.harness.contracts.environment import Role
from maxq.harness.run.lifecycle import PAGE, cut
from maxq.reference import mutants
from maxq.reference.broker.admin.topic_admin import TopicAdmin
from maxq.reference.rpc import Pool, Reply
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.route import TopicConfig


def test_a_kill_is_proven_by_exit_code_and_refused_port() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        proof = await cluster.processes.kill("b0-0")
        assert proof.holds
        assert proof.seen == {"pid": 1, "code": -signal.SIGKILL, "port": "refused"}
        assert not cluster.processes.running("b0-0")
        assert not await cluster.recovered()
        again = await cluster.processes.start("b0-0")
        assert again.holds
        assert again.seen == {"pid": 2, "code": None, "port": "open"}
        assert (await cluster.processes.start("b0-0")).seen["pid"] == 2, "it runs already"

    with_cluster(main)


@pytest.mark.parametrize("code", [1, -signal.SIGKILL])
def test_a_process_that_had_ended_is_not_killed(code: int) -> None:
    """Also not one that the kernel killed for want of memory."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        environment.crash("b0-0", code)
        assert await cluster.processes.crashed() == {"b0-0": code}
        proof = await cluster.processes.kill("b0-0")
        assert not proof.holds
        assert proof.seen["reason"] == "it had ended by itself"

    with_cluster(main)


@pytest.mark.parametrize("node", ["n0", "c0", "b0-0"])
def test_a_node_that_stopped_or_died_can_start_again_on_its_store(node: str) -> None:
    """What it held (ports, locks) has gone with it."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        assert await cluster.stop_all() == []
        for name in ("n0", "c0", "b0-0"):
            assert (await cluster.processes.start(name)).holds, name
        process = environment.machine(node)._processes[-1]
        assert process.task is not None
        process.task.get_loop().call_soon(process.task.cancel)
        assert (await cluster.processes.kill(node)).holds
        assert (await cluster.processes.start(node)).holds

    with_cluster(main, broker_sets=1)


def test_what_does_not_stop_is_killed_and_named() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        machine = environment.machine("b0-0")
        send: Callable[..., object] = machine.signal

        async def deaf(pid: int, number: int) -> None:
            if number != signal.SIGTERM:
                await send(pid, number)  # type: ignore[misc]

        machine.signal = deaf  # type: ignore[method-assign,assignment]
        assert await cluster.stop_all() == ["b0-0"]
        assert (await machine.status(1)).code == -signal.SIGKILL

    with_cluster(main)


def test_everything_of_a_node_is_collected_once() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.create_topics({"t": 2})
        await cluster.stop_all()
        found = [(node, path) async for node, path, _ in cluster.collect()]
        assert len(found) == len(set(found))
        for node in cluster.nodes:
            assert (node.name, "node.log") in found
            assert (node.name, "node.conf") in found
        assert any(path.startswith("store/") for node, path in found if node == "b0-0")

    with_cluster(main)


def test_a_broker_that_dies_during_the_set_up_is_named_with_the_end_of_its_log() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        environment.crash("b2-0")
        with pytest.raises(SetupFailed, match=r"^b2-0 cannot make topic t: .*its node.log ends: {"):
            await cluster.create_topics({"t": 2})

    with_cluster(main)


def test_topics_that_slaves_leave_to_their_master(monkeypatch: pytest.MonkeyPatch) -> None:
    """RocketMQ 5.1: the set-up waits until slaves have copied them."""
    made = TopicAdmin._put

    async def put(self: TopicAdmin, request: Frame, topics: Sequence[TopicConfig]) -> Reply:
        if self._membership.role == "slave":
            why = "Can't modify topic or subscription group from slave broker, please execute it"
            return request.answer(ResponseCode.SYSTEM_ERROR, why)
        return await made(self, request, topics)

    monkeypatch.setattr(TopicAdmin, "_put", put)

    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.create_topics({"t": 2})
        for node in ("b0-0", "b0-1"):
            stored = await cluster.processes.stored(node, "store/config")
            assert b'"t"' in stored["store/config/topics.json"]

    with_cluster(main, broker_sets=1, replicas=2)


def test_a_topic_that_one_set_has_alone() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        await cluster.create_topics({"t": 2, "one": 1}, alone=["one"])
        for node, has in (("b0-0", True), ("b1-0", False)):
            stored = await cluster.processes.stored(node, "store/config")
            assert b'"t"' in stored["store/config/topics.json"]
            assert (b'"one"' in stored["store/config/topics.json"]) is has

    with_cluster(main, broker_sets=2, replicas=1)


def test_roles_and_addresses() -> None:
    async def main(cluster: Deployment, environment: Watched) -> None:
        assert [n.name for n in cluster.by_role(Role.BROKER)] == ["b0-0", "b1-0"]
        assert cluster.namesrvs() == ["198.18.0.16:9876"]
        assert await cluster.mutants() == {"b0-0": "", "b1-0": ""}

    with_cluster(main, broker_sets=2)


@pytest.mark.parametrize("failures", [3, 1_000])
def test_a_broker_that_is_busy_is_asked_again(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has just started may need longer for its first answer than a probe waits."""
    asked: list[str] = []

    async def busy(pool: Pool, address: str) -> dict[str, str]:
        asked.append(address)
        if len(asked) <= failures:
            raise TimeoutError
        return await runtime_info(pool, address)

    async def main(cluster: Deployment, environment: Watched) -> None:
        monkeypatch.setattr(queries, "runtime_info", busy)
        if failures < queries.BUSY_TRIES:
            found = await cluster.mutants()
            assert set(found.values()) == {""}
            assert len(asked) == failures + len(found)
            return
        with pytest.raises(TimeoutError):
            await cluster.mutants()
        assert len(asked) == queries.BUSY_TRIES

    with_cluster(main)


@pytest.mark.parametrize(
    ("data", "kept"),
    [(b"", 0), (bytes(9000), 0), (b"x", 1), (b"x" + bytes(9000), PAGE), (b"y" * PAGE, PAGE)],
)
def test_a_log_is_cut_to_its_end_but_never_into_its_last_record(data: bytes, kept: int) -> None:
    """A record may end with zeros: an empty property string does."""
    assert cut(data) == data[:kept]


def test_brokers_with_controllers_that_act_stay_listed() -> None:
    """They register a short time-out, and tell name servers in between that they live."""

    async def main(cluster: Deployment, environment: Watched) -> None:
        async def dropped() -> bool:
            return not await cluster.recovered()

        assert not await until(dropped, 40.0)

    keys = {"broker:enableSlaveActingMaster": "true", "broker:registerNameServerPeriod": "30000"}
    with_cluster(main, keys=keys)


def test_a_slave_that_lacks_a_topic_is_said() -> None:
    """A12. Asked for it once more, it says what it lacks; nothing is said where nobody does."""

    async def main(cluster: Deployment, environment: Watched) -> object:
        return await cluster.create_topics({"t": 1})

    pair: dict[str, Any] = {"controllers": 0, "broker_sets": 1, "replicas": 2, "profile": "P-SYNC"}
    typed = {**pair, "topic_attributes": "+message.type=NORMAL"}
    assert with_cluster(main, **typed) == {}
    with mutants.load("typed_topics_not_copied"):
        assert with_cluster(main, **pair) == {}
        lacking = with_cluster(main, **typed)
    assert lacking == {
        "b0-1": {
            "holds": False,
            "topic": "t",
            "attributes": "+message.type=NORMAL",
            "answer": "TOPIC_NOT_EXIST: No topic in this broker. topic: t",
        }
    }
