"""Whatever peers send, a node lives: it answers a protocol code or closes."""

import asyncio
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from reference_world import (
    BROKER_CONF,
    CONTROLLER,
    CONTROLLER_CONF,
    NAMESRV,
    NAMESRV_CONF,
    Cluster,
    pull_header,
    send_header,
)

from maxq.reference import rpc
from maxq.reference.wire import bodies
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Decoder, Frame, Serialize, encode
from maxq.reference.wire.headers import to_ext, to_short_ext
from maxq.reference.wire.message import BatchElement, encode_batch

NODES: dict[str, tuple[str, dict[str, str], str]] = {
    "namesrv": ("namesrv", NAMESRV_CONF, NAMESRV),
    "controller": ("controller", CONTROLLER_CONF, CONTROLLER),
    "broker": ("b1", {**BROKER_CONF, "namesrvAddr": ""}, "198.18.0.48:10911"),
}
GOOD = [
    to_ext(send_header()),
    to_short_ext(send_header(batch=True)),
    to_ext(pull_header()),
    to_ext(pull_header(sys_flag=7, suspend_timeout_millis=10)),
    {"clusterName": "c", "brokerName": "b", "brokerAddr": "a:1", "haServerAddr": "a:2",
     "brokerId": "0", "appliedBrokerId": "1", "registerCheckCode": "a;1", "brokerAddress": "a:1"},
    {"topic": "T", "consumerGroup": "g", "queueId": "0", "commitOffset": "1", "timestamp": "5",
     "defaultTopic": "T", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
     "topicFilterType": "X", "clientID": "c"},
]  # fmt: skip
CODES = [int(c) for c in RequestCode] + [0, -1, 999, 2**31 - 1, -(2**31)]
NUMBERS = st.sampled_from(["0", "1", "-1", "7", str(2**31 - 1), str(2**63 - 1), str(-(2**63))])
TEXTS = st.one_of(NUMBERS, st.text(max_size=20), st.sampled_from(["", "T", "TBW102", "%RETRY%g"]))
KEYS = st.sampled_from(sorted({k for e in GOOD for k in e}))
EXTS = st.one_of(
    st.none(),
    st.builds(lambda good, more: {**good, **more}, st.sampled_from(GOOD),
              st.dictionaries(KEYS, TEXTS, max_size=3)),
    st.dictionaries(st.one_of(KEYS, st.text(max_size=5)), TEXTS, max_size=6),
)  # fmt: skip
BODIES = st.one_of(
    st.none(),
    st.binary(max_size=60),
    st.sampled_from([
        b"{}", b"[]", b"null", b'["b"]', b'{"a":', b'{"clientID":1}', b"[" * 5000,
        bodies.HeartbeatBody(
            client_id="c", consumer_data_set=(bodies.ConsumerData(group_name="g"),)
        ).to_json(),
        bodies.SubscriptionGroupConfig(group_name="g").to_json(),
        encode_batch([BatchElement(body=b"1"), BatchElement(body=b"2")]),
        encode_batch([BatchElement(body=b"1")])[:-3],
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"topicName":"T","perm":1e3}}}}',
    ]),
)  # fmt: skip
FRAMES = st.builds(
    lambda code, flag, ext, body, kind: Frame(
        code=code if kind is Serialize.JSON else code % 30_000,
        opaque=1,
        flag=flag,
        ext={k: v for k, v in (ext or {}).items() if k or kind is Serialize.JSON},
        body=body,
        serialize=kind,
    ),
    st.sampled_from(CODES),
    st.sampled_from([0, 0, 0, 1, 2, 3, 77]),
    EXTS,
    BODIES,
    st.sampled_from(list(Serialize)),
)
GARBAGE = st.one_of(
    st.binary(max_size=64),
    st.builds(lambda size, rest: size.to_bytes(4, "big", signed=True) + rest,
              st.integers(-(2**31), 2**31 - 1), st.binary(max_size=40)),
)  # fmt: skip
KNOWN = {int(c) for c in ResponseCode}


class Raw(asyncio.Protocol):
    """A peer without manners: writes bytes, collects answers."""

    def __init__(self) -> None:
        self.answers: list[Frame] = []
        self.lost = False
        self._decoder = Decoder()

    def data_received(self, data: bytes) -> None:
        self.answers += self._decoder.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


def talk(cluster: Cluster, address: str, pieces: list[bytes]) -> list[Frame]:
    async def main(_: Any) -> list[Frame]:
        raw = Raw()
        host, port = rpc.split_address(address)
        transport, _protocol = await rpc.loop_dial(lambda: raw, host, port)
        for piece in pieces:
            transport.write(piece)  # type: ignore[attr-defined]
        await asyncio.sleep(2)
        transport.close()
        return raw.answers

    return cluster.client(main)


@pytest.mark.parametrize("kind", sorted(NODES))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_node_lives_through_anything(kind: str, data: st.DataObject) -> None:
    """Frames with random codes, headers and bodies, and bytes that are no frames, on
    several connections; afterwards the node serves as before."""
    machine, config, address = NODES[kind]
    talks = data.draw(st.lists(st.lists(st.one_of(FRAMES, GARBAGE), max_size=12), max_size=4))
    with Cluster() as cluster:
        process = cluster.up(machine, kind, config)
        for pieces in talks:
            raw = [p if isinstance(p, bytes) else encode(p) for p in pieces]
            for answer in talk(cluster, address, raw):
                assert answer.is_response
                assert answer.code in KNOWN
        cluster.sleep(12)  # periodic work meets what is left behind
        assert process.healthy, process.loop.failures
        assert cluster.ask(address, 31_000).code == 3
        process.loop.kill()
        again = cluster.up(machine, kind, config)
        assert again.healthy  # nothing was written that a start refuses


def test_every_known_request_without_a_header_is_answered() -> None:
    """A missing header is a SYSTEM_ERROR at worst."""
    for kind, (machine, config, address) in sorted(NODES.items()):
        with Cluster() as cluster:
            process = cluster.up(machine, kind, config)
            frames = [encode(Frame(code=code, opaque=at, ext={} if at % 2 else None))
                      for at, code in enumerate(CODES * 2)]  # fmt: skip
            answers = talk(cluster, address, frames)
            assert len(answers) == len(frames)
            assert process.healthy
