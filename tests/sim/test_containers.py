"""A broker container in the simulator: who comes and goes, and that no neighbour notices."""

import asyncio
import contextlib
import errno
from collections.abc import Iterator

import pytest
from container_cluster import (
    CONTAINER,
    FAST,
    PORTS,
    Mute,
    Traffic,
    add,
    address,
    both_listed,
    furnish,
    listed,
    path_of,
    ports_of,
    refused,
    remove,
    said,
    settings,
    up,
)
from reference_world import (
    CONTROLLER_CONF,
    JOINED,
    NAMESRV,
    SECOND_NS,
    Cluster,
    Process,
    bodies,
)

from maxq.reference.broker.store.store import Store
from maxq.reference.container.server import ADD_S
from maxq.reference.rpc import Pool
from maxq.reference.wire import node_headers as headers
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A name server, and the files of three brokers on machine b1."""
    with Cluster() as made:
        furnish(made)
        yield made


def test_a_container_starts_the_brokers_of_its_file(cluster: Cluster) -> None:
    """Each at its own ports, and the container at two of its own, where it has four requests."""
    up(cluster, "x", "y")
    both_listed(cluster, "x", "y")
    for name in ("x", "y"):
        told = cluster.info(address(name))
        assert (told["maxq.role"], told["brokerActive"]) == ("master", "true")
        assert cluster.send(address(name), name.encode()).code == ResponseCode.SUCCESS
        assert bodies(cluster.pull(address(name))) == [name.encode()]
    for at in (CONTAINER, FAST):
        assert said(cluster.ask(at, 28)) == (3, " request type 28 not supported")
        config = cluster.ask(at, RequestCode.GET_BROKER_CONFIG)
        assert b"brokerConfigPaths=/etc/x.conf:/etc/y.conf\n" in (config.body or b"")


def test_a_container_without_brokers_waits_for_some(cluster: Cluster) -> None:
    up(cluster)
    assert listed(cluster) == set()
    assert said(add(cluster, path_of("x"), FAST)) == (0, "")
    assert listed(cluster) == {"x"}


def test_who_is_added_is_listed_and_who_is_removed_is_not(cluster: Cluster) -> None:
    """B1 to B4: when the answer is there, so is what it says; and neighbours notice nothing."""
    up(cluster, "x")
    both_listed(cluster, "x")
    traffic = Traffic(cluster, "x")
    for _ in range(2):
        assert said(add(cluster, path_of("y"))) == (0, "")
        assert listed(cluster) == {"x", "y"}
        again = "c_y_0 has already been added to current broker container"
        assert said(add(cluster, path_of("y"))) == (1, again)
        assert cluster.info(address("y"))["maxq.role"] == "master"
        assert said(remove(cluster, "y")) == (0, "")
        assert listed(cluster) == {"x"}
        assert refused(cluster, *ports_of("y"))
    assert said(remove(cluster, "y")) == said(remove(cluster, "x", broker_id=1))
    assert said(remove(cluster, "y")) == (211, "Broker not exist")
    cluster.until(traffic.all_went_well)


def test_a_removed_store_comes_back_as_it_was(cluster: Cluster) -> None:
    """No request deletes data; here the broker comes back at another port."""
    up(cluster, "x", "y")
    both_listed(cluster, "x", "y")
    assert cluster.send(address("y"), b"kept").code == ResponseCode.SUCCESS
    assert remove(cluster, "y").code == 0
    cluster.write("b1", "/etc/moved.conf", settings("y", listenPort=str(PORTS["z"])))
    assert said(add(cluster, "/etc/moved.conf")) == (0, "")
    assert bodies(cluster.pull(address("z"))) == [b"kept"]


def test_a_restart_brings_back_what_the_file_lists(cluster: Cluster) -> None:
    """B7, as RocketMQ: who was added is gone, who was removed is back."""
    process = up(cluster, "x", "y")
    assert (add(cluster, path_of("z")).code, remove(cluster, "y").code) == (0, 0)
    both_listed(cluster, "x", "z")
    process.loop.kill()
    up(cluster, "x", "y")
    both_listed(cluster, "x", "y")


def test_an_addition_that_takes_long_goes_on(cluster: Cluster) -> None:
    """It is answered before mqadmin gives up, and a second one says that it is there."""
    up(cluster, namesrvAddr="198.18.0.77:9876")
    begun = cluster.now_ns
    code, why = said(add(cluster, path_of("x")))
    assert (code, why) == (1, f"c_x_0 has not registered within {ADD_S:g} s; it goes on")
    assert cluster.now_ns - begun < (ADD_S + 1) * SECOND_NS
    assert "already been added" in said(add(cluster, path_of("x")))[1]
    body = f"namesrvAddr={NAMESRV}".encode()
    assert said(cluster.ask(CONTAINER, RequestCode.UPDATE_BROKER_CONFIG, body=body)) == (0, "")
    both_listed(cluster, "x")
    assert said(remove(cluster, "x")) == (0, "")


def test_a_master_that_waits_for_its_group_is_added(cluster: Cluster) -> None:
    """Pre-online may take as long as its group does, so nobody waits for it."""
    cluster.write("b1", path_of("x"), settings("x", **IN_GROUP))
    up(cluster)
    begun = cluster.now_ns
    assert said(add(cluster, path_of("x"))) == (0, "")
    assert cluster.now_ns - begun < SECOND_NS
    both_listed(cluster, "x")


IN_GROUP = {"enableSlaveActingMaster": "true", "totalReplicas": "2"}


def test_master_and_slave_of_one_set_may_be_together(cluster: Cluster) -> None:
    """Each with an identity, ports and a store of its own: the slave copies from its neighbour."""
    slave = {"brokerRole": "SLAVE", "brokerId": "1", "listenPort": str(PORTS["z"]),
             "storePathRootDir": "/data/z", "totalReplicas": "2"}  # fmt: skip
    cluster.write("b1", path_of("z"), settings("x", **slave))
    up(cluster, "x", "z")
    assert cluster.send(address("x"), b"copied").code == ResponseCode.SUCCESS
    end = int(cluster.info(address("x"))["commitLogMaxOffset"])
    cluster.until(lambda: int(cluster.info(address("z"))["commitLogMaxOffset"]) == end)
    assert said(remove(cluster, "x", broker_id=1)) == (0, "")
    assert cluster.info(address("x"))["maxq.role"] == "master"


def test_controllers_may_rule_a_broker_of_a_container(cluster: Cluster) -> None:
    """Its file has no id that counts: it is known as -1, and by the id that controllers gave it."""
    cluster.up("controller", "controller", CONTROLLER_CONF)
    ruled = {**JOINED, "listenPort": str(PORTS["y"]), "storePathRootDir": "/data/y"}
    cluster.write("b1", path_of("y"), {**ruled, "brokerName": "y", "brokerId": "5"})
    up(cluster, "x")
    assert said(add(cluster, path_of("y"))) == (0, "")
    assert listed(cluster) == {"x", "y"}
    assert "c_y_-1 has already been added" in said(add(cluster, path_of("y")))[1]
    assert cluster.send(address("y"), b"m").code == ResponseCode.SUCCESS
    given = int(cluster.info(address("y"))["maxq.brokerId"])
    assert (given, said(remove(cluster, "y", broker_id=5))) == (1, (211, "Broker not exist"))
    assert said(remove(cluster, "y", broker_id=given)) == (0, "")
    assert said(add(cluster, path_of("y"))) == (0, "")
    assert bodies(cluster.pull(address("y"))) == [b"m"]
    assert said(remove(cluster, "y", broker_id=-1)) == (0, "")
    assert listed(cluster) == {"x"}


INIT = "Failed to initialize master broker c_x_0"
CLASHES = {
    "main": (
        {"listenPort": "10921"},
        f"{INIT}: The port 10921 already",
    ),
    "fast": (
        {"listenPort": "10923"},
        f"{INIT}: The port 10921 already",
    ),
    "HA": ({"listenPort": "10920"}, "start broker failed: The port 10921 already in use by c_y_0"),
    "the container's": ({"listenPort": "10811"}, f"{INIT}: The port 10811 already in use"),
    "store": (
        {"storePathRootDir": "/data/y"},
        "start broker failed: the store /data/y is that",
    ),
    "slave": ({"brokerRole": "SLAVE"}, "slave broker id must be > 0: /etc/x.conf:7: brokerId=0"),
    "replicas": ({"inSyncReplicas": "2"}, "invalid replicas number: /etc/x.conf: "),
    "DLedger": ({"enableDLegerCommitLog": "true"}, "/etc/x.conf:9: enableDLegerCommitLog=true: "),
    "duplication": (
        {"duplicationEnable": "true"},
        "Can not add broker to container when duplicationEnable is true currently: /etc/x.conf:9: ",
    ),
    "typing error": ({"brokerNme": "x"}, "/etc/x.conf:9: unknown key brokerNme; did you mean"),
}


@pytest.mark.parametrize("clash", CLASHES)
def test_an_addition_that_fails_leaves_nothing_behind(cluster: Cluster, clash: str) -> None:
    """B5, B6: a corrected one at the same ports succeeds, and no neighbour notices either."""
    wrong, why = CLASHES[clash]
    up(cluster, "y")
    both_listed(cluster, "y")
    traffic = Traffic(cluster, "y")
    cluster.write("b1", path_of("x"), settings("x", **wrong))
    code, remark = said(add(cluster, path_of("x")))
    assert (code, remark[: len(why)]) == (1, why)
    cluster.write("b1", path_of("x"), settings("x"))
    assert said(add(cluster, path_of("x"))) == (0, "")
    assert listed(cluster) == {"x", "y"}
    cluster.until(traffic.all_went_well)


PATHS = {
    "": "addBroker config path is empty",
    "etc/x.conf": "addBroker properties empty: 'etc/x.conf': not an absolute path",
    "/etc/../etc/x.conf": "addBroker properties empty: '/etc/../etc/x.conf': a path with .. in it",
    "/etc/\0": "addBroker properties empty: '/etc/\\x00': a path with control characters",
    "/etc/none": "addBroker properties empty: /etc/none: no such file: /etc/none",
    "/etc": "addBroker properties empty: /etc: a folder: /etc",
    "/empty": "addBroker properties empty: /empty: there is no key in it",
    "/binary": "/binary: properties is not UTF-8: ",
}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_leads_to_no_settings_is_refused(cluster: Cluster, path: str) -> None:
    up(cluster, "y")
    cluster.machines["b1"].disk.install("/empty", b"# nothing\n")
    cluster.machines["b1"].disk.install("/binary", b"\xff\xfe")
    code, remark = said(add(cluster, path))
    assert (code, remark[: len(PATHS[path])]) == (1, PATHS[path])


@pytest.mark.parametrize(
    ("code", "ext", "answer"),
    [
        (902, {}, "addBroker config path is empty"),
        (903, {}, "BadHeader: bad RemoveBrokerRequest: "),
        (903, {"brokerClusterName": "c", "brokerName": "y", "brokerId": "zero"}, "BadHeader: "),
        (903, {"brokerClusterName": "c", "brokerName": "y", "brokerId": "9" * 30}, "BadHeader: "),
    ],
)
def test_a_request_without_what_it_needs_changes_nothing(
    cluster: Cluster, code: int, ext: dict[str, str], answer: str
) -> None:
    up(cluster, "y")
    found = cluster.ask(CONTAINER, code, ext)
    assert (found.code, (found.remark or "")[: len(answer)]) == (1, answer)
    assert cluster.info(address("y"))["maxq.role"] == "master"


def test_what_comes_while_another_request_is_carried_out_waits(cluster: Cluster) -> None:
    """One at a time: an addition during the removal of the same broker comes after it."""
    up(cluster, "x", "y")
    both_listed(cluster, "x", "y")
    header = headers.RemoveBrokerRequest(broker_cluster_name="c", broker_name="y", broker_id=0)
    frames = (
        Frame(code=RequestCode.REMOVE_BROKER, ext=to_ext(header)),
        Frame(code=RequestCode.ADD_BROKER, ext={"configPath": path_of("y")}),
        Frame(code=RequestCode.REMOVE_BROKER, ext=to_ext(header)),
        Frame(code=RequestCode.ADD_BROKER, ext={"configPath": path_of("y")}),
    )

    async def main(pool: Pool) -> list[int]:
        calls = (pool.call(CONTAINER, frame, timeout_s=90) for frame in frames)
        return [answer.code for answer in await asyncio.gather(*calls)]

    assert cluster.client(main) == [0, 0, 0, 0]
    assert listed(cluster) == {"x", "y"}


def test_a_call_that_times_out_unlists_no_neighbour(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B5: the connection of that call closes with it, and with a connection a name server drops all
    that have registered over it. So no two brokers share one."""
    mute = Mute(cluster, monkeypatch)
    up(cluster, "x", "y", "z", namesrvAddr=mute.address)
    cluster.until(lambda: listed(cluster, mute.address) == {"x", "y", "z"})
    mute.on = True
    cluster.until(lambda: mute.lost() == 1, seconds=60)  # at x's next one, after 30 s
    assert listed(cluster, mute.address) == {"y", "z"}
    cluster.sleep(10)
    assert (listed(cluster, mute.address), mute.lost()) == ({"y", "z"}, 1)


def test_two_that_share_a_connection_are_dropped_together(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the test before would find otherwise, and RocketMQ's container does: here a client."""
    mute = Mute(cluster, monkeypatch)
    mute.on = True

    def registration(name: str) -> Frame:
        header = headers.RegisterBrokerRequest(
            broker_name=name, broker_addr=address(name), cluster_name="c", ha_server_addr="",
            broker_id=0, body_crc32=0,
        )  # fmt: skip
        return Frame(code=RequestCode.REGISTER_BROKER, ext=to_ext(header))

    async def main(pool: Pool) -> None:
        assert (await pool.call(mute.address, registration("y"), timeout_s=3)).code == 0
        with pytest.raises(TimeoutError):
            await pool.call(mute.address, registration("x"), timeout_s=3)

    cluster.client(main)
    cluster.until(lambda: mute.lost() == 1)
    assert listed(cluster, mute.address) == set()


def test_a_broker_whose_store_fails_ends_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B14: it is unlisted, its ports are free, and its neighbour answers all along."""
    up(cluster, "x", "y")
    both_listed(cluster, "x", "y")
    traffic = Traffic(cluster, "y")
    mark, broken = Store.mark, list[str]()

    async def failing(self: Store) -> None:
        if self._root == "/data/x" and not broken:
            broken.append(self._root)
            raise OSError(errno.EIO, "the disk failed")
        await mark(self)

    monkeypatch.setattr(Store, "mark", failing)
    both_listed(cluster, "y")
    cluster.until(lambda: cluster.logged("b1", "container.broker.failed") == 1)
    assert refused(cluster, *ports_of("x"))
    assert said(remove(cluster, "x")) == (211, "Broker not exist")
    assert said(add(cluster, path_of("x"))) == (0, "")
    assert listed(cluster) == {"x", "y"}
    cluster.until(traffic.all_went_well)


def test_brokers_of_one_process_draw_and_log_apart(cluster: Cluster) -> None:
    """Were the name not in it, two brokers would draw the same for the same attempt."""
    process = up(cluster, "x", "y")
    x, y = (inner.broker._host for inner in process.node.brokers)
    assert x.rng("lock/1").random() != y.rng("lock/1").random()
    recovered = [e for e in cluster.machines["b1"].log if e[1] == "broker.recovered"]
    assert [fields["broker"] for _, _, fields in recovered] == ["c_x_0", "c_y_0"]


def test_a_listed_broker_that_fails_ends_the_container(cluster: Cluster) -> None:
    cluster.machines["b1"].disk.install("/data/y/config/topics.json", b"{torn")
    with pytest.raises(BaseExceptionGroup) as caught:
        up(cluster, "x", "y")
    assert "/etc/y.conf: CorruptTable: " in str(caught.value.exceptions[0])


def adding(cluster: Cluster) -> tuple[Process, "asyncio.Task[None]"]:
    """A container without brokers, and a client that is about to add x."""
    process = up(cluster)
    loop, _ = cluster.world.process(cluster.machines["client"])

    async def ask() -> None:
        async with asyncio.TaskGroup() as group:
            pool = Pool(group)
            frame = Frame(code=RequestCode.ADD_BROKER, ext={"configPath": path_of("x")})
            with contextlib.suppress(OSError):
                await pool.call(CONTAINER, frame, timeout_s=60)
            pool.close()

    return process, loop.create_task(ask())


@pytest.fixture
def made_after(cluster: Cluster) -> int:
    """After how many steps of the world an addition has made the broker's task."""
    process, _ = adding(cluster)
    steps = 0
    while not process.node.brokers:
        cluster.steps(1)
        steps += 1
    return steps


def test_a_stop_during_an_addition_ends_all(made_after: int) -> None:
    """Also where it meets the broker's task before that has taken its first step: it never does."""
    for steps in (made_after + around for around in range(-5, 60)):
        with Cluster() as cluster:
            furnish(cluster)
            process, asking = adding(cluster)
            cluster.steps(steps)
            process.task.cancel()
            cluster.until(lambda: process.task.done() and asking.done())  # noqa: B023
            assert process.node.brokers == ()
            assert refused(cluster, 10811, *ports_of("x"))


def test_a_stop_ends_every_broker(cluster: Cluster) -> None:
    process = up(cluster, "x", "y")
    both_listed(cluster, "x", "y")
    process.task.cancel()
    cluster.until(process.task.done)
    assert listed(cluster) == set()
    assert refused(cluster, 10811, 10809, *PORTS.values())
    assert cluster.logged("b1", "container.broker.ended") == 2
