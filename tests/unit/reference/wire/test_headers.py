"""Typed headers: names on the wire, Java's way with booleans and nulls, refusals."""

import msgspec
import pytest

from maxq.reference.wire import headers, node_headers
from maxq.reference.wire.codes import RequestCode, ResponseCode, response_name
from maxq.reference.wire.headers import BadHeader, Header, from_ext, to_ext

SEND = headers.SendRequest(
    topic="T",
    producer_group="pg",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=-1,
    sys_flag=0,
    born_timestamp=1700000000000,
    flag=0,
    properties="TAGS\x01x\x02",
    batch=True,
    bname="b1",
)


def test_send_by_long_and_short_names() -> None:
    """10, 310 and 320 give one record."""
    short = headers.to_short_ext(SEND)

    assert short == {
        "b": "T", "a": "pg", "c": "TBW102", "d": "4", "e": "-1", "f": "0",
        "g": "1700000000000", "h": "0", "i": "TAGS\x01x\x02", "m": "true", "n": "b1",
    }  # fmt: skip
    assert to_ext(SEND)["defaultTopicQueueNums"] == "4"
    assert headers.from_short_ext(short) == SEND
    assert from_ext(headers.SendRequest, to_ext(SEND)) == SEND


def test_names_of_the_wire() -> None:
    assert to_ext(headers.UnregisterClientRequest(client_id="c")) == {"clientID": "c"}
    register = node_headers.RegisterBrokerRequest(
        broker_name="b1", broker_addr="a", cluster_name="c1", ha_server_addr="h", broker_id=0,
        zone_name="z",
    )  # fmt: skip
    assert to_ext(register) == {
        "brokerName": "b1", "brokerAddr": "a", "clusterName": "c1", "haServerAddr": "h",
        "brokerId": "0", "compressed": "false", "bodyCrc32": "0", "__ZONE_NAME": "z",
    }  # fmt: skip
    assert to_ext(headers.HeartbeatResponse(is_sub_change=False)) == {"IS_SUB_CHANGE": "false"}
    clean = node_headers.CleanBrokerDataRequest(broker_name="b1", is_clean_living_broker=True)
    assert to_ext(clean) == {"brokerName": "b1", "isCleanLivingBroker": "true"}


@pytest.mark.parametrize(
    ("text", "want"),
    [("true", True), ("TRUE", True), ("True", True), ("false", False), ("1", False), ("", False)],
)
def test_booleans_as_java_parses_them(text: str, want: bool) -> None:
    got = from_ext(node_headers.MetadataResponse, {"isLeader": text})
    assert got.is_leader is want
    assert from_ext(node_headers.DataVersionResponse, {"changed": text}).changed is want
    request = {"consumerGroup": "g", "topic": "t", "queueId": "1", "setZeroIfNotFound": text}
    assert from_ext(headers.QueryConsumerOffsetRequest, request).set_zero_if_not_found is want


def test_unknown_keys_are_ignored_and_no_ext_is_empty() -> None:
    assert from_ext(headers.NoHeader, {"ReqT": "0"}) == headers.NoHeader()
    assert from_ext(node_headers.RegisterBrokerResponse, None).master_addr is None
    assert to_ext(headers.NoHeader()) == {}
    assert from_ext(node_headers.ElectMasterRequest, {}).broker_id == -1


@pytest.mark.parametrize(
    ("ext", "named"),
    [
        (None, "topic"),
        ({"topic": "t"}, "queueId"),
        ({"topic": "t", "queueId": "x"}, "queueId"),
        ({"topic": "t", "queueId": ""}, "queueId"),
        ({"topic": "t", "queueId": "2147483648"}, "queueId"),
        ({"topic": "t", "queueId": "9" * 5000}, "queueId"),
    ],
)
def test_bad_headers_name_the_field(ext: dict[str, str] | None, named: str) -> None:
    with pytest.raises(BadHeader, match=named):
        from_ext(headers.QueueRequest, ext)


def test_bad_long() -> None:
    with pytest.raises(BadHeader, match="offset"):
        from_ext(headers.OffsetResponse, {"offset": "9223372036854775808"})


def every_header() -> list[type[Header]]:
    return sorted(Header.__subclasses__(), key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", every_header())
def test_every_header_goes_through_text(cls: type[Header]) -> None:
    """Each field keeps its value, and no header has the tag of a record."""
    values: dict[str, str] = {}
    for field in msgspec.structs.fields(cls):
        kinds = str(field.type)
        values[field.encode_name] = "true" if "bool" in kinds else "7" if "int" in kinds else "text"

    header = from_ext(cls, values)

    assert to_ext(header) == values


def test_codes() -> None:
    assert RequestCode(310).name == "SEND_MESSAGE_V2"
    assert ResponseCode(2011).name == response_name(2011) == "CONTROLLER_MASTER_STILL_EXIST"
    assert response_name(-5) == "RESPONSE_-5"
    assert {c.value for c in RequestCode} >= set(range(1001, 1019)) | set(range(3001, 3011))
    assert {c.value for c in ResponseCode} >= set(range(2000, 2017))
