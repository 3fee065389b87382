"""The shells around the cores: how a process judges its failures, what a sync leaves behind."""

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.reference.__main__ import make_node
from maxq.reference.config import ConfigError, ControllerConfig
from maxq.reference.host import RealHost
from maxq.reference.node import describe, is_our_bug
from maxq.reference.records import InvariantViolation
from maxq.reference.rpc import NotSent, Pool, split_address
from maxq.reference.wire.frame import Frame


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (InvariantViolation("S6"), True),
        (ExceptionGroup("g", [OSError(), ExceptionGroup("h", [InvariantViolation("S6")])]), True),
        (ExceptionGroup("g", [OSError(28, "full")]), False),
        (ValueError("x"), False),
    ],
)
def test_a_broken_invariant_is_found_inside_task_groups(error: Exception, ours: bool) -> None:
    """Our bug dies with the whole story, everything else with one line."""
    assert is_our_bug(error) is ours
    assert "\n" not in describe(error)


@pytest.mark.parametrize("peers", ["", "n1-h:1", "n1-h:1;n2-h:2"])
def test_a_controller_that_is_not_of_its_group_is_refused(peers: str) -> None:
    """Its own address is its entry among the peers."""
    config = ControllerConfig(controller_dleger_peers=peers, controller_dleger_self_id="n0")
    with pytest.raises(ConfigError, match="lacks 'n0'"):
        make_node((config,), RealHost(seed=1))


def test_a_sync_that_nobody_waits_for_any_more_leaks_nothing(tmp_path: Path) -> None:
    """SYNC_FLUSH times out on a slow disk again and again: no descriptor may stay, and none may
    be closed under the disk thread's feet."""

    async def case() -> None:
        file = RealHost(seed=1).disk.open(f"{tmp_path}/log", create=True)
        file.pwrite(b"x", 0)
        await file.sync()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(50):
            waiting = asyncio.ensure_future(file.sync())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await file.sync()  # the disk thread has come after all of them
        assert len(os.listdir("/proc/self/fd")) == before
        file.close()

    asyncio.run(case())


def test_an_answer_keeps_the_serialization_of_its_request() -> None:
    """A peer that writes binary headers reads them (docs/spec/remoting.md 1.4)."""
    request = Frame(code=1, opaque=7)
    answer = request.answer(3, "no")
    assert (answer.opaque, answer.serialize, answer.is_response) == (7, request.serialize, True)


def told_no_address(text: str) -> bool:
    try:
        split_address(text)
    except ValueError:
        return True
    return False


@given(address=st.one_of(st.just(""), st.text(max_size=20)).filter(told_no_address))
def test_a_call_to_what_is_no_address_is_not_sent(address: str) -> None:
    """A master's address is empty once it is gone, which who asks it may notice too late."""

    async def ask() -> None:
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            try:
                with pytest.raises(NotSent, match="not an address"):
                    await pool.call(address, Frame(code=28), timeout_s=1)
            finally:
                pool.close()

    asyncio.run(ask())
