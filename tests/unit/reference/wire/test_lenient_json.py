"""fastjson's dialect and the JSON bodies."""

import pytest

from maxq.reference.records import LocalProtocolError, RemoteProtocolError
from maxq.reference.wire import bodies, lenient_json, route
from maxq.reference.wire.body import Body


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{0:"x",-1:2}', {"0": "x", "-1": 2}),
        ('{"0":"x"}', {"0": "x"}),
        ("{a.b$c : [1 , 2]}", {"a.b$c": [1, 2]}),
        (
            '{{"queueId":0,"brokerName":"b"}:{"maxOffset":7}}',
            {'{"brokerName":"b","queueId":0}': {"maxOffset": 7}},
        ),
        ("{[1,2]:3}", {"[1,2]": 3}),
        ('{"a":{"$ref":"$.b"}}', {"a": {"$ref": "$.b"}}),
        ('[0.0,1.5e3,true,false,null,"\\u00e9\\n/"]', [0.0, 1500.0, True, False, None, "é\n/"]),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        (' {\t"a"\r\n:\n{} , "b" : [ ] } ', {"a": {}, "b": []}),
        ('"\\ud83d\\ude00"', "\U0001f600"),
    ],
)
def test_read(text: str, want: object) -> None:
    assert lenient_json.loads(text.encode()) == want


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "{", "[", '"', "{a", "{a:", "{a:1", "{a:1,", "{a:1,}", "[1,]", "[1 2]", "{:1}",
        "{,}", "[,]", "1 2", "{}{}", "tru", "nan", "NaN", "Infinity", "01", "+1", "1.", ".5",
        "9223372036854775808", "-9223372036854775809", "9" * 5000, "1e999", '"\\x"', '"\\ud800"',
        '"a\nb"', "'a'", "{a:1]", "[1}", "[" * 100, '{"a":' * 100, "{" * 100, "\x00", "é",
    ],
)  # fmt: skip
def test_refused_json(text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        lenient_json.loads(text.encode())


def test_refused_bytes() -> None:
    with pytest.raises(RemoteProtocolError):
        lenient_json.loads(b'"\xff"')


def test_write() -> None:
    key = lenient_json.object_key({"topic": "T", "queueId": 0})
    assert key == '{"queueId":0,"topic":"T"}'
    raw = lenient_json.dumps({key: {0: 7}})
    assert raw == b'{"{\\"queueId\\":0,\\"topic\\":\\"T\\"}":{"0":7}}'
    with pytest.raises(LocalProtocolError):
        lenient_json.dumps("\ud800")
    with pytest.raises(LocalProtocolError):
        lenient_json.dumps(object())


ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911","1":"127.0.0.1:10921"},'
    b'"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],'
    b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,'
    b'"topicSysFlag":0,"writeQueueNums":4}]}'
)


def test_route_in_both_forms() -> None:
    """Strict, and with bare keys (docs/spec/remoting.md 3.1)."""
    got = route.TopicRouteData.from_json(ROUTE)
    legacy = ROUTE.replace(b'"0":', b"0:").replace(b'"1":', b"1:")

    assert got.broker_datas[0].broker_addrs == {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"}
    assert got.to_json() == ROUTE
    assert route.TopicRouteData.from_json(legacy) == got


def test_registration() -> None:
    """The body, and its crc (docs/spec/remoting.md 4.1)."""
    body = route.RegisterBrokerBody(
        topic_config_serialize_wrapper=route.TopicConfigSerializeWrapper(
            data_version=route.DataVersion(timestamp=1700000000000),
            mapping_data_version=route.DataVersion(timestamp=1700000000000),
            topic_config_table={
                "T1": route.TopicConfig(topic_name="T1", read_queue_nums=4, write_queue_nums=4)
            },
        )
    )
    raw = body.to_json()

    assert raw == (
        b'{"filterServerList":[],"topicConfigSerializeWrapper":{'
        b'"dataVersion":{"counter":0,"stateVersion":0,"timestamp":1700000000000},'
        b'"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":1700000000000},'
        b'"topicConfigTable":{"T1":{"attributes":{},"order":false,"perm":6,"readQueueNums":4,'
        b'"topicFilterType":"SINGLE_TAG","topicName":"T1","topicSysFlag":0,"writeQueueNums":4}},'
        b'"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
    )
    assert route.RegisterBrokerBody.from_json(raw) == body
    assert 0 <= route.body_crc32(raw) < 2**31
    assert body.topics["T1"].perm == 6
    newer = route.DataVersion(state_version=2)
    assert newer.order() > body.data_version.order()


def test_heartbeat() -> None:
    """docs/spec/remoting.md 2.9."""
    raw = (
        b'{"clientID":"10.0.0.9@4242#123","producerDataSet":[{"groupName":"pg"}],'
        b'"consumerDataSet":[{"groupName":"cg","consumeType":"CONSUME_PASSIVELY",'
        b'"messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
        b'"unitMode":false,"subscriptionDataSet":[{"topic":"T","subString":"TagA || TagB",'
        b'"tagsSet":["TagA","TagB"],"codeSet":[2598919,2598920],"subVersion":1700000000000,'
        b'"expressionType":"TAG","classFilterMode":false}]}],"heartbeatFingerprint":0,'
        b'"withoutSub":false}'
    )
    got = bodies.HeartbeatBody.from_json(raw)

    assert got.client_id == "10.0.0.9@4242#123"
    assert got.producer_data_set[0].group_name == "pg"
    assert got.consumer_data_set[0].subscription_data_set[0].code_set == (2598919, 2598920)
    assert bodies.HeartbeatBody.from_json(got.to_json()) == got


def test_controller_bodies() -> None:
    """docs/spec/remoting.md 8.3."""
    elected = bodies.ElectMasterBody.from_json(
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"ip:port",2:"ip:port"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster"},\n "syncStateSet":[1]}'
    )
    assert elected.broker_member_group is not None
    assert elected.broker_member_group.broker_addrs == {1: "ip:port", 2: "ip:port"}
    assert bodies.ElectMasterBody(sync_state_set=(1, 2)).to_json() == b'{"syncStateSet":[1,2]}'
    epochs = bodies.EpochEntryCache(
        broker_name="b", cluster_name="c", epoch_list=(bodies.EpochEntry(epoch=3),), max_offset=9
    )
    assert epochs.to_json() == (
        b'{"brokerId":0,"brokerName":"b","clusterName":"c","epochList":[{"endOffset":'
        b'9223372036854775807,"epoch":3,"startOffset":0}],"maxOffset":9}'
    )
    assert bodies.broker_names(b'["b1","b2"]') == ["b1", "b2"]
    assert bodies.broker_names(None) == []
    with pytest.raises(RemoteProtocolError):
        bodies.broker_names(b"[1]")


def test_queues_as_keys() -> None:
    queue = bodies.MessageQueue(broker_name="b1", queue_id=2, topic="T1")
    raw = b'{"offsetTable":{{"topic":"T1","brokerName":"b1","queueId":2}:{"maxOffset":7}}}'
    stats = bodies.TopicStats.from_json(raw)

    assert [bodies.MessageQueue.from_key(key) for key in stats.offset_table] == [queue]
    assert stats.offset_table[queue.key()].max_offset == 7
    assert bodies.TopicStats.from_json(stats.to_json()) == stats
    assert stats.to_json() == (  # as Java writes it: 5.5.0 reads no text in place of the object
        b'{"offsetTable":{{"brokerName":"b1","queueId":2,"topic":"T1"}:'
        b'{"lastUpdateTimestamp":0,"maxOffset":7,"minOffset":0}}}'
    )
    assert bodies.ConsumeStats().to_json() == b'{"consumeTps":0.0,"offsetTable":{}}'
    with pytest.raises(RemoteProtocolError):
        bodies.MessageQueue.from_key("\ud800")


def test_what_java_coerces() -> None:
    """Nulls keep the default, unknown members are ignored even with bare keys, text is a number."""
    raw = b'{"queueDatas":[{"brokerName":"b","perm":null,"readQueueNums":"4"}],"x":{1:{}},"y":1}'
    got = route.TopicRouteData.from_json(raw)

    assert got.queue_datas == (route.QueueData(broker_name="b", read_queue_nums=4),)


@pytest.mark.parametrize(
    "raw", [None, b"", b"[]", b"7", b'{"queueDatas":7}', b'{"queueDatas":[{}]}']
)
def test_refused_bodies(raw: bytes | None) -> None:
    with pytest.raises(RemoteProtocolError):
        route.TopicRouteData.from_json(raw)


def every_body() -> list[type[Body]]:
    return sorted(Body.__subclasses__(), key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", every_body())
def test_members_are_in_java_order(cls: type[Body]) -> None:
    """fastjson sorts the members by name, so records must declare them so."""
    names = list(cls.__struct_encode_fields__)
    assert names == sorted(names)


def test_what_a_controller_of_5_0_0_says_is_read_as_later_ones_say_it() -> None:
    text = (
        b'{"inSyncStateTable":{"b0":{"inSyncMembers":[{"address":"198.18.0.96:10911"}],'
        b'"masterAddress":"198.18.0.96:10911","masterEpoch":2,"syncStateSetEpoch":3}}}'
    )
    assert bodies.BrokerReplicasInfo.from_json(text).replicas_info_table == {}
    known = bodies.InSyncStateData.from_json(text).later()["b0"]
    assert (known.master_address, known.master_epoch) == ("198.18.0.96:10911", 2)
    assert [r.broker_address for r in known.in_sync_replicas] == ["198.18.0.96:10911"]
    assert known.sync_state_set_epoch == 3
