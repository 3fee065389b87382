"""A master whose proposal of another SyncStateSet is lost, and the slave that it named dies."""

import pytest
from reference_world import (
    BROKER,
    CONTROLLER,
    CONTROLLER_CONF,
    NAMESRV,
    NAMESRV_CONF,
    RELAYED,
    Cluster,
    create_topic,
    relay,
    through_relay,
)

from maxq.reference.rpc import Pool
from maxq.reference.wire.codes import RequestCode, ResponseCode
from maxq.reference.wire.frame import Frame

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


def test_a_lost_proposal_of_a_dead_slave_does_not_stop_sends(cluster: Cluster) -> None:
    """S13 in P-ALL. The controller refuses to take in a slave that is dead, and the master cannot
    know whether an older request to do so will still be applied: it asks for a new term."""
    asked: list[str] = []
    deaf = [True]  # requests 1001 reach nobody

    async def handle(pool: Pool, request: Frame) -> Frame | None:
        if request.code == RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET:
            asked.append((request.body or b"").decode())
            if deaf[0]:
                return None
        if request.code == RequestCode.BROKER_HEARTBEAT:  # nobody answers those
            await pool.oneway(CONTROLLER, request)
            return None
        answer = await pool.call(CONTROLLER, request, timeout_s=3)
        if request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            return through_relay(answer)
        return answer

    cluster.up("namesrv", "namesrv", NAMESRV_CONF)
    cluster.up("controller", "controller", CONTROLLER_CONF)
    relay(cluster, handle)
    settings = {**RELAYED, "namesrvAddr": NAMESRV, "allAckInSyncStateSet": "true"}
    cluster.up("b1", "broker", settings)
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 1)
    create_topic(cluster)
    slave = cluster.up("b2", "broker", settings)
    cluster.until(lambda: bool(asked))
    slave.loop.kill()
    waits = cluster.send(BROKER, b"while nobody knows who is in the set")
    assert waits.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    cluster.sleep(15)  # the controller gives the slave up for dead
    assert cluster.logged("b1", "broker.role") == 1
    deaf[0] = False
    cluster.until(lambda: cluster.logged("b1", "broker.role") == 2, seconds=10)
    assert cluster.send(BROKER, b"in a new term").code == ResponseCode.SUCCESS
    assert cluster.logged("b1", "broker.role.doubt") == 1
