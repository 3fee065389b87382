"""A capture of our own nodes: every byte between them is in it."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from benchmarks.captures.capture import capture
from benchmarks.captures.crossed import Crossed
from benchmarks.captures.requests import commit, committed, make_topic, send
from benchmarks.captures.scenarios import ONLINE_S, SCENARIOS, Scenario, killed, settings
from benchmarks.captures.scene import Scene
from maxq.harness.environments.local import absent, no_network
from maxq.harness.targets.reference import ReferenceTarget
from maxq.reference.wire import plain_ha

pytestmark = [
    pytest.mark.local,
    pytest.mark.skipif(bool(absent() or no_network()), reason="no network namespaces here"),
]
BODY = b"x" * 100_000  # more than a packet, and more than is kept of a stream


async def play(scene: Scene) -> None:
    assert await scene.seen("b0-1 is listed", partial(scene.listed, "b0-1"), ONLINE_S)
    await make_topic(scene, "b0-0")
    await send(scene, "b0-0", b"small")
    await send(scene, "b0-0", BODY)
    await commit(scene, "b0-0", 1)
    await committed(scene, ["b0-0"])
    await killed(scene, "b0-0", acting="b0-1")  # until that was announced, which is to be seen
    await scene.start("b0-0")


def test_a_pair_of_ours_is_captured(tmp_path: Path) -> None:
    scenario = Scenario(
        name="ours", target="reference", settings=settings(sets=1, replicas=2), play=play
    )
    (tmp_path / "work").mkdir()
    out = tmp_path / "ours"
    asyncio.run(capture(scenario, ReferenceTarget(), tmp_path / "work", out))

    index = json.loads((out / "index.json").read_bytes())
    said = [text for _, text in index["marks"]]
    assert "14 at b0-0: 0 {'offset': '1'}" in said
    kinds = {(c["client"], c["server"], c["kind"]) for c in index["connections"]}
    assert ("client", "b0-0", "remoting") in kinds
    assert kinds & {(n, "b0-1", "remoting") for n in ("n0", "n1")}, said  # 905, of which one may do
    copies = [c for c in index["connections"] if c["kind"] == "plain-ha"]
    assert copies[0]["truncated"]
    assert copies[0]["bytes_s2c"] > len(BODY)
    name = f"{copies[0]['file']}.s2c.bin"
    log = (out / "stores" / "b0-1" / "commitlog" / f"{0:020}").read_bytes()
    assert BODY in log
    for piece in plain_ha.master_decoder().feed((out / name).read_bytes()):
        assert log[piece.start :][: len(piece.data)] == piece.data
    lines = (out / "frames.jsonl").read_text().splitlines()
    assert {15, 14, 310, 901, 905} <= {json.loads(line)["request_code"] for line in lines}


def test_crossed_containers_of_ours_are_captured(tmp_path: Path) -> None:
    """As RocketMQ's are, and to the same end: what waits at the slave goes to the master beside."""
    scenario = next(s for s in SCENARIOS if s.name == "5.5.0-container")
    (tmp_path / "work").mkdir()
    out = tmp_path / "ours"
    target = Crossed(ReferenceTarget(), scenario.settings)
    asyncio.run(capture(scenario, target, tmp_path / "work", out))

    said = [text for _, text in json.loads((out / "index.json").read_bytes())["marks"]]
    assert [text for text in said if text.startswith("not within")] == []
    lists = [text for text in said if text.startswith("the name server lists b2")]
    assert lists == ["the name server lists b2 as [0]", "the name server lists b2 as []"]
    assert any(text.startswith("the delayed message is at b1's master") for text in said)
    assert any(text.startswith("b1 has asked tpg") for text in said)
