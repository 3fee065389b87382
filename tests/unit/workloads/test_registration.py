"""The registration workload: rounds of a broker's life, races of applicants, honest outcomes."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from generator_simulation import Simulated, after, simulate

from maxq.harness.client.id_applicant import Applicant
from maxq.harness.contracts.cluster import Proof
from maxq.harness.contracts.environment import Capability
from maxq.harness.contracts.generator import Context
from maxq.harness.contracts.outcome import Fail, Info, Ok, Outcome
from maxq.harness.contracts.target import Topology, plan
from maxq.harness.generators import clients, delay, time_limit
from maxq.histories.observed import APPLY_ID, JOIN, LEAVE, WIPE
from maxq.histories.op import Op
from maxq.reference.rpc import ConnectionLost, NotSent
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext
from maxq.workloads.registration import (
    APPLICANTS_OF_SET,
    CHANGE_ADDRESS,
    KILL,
    Owner,
    registration_workload,
)

SECOND_NS, MS_NS = 1_000_000_000, 1_000_000


class View:
    """A cluster with two spares, one of which has an id."""

    dial: Any = None

    def __init__(self) -> None:
        self.nodes = plan(Topology(replicas=3, broker_sets=1, spares=2))
        self.done: list[tuple[str, str]] = []
        self.holds = True
        self.id: int | None = 4

    controllers: Any = None
    resolve: Any = None

    async def _do(self, what: str, node: str) -> Proof:
        self.done.append((what, node))
        return Proof(self.holds, {"reason": "made up"})

    async def start(self, node: str) -> Proof:
        return await self._do("start", node)

    def offers(self, contract: object) -> "View":
        return self

    async def stop(self, node: str) -> Proof:
        return await self._do("stop", node)

    async def kill(self, node: str) -> Proof:
        return await self._do("kill", node)

    async def wipe(self, node: str) -> Proof:
        return await self._do("wipe", node)

    async def change_address(self, node: str, *, restart: bool) -> Proof:
        return await self._do(f"change-address {restart}", node)

    def address(self, node: str) -> str:
        return "198.18.0.112:10911"

    async def identity(self, node: str) -> int | None:
        return self.id


def performed(complete: Any = None, *, moves: bool = True, seconds: int = 200) -> Simulated:
    view: Any = View()
    none: Any = None
    workload = registration_workload(
        view,
        none,
        cluster_name="c",
        applicants=2,
        capabilities=frozenset({Capability.CHANGE_ADDRESS} if moves else ()),
    )
    assert workload.threads == 4
    # Each thread has so many turns in a run of the default rate.
    turns = delay(SECOND_NS // 50, workload.generator)
    limited = clients(time_limit(seconds * SECOND_NS, turns))
    return simulate(limited, concurrency=4, complete=complete or after(MS_NS))


def test_each_broker_has_one_thread_and_lives_in_rounds() -> None:
    ops = performed().invocations
    assert {op.value["node"] for op in ops if op.process == 0} == {"r0"}
    assert {op.value["node"] for op in ops if op.process == 1} == {"r1"}
    for process in (0, 1):
        fs = [op.f for op in ops if op.process == process]
        assert fs[0] == JOIN
        assert set(fs) == {JOIN, LEAVE, KILL, CHANGE_ADDRESS, WIPE}
        for before, now in pairwise(fs):
            assert (before == JOIN) == (now in (LEAVE, KILL))  # it goes only when it is there


def test_nobody_moves_where_addresses_cannot_change() -> None:
    assert CHANGE_ADDRESS not in {op.f for op in performed(moves=False).invocations}


def test_a_join_that_fails_is_tried_again_or_given_up() -> None:
    def complete(ctx: Context, op: Op) -> Op:
        kind = "info" if op.f == JOIN else "ok"
        return msgspec.structs.replace(op, type=kind, time=ctx.time + MS_NS, index=-1)

    fs = [op.f for op in performed(complete).invocations if op.f != APPLY_ID]
    assert Counter(fs)[JOIN] > 20
    assert {LEAVE, KILL} <= set(fs)


def test_applicants_race_for_each_set_under_codes_of_their_own() -> None:
    claims = [op.value for op in performed(seconds=60).invocations if op.f == APPLY_ID]
    assert len(claims) > 600
    codes = [claim["code"] for claim in claims]
    assert len(set(codes)) == len(codes)
    rivals = Counter(claim["set"] for claim in claims)
    assert max(rivals.values()) == 2 * APPLICANTS_OF_SET


def owner(f: str, view: View) -> Outcome:
    cluster: Any = view
    return asyncio.run(Owner(cluster).invoke(Op("invoke", 0, f, {"node": "r1"})))


@pytest.mark.parametrize(
    ("f", "done"),
    [(LEAVE, "stop"), (KILL, "kill"), (WIPE, "wipe"), (CHANGE_ADDRESS, "change-address False")],
)
def test_what_was_proven_is_ok_and_the_rest_is_info(f: str, done: str) -> None:
    view = View()
    assert owner(f, view) == Ok({"node": "r1"})
    assert view.done == [(done, "r1")]
    view.holds = False
    assert isinstance(owner(f, view), Info)


def test_a_join_tells_the_id_that_the_broker_has_and_where_it_is() -> None:
    told = {"node": "r1", "set": "r1", "id": 4, "address": "198.18.0.112:10911"}
    assert owner(JOIN, View()) == Ok(told)


def test_a_broker_that_does_not_start_has_not_joined() -> None:
    view = View()
    view.holds = False
    assert isinstance(owner(JOIN, view), Info)


# Applicants.


class Controllers:
    """A controller that leads, offers id 3 and answers claims as told."""

    def __init__(self, claim: Callable[[Frame], Frame]) -> None:
        self.claim = claim
        self.asked: list[RequestCode] = []

    async def call(self, address: str, frame: Frame, *, timeout_s: float) -> Frame:
        self.asked.append(RequestCode(frame.code))
        if frame.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            leads = headers.MetadataResponse(controller_leader_address="c0:1")
            return frame.answer(0, ext=to_ext(leads))
        if frame.code == RequestCode.CONTROLLER_GET_NEXT_BROKER_ID:
            return frame.answer(0, ext=to_ext(headers.NextBrokerIdResponse(next_broker_id=3)))
        return self.claim(frame)

    def close(self) -> None:
        """Nothing is open."""


def applied(claim: Callable[[Frame], Frame]) -> Outcome:
    async def run() -> Outcome:
        none: Any = None
        async with asyncio.TaskGroup() as group:
            applicant = Applicant(lambda: ["c0:1"], lambda a: a, "c", none, group)
            pool: Any = Controllers(claim)
            applicant._pool = pool
            return await applicant.apply("a0", "maxq-1;0")

    return asyncio.run(run())


def raising(error: Exception) -> Callable[[Frame], Frame]:
    def claim(frame: Frame) -> Frame:
        raise error

    return claim


def test_an_id_that_was_granted_is_ok() -> None:
    assert applied(lambda frame: frame.answer(0)) == Ok(3)


@pytest.mark.parametrize(
    ("claim", "kind"),
    [
        (lambda f: f.answer(ResponseCode.CONTROLLER_BROKER_ID_INVALID, "taken"), Fail),
        (lambda f: f.answer(ResponseCode.CONTROLLER_NOT_LEADER, "lost its lead"), Info),
        (lambda f: f.answer(ResponseCode.SYSTEM_ERROR, "?"), Info),
        (raising(NotSent("refused")), Fail),
        (raising(TimeoutError()), Info),
        (raising(ConnectionLost("reset")), Info),
    ],
)
def test_a_claim_that_may_have_been_taken_is_info(claim: Any, kind: type[object]) -> None:
    assert isinstance(applied(claim), kind)
