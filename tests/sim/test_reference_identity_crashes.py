"""Winning a broker id under every crash: no id has two owners (S1), a store keeps its id (S2)."""

from random import Random

import pytest
from reference_world import (
    BROKER,
    CONTROLLER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV_CONF,
    RELAYED,
    Cluster,
    Process,
    relay,
    through_relay,
)

from maxq.harness.contracts.draws import Draws
from maxq.harness.simulation.disk import SimDisk
from maxq.harness.simulation.world import SimHost
from maxq.reference.broker.membership.identity import Claimed, Owned, State, state_of
from maxq.reference.broker.server import Broker
from maxq.reference.controller.registry import Machine, Registry
from maxq.reference.raft.storage import Storage
from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.files import decode_identity
from maxq.reference.wire.frame import Frame

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
FINAL, TEMP = "/data/brokerIdentity", "/data/brokerIdentity-temp"


def state(cluster: Cluster, name: str) -> State:
    return state_of(
        cluster.disk(name, FINAL), cluster.disk(name, TEMP), cluster="c", broker_name="b", path="f"
    )


def owned_id(cluster: Cluster, name: str) -> int | None:
    found = cluster.disk(name, FINAL)
    return None if found is None else decode_identity(found).broker_id


def stored(cluster: Cluster) -> Registry:
    """What the lone controller's disk holds: everything that it wrote is committed."""
    disk = SimDisk(Draws(1))
    files = cluster.machines["controller"].disk.files
    disk.files = {path: bytearray(data) for path, data in files.items()}
    machine = Machine()

    async def replay(host: SimHost) -> None:
        _, _, log, snapshot = await Storage(disk, "/data/raft").load()
        if snapshot is not None:
            machine.restore(snapshot.data)
        for entry in log.entries:
            if entry.data:
                machine.apply(entry.index, entry.data)

    with Cluster("replay") as reader:
        reader.world.run(reader.machines["client"], replay)
    return machine.registry


def codes(cluster: Cluster) -> dict[int, str]:
    known = stored(cluster).sets.get("b")
    return {} if known is None else {i: r.check_code for i, r in known.replicas.items()}


def joined(cluster: Cluster, name: str, process: Process) -> bool:
    """Whether a broker owns an id and knows its role. A left-over claim is harmless: 3.3."""
    assert process.healthy, process.loop.failures
    return owned_id(cluster, name) is not None and cluster.logged(name, "broker.role") > 0


def join(cluster: Cluster, name: str, settings: dict[str, str] = JOINED) -> tuple[Process, int]:
    process = cluster.start(name, "broker", settings)
    before = cluster.logged(name, "broker.role")
    cluster.until(lambda: joined(cluster, name, process)
                  and cluster.logged(name, "broker.role") > before)  # fmt: skip
    return process, owned_id(cluster, name) or 0


def test_a_broker_wins_an_id_and_is_elected(cluster: Cluster) -> None:
    """S1, S2: the way through life without a crash."""
    cluster.up("controller", "controller", CONTROLLER_CONF)
    process, broker_id = join(cluster, "b1")
    assert broker_id == 1
    assert cluster.info("198.18.0.48:10911")["maxq.role"] == "master"
    process.loop.kill()
    _, again = join(cluster, "b1")
    assert again == 1
    assert list(codes(cluster)) == [1]


def steps_to_join() -> int:
    """How many events it takes until a lone broker has its role."""
    with Cluster("crash") as cluster:
        cluster.up("controller", "controller", CONTROLLER_CONF)
        process = cluster.start("b1", "broker", JOINED)
        count = 0
        while not joined(cluster, "b1", process):
            cluster.steps(1)
            count += 1
    return count


def test_a_broker_killed_at_any_event_loses_no_id() -> None:
    """S1, S2, seeds 004: at each event from its start until it has joined, kill it; let another
    broker of the set join; restart the first. A claim that the controller took is kept."""
    outcomes: set[str] = set()
    for at in range(1, steps_to_join() + 1):
        with Cluster("crash") as cluster:
            cluster.up("controller", "controller", CONTROLLER_CONF)
            victim = cluster.start("b1", "broker", JOINED)
            cluster.steps(at)
            victim.loop.kill()
            left = state(cluster, "b1")
            outcomes.add(type(left).__name__)
            _, other = join(cluster, "b2")
            taken = codes(cluster)
            applied = isinstance(left, Claimed) and taken.get(left.broker_id) == left.check_code
            again, won = join(cluster, "b1")
            if isinstance(left, Owned):
                assert won == left.broker_id, at
            elif isinstance(left, Claimed) and applied:
                assert won == left.broker_id, at
                outcomes.add("applied")
            elif isinstance(left, Claimed):
                # Refused with 2014, because the other broker took the id meanwhile: begun anew.
                assert won != left.broker_id, at
                outcomes.add("refused")
            assert {won, other} == {1, 2}, at
            assert sorted(codes(cluster)) == [1, 2], at  # nothing leaked
            again.loop.kill()
            assert join(cluster, "b1")[1] == won, at
    assert outcomes == {"New", "Claimed", "Owned", "applied", "refused"}


def test_a_controller_killed_at_any_event_forgets_no_id() -> None:
    """S1, S2: also between a command's write and its answer."""
    total = steps_to_join()
    lost = 0
    for at in range(1, total + 1):
        with Cluster("crash") as cluster:
            controller = cluster.up("controller", "controller", CONTROLLER_CONF)
            process = cluster.start("b1", "broker", JOINED)
            cluster.steps(at)
            controller.loop.kill()
            applied = codes(cluster)
            lost += bool(applied) and owned_id(cluster, "b1") is None
            cluster.up("controller", "controller", CONTROLLER_CONF)
            cluster.until(lambda: joined(cluster, "b1", process))  # noqa: B023 - used at once
            assert owned_id(cluster, "b1") == 1, at
            assert list(codes(cluster)) == [1], at
            if applied:
                assert codes(cluster) == applied, at
    assert lost > 0  # the instant that matters was among them


def test_a_lost_answer_to_a_claim_costs_no_id(cluster: Cluster) -> None:
    """S1: after a time-out the same claim is made again; the temporary file stays meanwhile.
    (Java drops it, and the id is an orphan.)

    docs/spec/controller-ha.md 3.3
    """
    cluster.up("controller", "controller", CONTROLLER_CONF)
    claims: list[tuple[str, bytes | None]] = []

    async def handle(pool: Pool, request: Frame) -> Frame | None:
        answer = await pool.call(CONTROLLER, request, timeout_s=3)
        if request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            return through_relay(answer)
        if request.code == RequestCode.CONTROLLER_APPLY_BROKER_ID:
            claims.append(((request.ext or {})["registerCheckCode"], cluster.disk("b1", TEMP)))
            return None if len(claims) < 3 else answer
        return answer

    relay(cluster, handle)
    _, won = join(cluster, "b1", RELAYED)
    assert won == 1
    assert len(claims) == 3
    assert len(set(claims)) == 1  # the same code, and the file in place each time
    assert codes(cluster) == {1: claims[0][0]}


def test_only_2014_drops_a_claim(cluster: Cluster) -> None:
    """S1: errors and refusals of other kinds keep the temporary file.

    docs/spec/controller-ha.md 3.3
    """
    cluster.up("controller", "controller", CONTROLLER_CONF)
    join(cluster, "b2")
    refusals = [1, 2, 3, 2005, 2007, 2014]
    temporary: list[bool] = []

    async def handle(pool: Pool, request: Frame) -> Frame | None:
        answer = await pool.call(CONTROLLER, request, timeout_s=3)
        if request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            return through_relay(answer)
        if request.code == RequestCode.CONTROLLER_GET_NEXT_BROKER_ID:
            temporary.append(cluster.disk("b1", TEMP) is not None)
        if request.code == RequestCode.CONTROLLER_APPLY_BROKER_ID and refusals:
            return request.answer(refusals.pop(0), "made up")
        return answer

    relay(cluster, handle)
    # The refusals are made up: the controller took the claim, so its code is known from then on.
    process = cluster.start("b1", "broker", RELAYED)
    cluster.until(lambda: not refusals)
    cluster.until(lambda: joined(cluster, "b1", process))
    assert temporary == [False, False]  # asked anew only once the claim was dropped


@pytest.mark.parametrize("answer", [{}, {"nextBrokerId": "x"}, {"nextBrokerId": "0"}])
def test_a_broker_lives_through_a_controller_that_talks_nonsense(
    cluster: Cluster, answer: dict[str, str]
) -> None:
    """A peer can never make a node raise; nothing is claimed meanwhile."""
    cluster.up("controller", "controller", CONTROLLER_CONF)
    wrong = [3]

    async def handle(pool: Pool, request: Frame) -> Frame | None:
        got = await pool.call(CONTROLLER, request, timeout_s=3)
        if request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            return through_relay(got)
        nonsense = (
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID, RequestCode.CONTROLLER_GET_REPLICA_INFO
        )  # fmt: skip
        if request.code in nonsense and wrong[0]:
            wrong[0] -= 1
            return request.answer(0, ext={**answer, "masterEpoch": "many"})
        if request.code == RequestCode.CONTROLLER_APPLY_BROKER_ID:
            wrong[0] = 3  # once more, for the poll
        return got

    relay(cluster, handle)
    assert join(cluster, "b1", RELAYED)[1] == 1


def test_a_broker_that_is_told_of_a_master_before_it_has_joined_lives(cluster: Cluster) -> None:
    """A restarted broker is known from before: a controller may notify it of an election while it
    still registers. (Seen first in a simulated run under kill, partition and change-address at
    once.)"""
    cluster.up("controller", "controller", CONTROLLER_CONF)
    join(cluster, "b2")
    registering = [True]

    async def handle(pool: Pool, request: Frame) -> Frame | None:
        if request.code == RequestCode.CONTROLLER_REGISTER_BROKER and registering[0]:
            return None
        answer = await pool.call(CONTROLLER, request, timeout_s=3)
        named = request.code == RequestCode.CONTROLLER_GET_METADATA_INFO
        return through_relay(answer) if named else answer

    relay(cluster, handle)
    process = cluster.start("b1", "broker", RELAYED)
    cluster.until(lambda: cluster.logged("b1", "broker.id.won") == 1)
    told = cluster.ask(BROKER, RequestCode.NOTIFY_BROKER_ROLE_CHANGED)
    assert told.code == ResponseCode.SUCCESS
    assert process.healthy
    registering[0] = False
    cluster.until(lambda: joined(cluster, "b1", process))


@pytest.mark.parametrize("seed", range(30))
def test_racing_brokers_under_random_kills_get_an_id_each(seed: int) -> None:
    """S1, S2: three brokers and the controller die again and again at random instants."""
    with Cluster(f"race/{seed}") as cluster:
        rng = Random(seed)
        roles = {"controller": ("controller", CONTROLLER_CONF),
                 **dict.fromkeys(("b1", "b2", "b3"), ("broker", JOINED))}  # fmt: skip
        live = {name: cluster.start(name, *how) for name, how in roles.items()}
        owned: dict[str, int] = {}
        for _ in range(25):
            cluster.steps(rng.randint(1, 120))
            victim = rng.choice(sorted(live))
            live[victim].loop.kill()
            live[victim] = cluster.start(victim, *roles[victim])
            for name in ("b1", "b2", "b3"):
                found = owned_id(cluster, name)
                if found is not None:
                    assert owned.setdefault(name, found) == found
        brokers = [(n, live[n]) for n in ("b1", "b2", "b3")]
        cluster.until(lambda: all(joined(cluster, n, p) for n, p in brokers))
        assert {owned_id(cluster, n) for n, _ in brokers} == {1, 2, 3}
        assert sorted(codes(cluster)) == [1, 2, 3]
        assert len(set(codes(cluster).values())) == 3


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"c#b", "needs 3 parts"), (b"", "needs 3 parts"), (b"other#b#1", "belongs to other#b")],
)
def test_a_broker_refuses_to_start_on_such_an_identity(
    cluster: Cluster, content: bytes, why: str
) -> None:
    """S1: damaged or somebody else's: says which file and why; claims nothing."""
    cluster.up("controller", "controller", CONTROLLER_CONF)
    cluster.machines["b1"].disk.files[FINAL] = bytearray(content)
    process = cluster.start("b1", "broker", JOINED)
    cluster.until(process.task.done)
    error = process.task.exception()
    assert isinstance(error, ExceptionGroup)
    assert FINAL in str(error.exceptions[0])
    assert why in str(error.exceptions[0])
    assert codes(cluster) == {}
    assert isinstance(process.node, Broker)


def test_a_controller_refuses_a_damaged_log(cluster: Cluster) -> None:
    """S1: it would hand ids out again."""
    cluster.up("controller", "controller", CONTROLLER_CONF)
    join(cluster, "b1")
    content = bytearray(cluster.machines["controller"].disk.files["/data/raft/log"])
    content[20] ^= 0xFF
    process = cluster.start("b3", "controller", CONTROLLER_CONF)  # a machine of its own
    cluster.machines["b3"].disk.files["/data/raft/log"] = content
    cluster.until(process.task.done)
    error = process.task.exception()
    assert isinstance(error, ExceptionGroup)
    assert "/data/raft/log: no sound record at byte" in str(error.exceptions[0])


def test_a_store_has_one_process(cluster: Cluster) -> None:
    """Two controllers, brokers or name servers on one store: the second refuses to start."""
    for name, role, settings in (
        ("namesrv", "namesrv", NAMESRV_CONF),
        ("controller", "controller", CONTROLLER_CONF),
        ("b1", "broker", JOINED),
    ):
        cluster.up(name, role, settings)
        with pytest.raises(BlockingIOError):
            cluster.up(name, role, settings)
