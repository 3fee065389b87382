"""A master without controllers on its way back: what it takes, what it waits for, what it refuses
meanwhile."""

from collections.abc import Iterator

import pytest
from pair_world import MASTER_CONF, NAMESRV_ACTING, SLAVE, THIRD, Group
from reference_world import BROKER, bodies, pull_header

from maxq.harness.contracts.environment import Cut
from maxq.reference.wire.bodies import LockRequest, LockResponse, MessageQueue
from maxq.reference.wire.codes import RequestCode
from maxq.reference.wire.frame import Frame
from maxq.reference.wire.headers import to_ext

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
ELSEWHERE = "198.18.0.49:10911"
EVICTION = 4.5  # seconds: one and a half brokerNotActiveTimeoutMillis


@pytest.fixture
def group() -> Iterator[Group]:
    made = Group(old=False, push=False)
    with made:
        made.know_group(BROKER)
        made.sleep(13)  # until slaves have copied that
        yield made


def cut(group: Group, *pairs: tuple[str, str]) -> None:
    """Nothing passes between these machines, in either direction; and what was cut is healed."""
    rules: dict[str, list[Cut]] = {name: [] for name in group.machines}
    for one, other in pairs:
        for here, there in ((one, other), (other, one)):
            address = group.machines[there].address
            rules[here].append(Cut(there, address))
    for name, of_one in rules.items():
        group.machines[name].stack.cut(of_one)


def kill(group: Group, name: str) -> None:
    group.brokers[name].loop.kill()


def isolated(group: Group, name: str) -> bool:
    return bool(group.brokers[name].node.membership.isolated)


def test_what_was_committed_at_the_acting_slave_is_there_when_the_master_is_listed(
    group: Group,
) -> None:
    """P1, P4: R1, and R2 with the third broker, whose offsets are the old ones."""
    assert group.commit(BROKER, 1) == 0
    group.sleep(13)
    kill(group, "b1")
    group.until(lambda: group.acting() == ["b2"], seconds=3)
    assert group.commit(SLAVE, 6) == 0
    group.start_broker("b1", 0)
    assert 0 not in group.listed()
    group.until(lambda: not isolated(group, "b1"), seconds=10)
    assert group.committed(BROKER) == 6
    assert group.listed()[0] == BROKER
    group.until(lambda: group.acting() == [], seconds=3)
    group.sleep(13)
    assert [group.committed(a) for a in (BROKER, SLAVE, THIRD)] == [6, 6, 6]


def test_what_was_on_the_masters_disk_does_not_go_back(group: Group) -> None:
    """P5: R6, one key later here, another one later there."""
    group.know_group(BROKER, group="h")
    group.sleep(13)
    assert group.commit(BROKER, 5) == 0
    group.sleep(6)  # it is on the disk, and no slave has it yet
    kill(group, "b1")
    group.until(lambda: group.acting() == ["b2"], seconds=3)
    assert group.commit(SLAVE, 2, group="h") == 0
    group.start_broker("b1", 0)
    group.until(lambda: not isolated(group, "b1"), seconds=10)
    assert (group.committed(BROKER), group.committed(BROKER, group="h")) == (5, 2)


def test_a_master_that_name_servers_have_dropped_hears_its_group_first(group: Group) -> None:
    """R4: it never restarted, and took commits as well."""
    cut(group, ("b1", "namesrv"))
    group.until(lambda: group.acting() == ["b2"], seconds=8)
    assert group.commit(BROKER, 3) == 0
    assert group.commit(SLAVE, 7) == 0
    assert group.send(BROKER, b"x").code == 0, "nobody tells it"
    cut(group)
    group.until(lambda: isolated(group, "b1"), seconds=40)
    group.until(lambda: not isolated(group, "b1"), seconds=10)
    assert group.committed(BROKER) == 7
    group.until(lambda: group.acting() == [], seconds=3)
    group.sleep(13)
    assert [group.committed(a) for a in (BROKER, SLAVE)] == [7, 7]
    assert group.send(BROKER, b"y").code == 0


def test_so_does_one_that_was_paused_and_wakes_at_another_address(group: Group) -> None:
    """It registers its new address over a new connection, before the old one has ended."""
    assert group.commit(BROKER, 3) == 0
    loop = group.brokers["b1"].loop
    loop.pause()
    group.machines["b1"].stack.set_address("198.18.0.49")  # so no end of a connection comes
    group.until(lambda: group.acting() == ["b2"], seconds=8)
    assert group.commit(SLAVE, 7) == 0
    loop.resume()
    group.until(lambda: group.listed().get(0) == ELSEWHERE, seconds=40)
    assert group.committed(ELSEWHERE) == 7
    group.until(lambda: group.acting() == [], seconds=5)


def test_a_slave_takes_no_commits_once_its_master_has_its_tables(group: Group) -> None:
    kill(group, "b1")
    group.until(lambda: group.acting() == ["b2"], seconds=3)
    kill(group, "b3")
    group.until(lambda: 2 not in group.listed(), seconds=3)
    group.start_broker("b1", 0)
    group.until(lambda: not isolated(group, "b1"), seconds=10)
    assert group.acting() == ["b2"], "it has not heard yet"
    assert group.commit(SLAVE, 9) == 1
    group.until(lambda: group.acting() == [], seconds=3)


def test_who_is_isolated_refuses_what_would_go_back(group: Group) -> None:
    """It is not listed, and 28 says who holds it back (P1)."""
    assert group.send(BROKER, b"x").code == 0
    kill(group, "b1")
    group.until(lambda: group.acting() == ["b2"], seconds=3)
    cut(group, ("b1", "b3"))
    group.start_broker("b1", 0)
    group.sleep(5)
    assert group.listed().keys() == {1, 2}
    told = group.info(BROKER)
    assert (told["maxq.isolated"], told["maxq.role"]) == ("true", "fenced")
    assert told["maxq.isolatedBy"] == f"{THIRD} (id 2)"
    codes = {
        RequestCode.SEND_MESSAGE_V2: 14, RequestCode.SEND_BATCH_MESSAGE: 14,
        RequestCode.CONSUMER_SEND_MSG_BACK: 1, RequestCode.END_TRANSACTION: 11,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: 1, RequestCode.GET_ALL_CONSUMER_OFFSET: 1,
        RequestCode.GET_ALL_DELAY_OFFSET: 1,
    }  # fmt: skip
    assert {c: group.ask(BROKER, c).code for c in codes} == codes
    assert group.send(BROKER, b"y").code == 14
    assert (group.commit(BROKER, 1), group.committed(BROKER)) == (1, None)
    lock = LockRequest(
        consumer_group="g", client_id="c",
        mq_set=(MessageQueue(topic="T", broker_name="b", queue_id=0),),
    )  # fmt: skip
    granted = group.ask(BROKER, RequestCode.LOCK_BATCH_MQ, body=lock.to_json())
    assert (granted.code, LockResponse.from_json(granted.body).lock_ok_mq_set) == (0, ())
    assert bodies(group.pull(BROKER)) == [b"x"]


def test_a_listed_member_out_of_reach_is_left_out_after_two_evictions(group: Group) -> None:
    """P3: RocketMQ's master never comes online."""
    kill(group, "b1")
    group.until(lambda: group.acting() == ["b2"], seconds=3)
    cut(group, ("b1", "b3"))
    group.start_broker("b1", 0)
    group.sleep(2 * EVICTION - 1)
    assert isolated(group, "b1")
    group.until(lambda: not isolated(group, "b1"), seconds=EVICTION + 8)
    assert group.logged("b1", "broker.preonline.left-out") == 1
    assert group.listed()[0] == BROKER


def test_an_empty_group_is_waited_for_before_it_is_believed(group: Group) -> None:
    """R3: the name server has restarted, and lists nobody yet."""
    for name in ("b1", "b2", "b3"):
        kill(group, name)
    group.until(lambda: not group.listed(), seconds=3)
    group.start_broker("b1", 0)
    group.sleep(EVICTION - 1)
    assert isolated(group, "b1")
    group.until(lambda: not isolated(group, "b1"), seconds=3)
    assert group.send(BROKER, b"x").code == 1, "listed; alone it takes nothing"


def test_nor_by_one_that_was_paused_while_a_slave_acted(group: Group) -> None:
    """The slaves were paused after that, and name servers have dropped them too."""
    slaves = [group.brokers[name].loop for name in ("b2", "b3")]
    group.brokers["b1"].loop.pause()
    group.until(lambda: group.acting() == ["b2"], seconds=8)
    assert group.commit(SLAVE, 7) == 0
    for loop in slaves:
        loop.pause()
    group.until(lambda: not group.listed(), seconds=8)
    group.brokers["b1"].loop.resume()
    group.until(lambda: isolated(group, "b1"), seconds=5)
    for loop in slaves:
        loop.resume()
    group.until(lambda: group.listed().get(0) == BROKER, seconds=20)
    assert group.committed(BROKER) == 7


def test_a_master_that_was_paused_on_its_way_back_has_waited_for_nobody(group: Group) -> None:
    """P4: a member that was announced to gives what it took meanwhile; it is not left out."""
    kill(group, "b1")
    group.until(lambda: group.acting() == ["b2"], seconds=3)
    cut(group, ("b1", "b2"), ("b1", "b3"))
    group.start_broker("b1", 0)
    group.sleep(1)
    loop = group.brokers["b1"].loop
    loop.pause()
    assert group.commit(SLAVE, 7) == 0
    group.sleep(4 * EVICTION)
    cut(group)
    loop.resume()
    group.until(lambda: not isolated(group, "b1"), seconds=15)
    assert group.logged("b1", "broker.preonline.anew") == 1
    assert group.logged("b1", "broker.preonline.left-out") == 0
    assert group.committed(BROKER) == 7


def test_all_that_start_at_once_find_each_other(group: Group) -> None:
    for name in ("b1", "b2", "b3"):
        kill(group, name)
    for number, name in enumerate(("b1", "b2", "b3")):
        group.start_broker(name, number)
    group.until(lambda: group.listed().keys() == {0, 1, 2}, seconds=20)
    group.until(lambda: group.acting() == [], seconds=5)
    group.until(lambda: group.send(BROKER, b"x").code == 0, seconds=20)


def test_a_slave_is_listed_only_once_it_copies(group: Group) -> None:
    """P8: where its master is listed."""
    kill(group, "b2")
    group.until(lambda: 1 not in group.listed(), seconds=3)
    cut(group, ("b1", "b2"))
    group.start_broker("b2", 1)
    group.sleep(2 * EVICTION)
    assert group.listed().keys() == {0, 2}
    assert group.info(SLAVE)["maxq.isolated"] == "true"
    assert group.committed(SLAVE) is None
    cut(group)
    group.until(lambda: group.listed().keys() == {0, 1, 2}, seconds=15)


def test_a_member_with_a_longer_log_holds_the_master_back_by_name(group: Group) -> None:
    """Its tail was acknowledged; that it is gone from here, an operator must know."""
    assert group.send(BROKER, b"x").code == 0
    group.sleep(1)
    kill(group, "b1")
    group.until(lambda: group.acting() == ["b2"], seconds=3)
    disk = group.machines["b1"].disk
    for path in [p for p in disk.files if p.startswith("/data/") and "config" not in p]:
        del disk.files[path]
    group.start_broker("b1", 0)
    group.sleep(6 * EVICTION)
    assert 0 not in group.listed()
    assert group.info(BROKER)["maxq.isolatedBy"].startswith(f"{SLAVE} (id 1): its log ends at ")
    assert group.logged("b1", "broker.preonline.held") >= 1
    kill(group, "b2")
    kill(group, "b3")
    group.until(lambda: group.listed().keys() == {0}, seconds=2 * EVICTION)


def test_without_pre_online_a_broker_is_listed_from_its_start(group: Group) -> None:
    """skipPreOnline: what was committed meanwhile is lost, as said."""
    kill(group, "b1")
    group.until(lambda: group.acting() == ["b2"], seconds=3)
    group.brokers["b1"] = group.up("b1", "broker", {**MASTER_CONF, "skipPreOnline": "true"})
    group.until(lambda: group.listed().get(0) == BROKER, seconds=2)


def test_a_held_pull_is_answered_when_acting_begins_and_when_it_ends(group: Group) -> None:
    """Its client asks again, and learns whom to ask."""
    held = pull_header(sys_flag=2 | 4, suspend_timeout_millis=60_000)
    frame = Frame(code=RequestCode.PULL_MESSAGE, ext=to_ext(held))

    def seconds() -> float:
        """How long such a pull is held."""
        begun = group.now_ns
        group.client(lambda pool: pool.call(SLAVE, frame, timeout_s=100.0))
        return (group.now_ns - begun) / 1e9

    kill(group, "b1")
    assert seconds() < 3
    assert group.acting() == ["b2"]
    group.start_broker("b1", 0)
    assert seconds() < 5
    assert group.acting() == []


def test_a_master_that_was_deaf_for_a_minute_asks_anew(group: Group) -> None:
    """Its connection to the name server survives the cut, and TCP is silent on it for another
    minute: what was sent meanwhile is sent again ever more seldom."""
    for name in ("b1", "b2", "b3"):
        kill(group, name)
    group.until(lambda: not group.listed(), seconds=10)
    group.start_broker("b1", 0)
    group.sleep(1)  # it waits for an eviction time whether the group stays empty
    address = group.machines["namesrv"].address
    group.machines["b1"].stack.cut([Cut("namesrv", address)])
    group.sleep(67)
    assert isolated(group, "b1")
    group.machines["b1"].stack.cut([])
    group.until(lambda: not isolated(group, "b1"), seconds=15)


@pytest.mark.parametrize("pauses", [False, True])
def test_a_slave_that_no_name_server_answers_keeps_what_it_took(group: Group, pauses: bool) -> None:
    """P4: the master goes, and the only name server before the slave has asked it. So that one does
    not act; a client that has heard commits to it all the same. Its master is back first, and is
    copied from at the address that is known."""
    assert group.commit(BROKER, 1) == 0
    group.sleep(13)
    master = group.brokers["b1"].loop
    if pauses:
        master.pause()
        group.until(lambda: 0 not in group.listed(), seconds=8)
    else:
        master.kill()
    group.namesrv.loop.kill()
    assert group.commit(SLAVE, 6) == 0
    assert group.acting() == []
    if pauses:
        master.resume()
    else:
        group.start_broker("b1", 0)
    group.until(lambda: group.brokers["b2"].node.membership.plain.slave.connected, seconds=10)
    group.sleep(13)
    assert group.committed(SLAVE) == 6
    group.up("namesrv", "namesrv", NAMESRV_ACTING)
    group.until(lambda: 0 in group.listed(), seconds=30)
    assert group.committed(BROKER) == 6
    group.sleep(13)
    assert [group.committed(a) for a in (BROKER, SLAVE, THIRD)] == [6, 6, 6]
