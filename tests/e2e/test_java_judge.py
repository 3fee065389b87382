"""RocketMQ's own clients and tools against a P-SAFE cluster of ours, one JVM for all of it.

Producers of every kind, push consumers (concurrent, and in order under our locks), pull and lite
pull consumers, second tries and dead letters; mqadmin's tables, compared with what is true; and a
master that is killed while consumers run. `java/Judge.java` does and reports, this module decides.
Transactions are in `test_java_transactions`.

Each test has topics and groups of its own and leaves the cluster with all replicas in sync. All
traffic stays on 127.0.0.1. Times are seconds.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import pytest
from java_jars import COMPILE_S, FETCH_S, compiled
from judge_world import CLUSTER, RECOVER_S, REPLICAS, SET, Cluster, Got, Judge, judged

QUICK = {
    "messageDelayLevel": "1s 2s " + "1s " * 16,
    "transactionTimeOut": 2000,
    "transactionCheckInterval": 1000,
}
QUEUES, TRIES_MAX = 4, 2
ARRIVE_S = 30
BEFORE, AFTER = 150, 250  # messages of the stream before the master is killed, and after

pytestmark = [pytest.mark.rocketmq, pytest.mark.timeout(FETCH_S + COMPILE_S + 180)]
World = tuple[Cluster, Judge]


@pytest.fixture(scope="module")
def world(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The cluster and the JVM, shared: each takes seconds to start."""
    folder = tmp_path_factory.mktemp("judge")
    class_path = compiled("Judge.java", release, folder)
    with judged(folder, class_path, release, **QUICK) as (cluster, judge):
        cluster.wait_in_sync()
        yield cluster, judge


# --- what mqadmin prints -------------------------------------------------------------------------


def pairs(lines: Sequence[str]) -> dict[str, str]:
    """Lines such as ``#MasterEpoch\\t3`` and ``putTps  : 0.0``."""
    found = (re.match(r"#?([\w.]+)(?:\s*: |\t)(.*)", line) for line in lines)
    return {m[1]: m[2].strip() for m in found if m}


def rows(lines: Sequence[str]) -> list[list[str]]:
    """The rows of a table, below its header."""
    start = next(i for i, line in enumerate(lines) if line.startswith("#"))
    return [re.split(r"\s{2,}", line.strip()) for line in lines[start + 1 :] if "  " in line]


def members(cluster: Cluster, judge: Judge) -> tuple[dict[str, str], dict[int, str]]:
    """getSyncStateSet: its head, and the address of each member by id."""
    lines = judge.admin("getSyncStateSet", "-a", cluster.controllers["c0"], "-b", SET)
    found = (
        re.match(r"InSyncReplica:.*brokerId=(\d+), brokerAddress='(.*)', alive=true", line)
        for line in lines
    )
    return pairs(lines), {int(m[1]): m[2] for m in found if m}


def make_topic(world: World, topic: str) -> None:
    """By updateTopic; what it prints is what was asked."""
    cluster, judge = world
    master = cluster.brokers[cluster.master]
    lines = judge.admin(
        "updateTopic", "-n", cluster.namesrv, "-c", CLUSTER, "-t", topic,
        "-r", QUEUES, "-w", QUEUES,
    )  # fmt: skip
    assert f"create topic to {master} success." in lines
    [config] = [line for line in lines if line.startswith("TopicConfig")]
    assert f"topicName={topic}, readQueueNums={QUEUES}, writeQueueNums={QUEUES}" in config


def make_group(world: World, group: str) -> None:
    cluster, judge = world
    lines = judge.admin("updateSubGroup", "-n", cluster.namesrv, "-c", CLUSTER, "-g", group)
    [config] = [line for line in lines if line.startswith("SubscriptionGroupConfig")]
    assert f"groupName={group}, consumeEnable=true" in config


# --- clients -------------------------------------------------------------------------------------


def send_all(judge: Judge, topic: str) -> list[str]:
    """Send by every kind of producer; returns the bodies."""
    bodies = []
    for kind, count in (("plain", 20), ("ordered", 21), ("async", 20), ("delayed", 2)):
        sent = judge.send(kind, topic, f"{kind}-", count)
        assert {s.status for s in sent} == {"SEND_OK"}
        bodies += [f"{kind}-{i}" for i in range(count)]
        assert sorted(s.body for s in sent) == sorted(bodies[-count:])
    [batch] = judge.send("batch", topic, "batch-", 5)
    assert (batch.status, batch.msg_id.count(",")) == ("SEND_OK", 4)
    judge.send("oneway", topic, "oneway-", 5)
    return bodies + [f"{kind}-{i}" for kind in ("batch", "oneway") for i in range(5)]


def wait_for(judge: Judge, consumer: str, bodies: Sequence[str], within_s: float) -> None:
    wanted = set(bodies)
    judge.until(
        lambda: wanted <= {m.body for m in judge.got(consumer)},
        f"all of {len(wanted)} messages for {consumer}", within_s,
    )  # fmt: skip


def tries(messages: Sequence[Got], body: str) -> list[int]:
    return [m.reconsume_times for m in messages if m.body == body]


def test_every_message_comes_once_per_group(world: World) -> None:
    """Also those that fail come again as often as they must, and no oftener."""
    _, judge = world
    make_topic(world, "once")
    for group in ("once-push", "once-order"):
        make_group(world, group)
    judge.tell("push", "once-push", "concurrent", "once-push", "once", TRIES_MAX)
    judge.tell("push", "once-order", "orderly", "once-order", "once", TRIES_MAX)
    judge.tell("poll", "once-pull", "once-pull", "once")
    bodies = send_all(judge, "once")
    failing = [f"fails!1-{i}" for i in range(3)]
    hopeless = [f"never!99-{i}" for i in range(2)]
    judge.send("plain", "once", "fails!1-", 3)
    judge.send("plain", "once", "never!99-", 2)
    consumers = ("once-push", "once-order", "once-pull")
    for consumer in consumers:
        wait_for(judge, consumer, [*bodies, *failing, *hopeless], ARRIVE_S)
    judge.tell("pull", "once-by-hand", "once-by-hand", "once")
    by_hand = Counter(m.body for m in judge.got("once-by-hand"))
    assert by_hand == Counter([*bodies, *failing, *hopeless])
    judge.tell("poll", "dead-push", "dead-letters", "%DLQ%once-push")
    judge.tell("poll", "dead-order", "dead-letters-2", "%DLQ%once-order")
    for dead in ("dead-push", "dead-order"):
        wait_for(judge, dead, hopeless, ARRIVE_S)

    pushed, ordered, pulled = (judge.got(c) for c in consumers)
    for messages in (pushed, ordered, pulled):
        assert Counter(m.body for m in messages if "!" not in m.body) == Counter(bodies)
    assert Counter(m.body for m in pulled) == Counter([*bodies, *failing, *hopeless])
    for messages in (pushed, ordered):
        assert all(tries(messages, body) == [0, 1] for body in failing)
        assert all(tries(messages, body) == [0, 1, 2] for body in hopeless)
    # A concurrent consumer gets a copy of another place, an ordered one the same record again.
    for body in (*failing, *hopeless):
        times = len(tries(pushed, body))
        assert len({m.offset_msg_id for m in pushed if m.body == body}) == times
        assert len({m.offset_msg_id for m in ordered if m.body == body}) == 1
        assert len({m.msg_id for m in pushed if m.body == body}) == 1
    for messages in (ordered, pulled):
        queues = defaultdict(list)
        for m in messages:
            queues[m.queue].append(m.offset)
        assert all(offsets == sorted(offsets) for offsets in queues.values())
        assert {q: sorted(set(o)) for q, o in queues.items()} == {
            q: list(range(max(o) + 1)) for q, o in queues.items()
        }
    for dead in ("dead-push", "dead-order"):
        assert sorted(m.body for m in judge.got(dead)) == hopeless
    judge.tell("stop", *consumers, "dead-push", "dead-order")


def test_members_of_a_group_share_its_queues(world: World) -> None:
    """A second member joins and takes its part at once, and leaves it to the first at its end:
    the broker tells both (40), long before they would look by themselves (20 s)."""
    cluster, judge = world
    make_topic(world, "shared")
    judge.tell("push", "first", "concurrent", "sharers", "shared", TRIES_MAX)
    rounds: list[list[str]] = []

    def got() -> Counter[str]:
        return Counter(m.body for m in (*judge.got("first"), *judge.got("second")))

    def send_round() -> None:
        rounds.append([f"r{len(rounds)}-{i}" for i in range(2 * QUEUES)])
        judge.send("plain", "shared", f"r{len(rounds) - 1}-", 2 * QUEUES)
        judge.until(lambda: set(rounds[-1]) <= got().keys(), "a round", ARRIVE_S)

    def takes_part() -> bool:
        send_round()
        return bool(judge.got("second"))

    send_round()
    judge.tell("push", "second", "concurrent", "sharers", "shared", TRIES_MAX)
    cluster.wait(takes_part, "the second to take part", 15)
    for _ in range(10):
        send_round()
    # At the change of hands what is handed out may come twice, but not for long.
    assert {got()[body] for sent in rounds[-5:] for body in sent} == {1}
    judge.tell("stop", "second")
    began = time.monotonic()
    send_round()
    assert time.monotonic() - began < 10
    judge.tell("stop", "first")


# --- tables --------------------------------------------------------------------------------------


def test_tables_of_topics_and_groups(world: World) -> None:
    """topicRoute, topicStatus and consumerProgress say where messages are and who is how far."""
    cluster, judge = world
    make_topic(world, "told")
    make_group(world, "told-readers")
    ends = dict.fromkeys(range(QUEUES), 0)
    for s in judge.send("plain", "told", "a-", 30):
        ends[s.queue] = max(ends[s.queue], s.offset + 1)
    assert sum(ends.values()) == 30

    route = "\n".join(judge.admin("topicRoute", "-n", cluster.namesrv, "-t", "told"))
    master = cluster.master
    for number, address in cluster.brokers.items():
        assert f'{0 if number == master else number}:"{address}"' in route
    assert f'"readQueueNums":{QUEUES}' in route

    def status() -> dict[int, tuple[int, int]]:
        table = rows(judge.admin("topicStatus", "-n", cluster.namesrv, "-t", "told"))
        assert {row[0] for row in table} == {SET}
        return {int(row[1]): (int(row[2]), int(row[3])) for row in table}

    assert status() == {queue: (0, end) for queue, end in ends.items()}

    judge.tell("push", "told", "concurrent", "told-readers", "told", TRIES_MAX)
    wait_for(judge, "told", [f"a-{i}" for i in range(30)], ARRIVE_S)
    check_consumer(world, "told-readers", "told")
    judge.tell("stop", "told")  # which commits
    assert progress(world, "told-readers", "told") == {q: (e, e, 0) for q, e in ends.items()}
    for s in judge.send("plain", "told", "b-", 10):
        ends[s.queue] = s.offset + 1
    behind = progress(world, "told-readers", "told")
    assert {q: end for q, (end, _, _) in behind.items()} == ends
    assert sum(diff for _, _, diff in behind.values()) == 10
    reset_offsets(world, "told-readers", "told", ends)


def reset_offsets(world: World, group: str, topic: str, ends: dict[int, int]) -> None:
    """resetOffsetByTime: of a group that is away by the tool itself, of one that is online by the
    broker, which tells the consumer."""
    cluster, judge = world
    order = ("resetOffsetByTime", "-n", cluster.namesrv, "-g", group, "-t", topic, "-s")
    judge.admin(*order, "0")
    assert progress(world, group, topic) == {q: (end, 0, end) for q, end in ends.items()}
    judge.tell("push", "reset", "concurrent", group, topic, TRIES_MAX)
    bodies = [*(f"a-{i}" for i in range(30)), *(f"b-{i}" for i in range(10))]
    wait_for(judge, "reset", bodies, ARRIVE_S)
    lines = judge.admin(*order, "0")
    assert {row[1]: row[2] for row in rows(lines)} == {str(queue): "0" for queue in ends}

    def twice() -> bool:
        times = Counter(m.body for m in judge.got("reset"))
        return all(times[body] == 2 for body in bodies)

    judge.until(twice, "everything once more", ARRIVE_S)
    judge.tell("stop", "reset")
    assert progress(world, group, topic) == {q: (end, end, 0) for q, end in ends.items()}


def check_consumer(world: World, group: str, topic: str) -> None:
    """consumerStatus asks the client itself; statsAll and queryMsgByKey look at its topic."""
    cluster, judge = world
    lines = judge.admin("consumerStatus", "-n", cluster.namesrv, "-g", group)
    assert "Same subscription in the same group of consumer" in lines
    assert "Rebalance OK" in lines
    assert [row[2] for row in rows(lines)] == [f"V{judge.release.replace('.', '_')}"]
    table = rows(judge.admin("statsAll", "-n", cluster.namesrv, "-t", topic))
    assert [row[:2] for row in table] == [[topic, group]]
    [row] = rows(judge.admin("queryMsgByKey", "-n", cluster.namesrv, "-t", topic, "-k", "a-7"))
    sent = {fields[0]: fields for fields in judge.facts("sent")}["a-7"]
    assert [row[0], row[1], row[2].split(" ")[0]] == [sent[2], sent[4], sent[5]]


def progress(world: World, group: str, topic: str) -> dict[int, tuple[int, int, int]]:
    """consumerProgress: broker offset, consumer offset and difference of each queue."""
    cluster, judge = world
    lines = judge.admin("consumerProgress", "-n", cluster.namesrv, "-g", group)
    table = [row for row in rows(lines) if row[0] == topic]
    total = sum(int(row[5]) for row in rows(lines) if len(row) > 5)
    assert f"Consume Diff Total: {total}" in lines
    return {int(row[2]): (int(row[3]), int(row[4]), int(row[5])) for row in table}


def test_tables_of_brokers_and_controllers(world: World) -> None:
    """Who is who, how long the log is, who has how much of it: all of them agree."""
    cluster, judge = world
    make_topic(world, "counted")
    before = pairs(status_of(world, cluster.master))
    last = judge.send("plain", "counted", "c-", 25)[-1]
    judge.tell("poll", "counted", "counters", "counted")
    wait_for(judge, "counted", [f"c-{i}" for i in range(25)], ARRIVE_S)
    judge.tell("stop", "counted")

    head, in_sync = members(cluster, judge)
    master = int(head["MasterBrokerId"])
    assert in_sync == cluster.brokers
    assert (head["brokerName"], head["SyncStateSetNums"]) == (SET, str(REPLICAS))
    assert head["MasterAddr"] == cluster.brokers[master]

    lines = judge.admin("getControllerMetaData", "-a", cluster.controllers["c1"])
    meta = pairs(lines)
    assert meta["ControllerGroup"] == CLUSTER
    assert cluster.controllers[meta["ControllerLeaderId"]] == meta["ControllerLeaderAddress"]
    peers = [line.partition("\t")[2] for line in lines if line.startswith("#Peer")]
    assert peers == [f"{name}:{address}" for name, address in cluster.controllers.items()]

    lines = judge.admin("getControllerConfig", "-a", cluster.controllers["c1"])
    config = dict(re.split(r"\s*=\s*", line, maxsplit=1) for line in lines if "=" in line)
    known = {
        key: config[key].strip() for key in ("controllerDLegerGroup", "controllerDLegerSelfId")
    }
    assert known == {"controllerDLegerGroup": CLUSTER, "controllerDLegerSelfId": "c1"}

    now = pairs(status_of(world, master))
    end = int(now["commitLogMaxOffset"])
    assert end > int(last.offset_msg_id[-16:], 16) > int(before["commitLogMaxOffset"])
    assert int(now["msgPutTotalTodayNow"]) - int(before["msgPutTotalTodayNow"]) == 25
    assert int(now["msgGetTotalTodayNow"]) - int(before["msgGetTotalTodayNow"]) >= 25
    assert (now["brokerActive"], now["maxq.role"]) == ("true", "master")
    check_epochs(world, master, end, int(head["MasterEpoch"]))
    check_ha(world, master, end)
    check_cluster_list(world, master)


def status_of(world: World, broker: int) -> list[str]:
    cluster, judge = world
    address = cluster.brokers[broker]
    return judge.admin("brokerStatus", "-n", cluster.namesrv, "-b", address)


def check_epochs(world: World, master: int, end: int, epoch: int) -> None:
    cluster, judge = world
    lines = judge.admin("getBrokerEpoch", "-n", cluster.namesrv, "-b", SET)
    told: dict[str, list[str]] = defaultdict(list)
    address = ""
    for line in lines:
        word, _, rest = line.partition("\t")
        address = rest if word == "#brokerAddr" else address
        if word == "#brokerId":
            number = next(n for n, a in cluster.brokers.items() if a == address)
            assert rest == str(0 if number == master else number)
        if line.startswith("#Epoch"):
            told[address].append(line)
    assert set(told) == set(cluster.brokers.values())
    for entries in told.values():
        assert f"EpochEntry{{epoch={epoch}, " in entries[-1]
        assert entries[-1].endswith(f"endOffset={end}}}")


def check_ha(world: World, master: int, end: int) -> None:
    cluster, judge = world
    address = cluster.brokers[master]
    lines = judge.admin("haStatus", "-n", cluster.namesrv, "-b", address)
    told = pairs(lines)
    assert (told["MasterAddr"], told["MasterCommitLogMaxOffset"]) == (address, str(end))
    assert (told["SlaveNum"], told["InSyncSlaveNum"]) == ("2", "2")
    slaves = [line.split() for line in lines if re.match(r"127\.0\.0\.1:", line)]
    assert [(s[1], s[2], s[4], s[5]) for s in slaves] == [(str(end), "0", "OK", str(end))] * 2


def check_cluster_list(world: World, master: int) -> None:
    cluster, judge = world
    listed = rows(judge.admin("clusterList", "-n", cluster.namesrv))
    assert {(row[0], row[1]) for row in listed} == {(CLUSTER, SET)}
    assert {(int(row[2]), row[3], row[-1]) for row in listed} == {
        (0 if n == master else n, a, "true" if n == master else "false")
        for n, a in cluster.brokers.items()
    }
    sums = rows(judge.admin("clusterList", "-n", cluster.namesrv, "-m"))
    assert sorted((int(row[4]) >= 25, int(row[5]) >= 25) for row in sums)[-1] == (True, True)


def test_an_operator_elects_a_master(world: World) -> None:
    """electMaster: the controllers, the brokers and the name server agree on the new one."""
    cluster, judge = world
    make_topic(world, "elected")
    cluster.wait_in_sync()
    head, _ = members(cluster, judge)
    successor = next(n for n in cluster.brokers if n != int(head["MasterBrokerId"]))
    lines = judge.admin(
        "electMaster", "-a", cluster.controllers["c0"], "-b", successor, "-bn", SET, "-c", CLUSTER
    )
    assert pairs(lines)["BrokerMasterAddr"] == cluster.brokers[successor]
    told, _ = members(cluster, judge)
    assert told["MasterBrokerId"] == str(successor)
    assert int(told["MasterEpoch"]) == int(head["MasterEpoch"]) + 1
    cluster.wait_in_sync()
    address = f'0:"{cluster.brokers[successor]}"'

    def routed() -> bool:
        lines = judge.admin("topicRoute", "-n", cluster.namesrv, "-t", "elected")
        return address in "".join(lines)

    cluster.wait(routed, "the route to name the new master", RECOVER_S)


# --- fail-over -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kills",
    [1, pytest.param(5, marks=[pytest.mark.campaign, pytest.mark.timeout(600)])],
)
def test_masters_die_while_consumers_run(world: World, kills: int) -> None:
    """S6 for Java: what was acknowledged reaches every group; what comes twice has a reason."""
    cluster, judge = world
    topic = f"dying-{kills}"
    make_topic(world, topic)
    cluster.wait_in_sync()
    # Slaves copy the tables every 12 s; a master whose slaves do not know the topic takes it along.
    cluster.wait(lambda: cluster.know_topic(topic), "the topic at all replicas", RECOVER_S)
    consumers = {f"{topic}-push": "concurrent", f"{topic}-order": "orderly"}
    for name, mode in consumers.items():
        judge.tell("push", name, mode, name, topic, 16)
    begin = len(judge.facts("sent"))

    def acked() -> list[str]:
        return [fields[0] for fields in judge.facts("sent")[begin:]]

    def at_work() -> bool:
        wanted = len(acked()) - BEFORE // 2
        return wanted > 0 and all(len(judge.got(name)) >= wanted for name in consumers)

    judge.tell("stream", "dying", topic, "s-")
    for _ in range(kills):
        judge.until(at_work, "consumers that keep up", ARRIVE_S)
        victim, reached = cluster.master, len(acked())
        cluster.kill(victim)
        judge.until(lambda n=reached: len(acked()) >= n + AFTER, "more", RECOVER_S)  # type: ignore[misc]
        cluster.start_broker(victim)
        cluster.wait_in_sync()
    judge.tell("stop", "dying")
    repeated = {fields[0] for fields in judge.facts("again")}
    for name in consumers:
        wait_for(judge, name, acked(), RECOVER_S)
        failing = [body for body in acked() if "!1" in body]
        judge.until(
            lambda c=name, f=failing: all(1 in tries(judge.got(c), b) for b in f),  # type: ignore[misc]
            f"second tries for {name}", ARRIVE_S,
        )  # fmt: skip
        explain(judge.got(name), repeated)
    in_order(judge.got(f"{topic}-order"))
    judge.tell("stop", *consumers)


def explain(messages: Sequence[Got], repeated: set[str]) -> None:
    """Every delivery beyond the first has a reason; they are counted."""
    places: dict[str, list[Got]] = defaultdict(list)
    reasons: Counter[str] = Counter()
    for m in messages:
        known = places[m.body]
        before = {(k.offset_msg_id, k.reconsume_times) for k in known}
        if (m.offset_msg_id, m.reconsume_times) in before:
            reasons["its offset was not yet known to the new master"] += 1
        elif m.reconsume_times and not any(k.reconsume_times for k in known):
            assert "!1" in m.body, f"{m} did not fail: {known}"
            reasons["a second try"] += 1
        elif m.reconsume_times:
            reasons["a second try that the new master delivered once more"] += 1
        elif known:
            assert m.body in repeated, f"{m} besides {known}: stored twice by nobody"
            reasons["the producer had no answer and sent again"] += 1
        known.append(m)
    print(f"{len(messages)} deliveries of {len(places)} messages: {dict(reasons)}")


def in_order(messages: Sequence[Got]) -> None:
    """First deliveries of each key come in the order of their sends."""
    seen: dict[int, list[int]] = defaultdict(list)
    known: set[str] = set()
    for m in messages:
        if m.body not in known:
            known.add(m.body)
            number = int(re.findall(r"\d+", m.body)[0])
            seen[number % 4].append(number)
    assert all(numbers == sorted(numbers) for numbers in seen.values())
