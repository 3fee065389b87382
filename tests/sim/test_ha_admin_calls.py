"""What operators ask about replication (907, 1006, 1007), and a controller's settings (1009)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from reference_world import (
    BROKER,
    CONTROLLER,
    CONTROLLER_CONF,
    JOINED,
    NAMESRV_CONF,
    Cluster,
    create_topic,
)

from maxq.reference.wire.codes import RequestCode

# A task that a kill meets before its first step holds a coroutine that nobody will ever await.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
SLAVE = "198.18.0.64:10911"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A master and a slave in one SyncStateSet, with one message."""
    with Cluster() as made:
        made.up("namesrv", "namesrv", NAMESRV_CONF)
        made.up("controller", "controller", CONTROLLER_CONF)
        made.up("b1", "broker", JOINED)
        made.until(lambda: made.logged("b1", "broker.role") == 1)
        made.up("b2", "broker", JOINED)
        made.until(lambda: len(replicas(made)["inSyncReplicas"]) == 2)
        create_topic(made)
        assert made.send(BROKER, b"x").code == 0
        made.sleep(1)
        yield made


def asked(cluster: Cluster, address: str, code: int, body: bytes | None = None) -> Any:
    answer = cluster.ask(address, code, {}, body)
    assert answer.code == 0
    return json.loads(answer.body or b"{}")


def replicas(cluster: Cluster) -> Any:
    return asked(cluster, CONTROLLER, 1006, b'["b"]')["replicasInfoTable"]["b"]


def test_ha_status_of_both_sides(cluster: Cluster) -> None:
    """Golden 907: a master shows an empty client and each slave; a slave only itself."""
    end = int(cluster.info(BROKER)["commitLogMaxOffset"])
    master, slave = (asked(cluster, a, RequestCode.GET_BROKER_HA_STATUS) for a in (BROKER, SLAVE))
    [link] = master["haConnectionInfo"]
    assert link.pop("addr").startswith("198.18.0.64:")
    assert link == {"diff": 0, "inSync": True, "slaveAckOffset": end, "transferFromWhere": end,
                    "transferredByteInSecond": 0}  # fmt: skip
    assert (master["master"], master["inSyncSlaveNums"]) == (True, 1)
    assert master["masterCommitLogMaxOffset"] == end
    assert set(master["haClientRuntimeInfo"].values()) == {0}

    client = slave["haClientRuntimeInfo"]
    assert (slave["master"], slave["haConnectionInfo"]) == (False, [])
    assert (client["masterAddr"], client["maxOffset"]) == ("198.18.0.48:10912", end)
    now_ms = 1_700_000_000_000 + cluster.now_ns // 1_000_000
    assert 0 <= now_ms - client["lastReadTimestamp"] <= 5_000
    assert 0 <= now_ms - client["lastWriteTimestamp"] <= 5_000


def test_a_new_master_begins_its_epoch_with_a_record(cluster: Cluster) -> None:
    """So that no two epochs start at one place; both replicas have it.

    docs/spec/controller-ha.md 6.4 (H2)
    """
    first, second = (asked(cluster, a, RequestCode.GET_BROKER_EPOCH_CACHE) for a in (BROKER, SLAVE))
    assert first["epochList"] == second["epochList"]
    assert first["maxOffset"] == second["maxOffset"]
    assert (first["brokerId"], second["brokerId"]) == (0, 2)
    mark = cluster.ask(BROKER, RequestCode.GET_MAX_OFFSET,
                       {"topic": "SELF_TEST_TOPIC", "queueId": "0"})  # fmt: skip
    assert (mark.ext or {})["offset"] == "1"


def test_a_controllers_settings_by_command(cluster: Cluster) -> None:
    """1009: what is read anew can be changed; nothing is taken in part."""
    update = RequestCode.UPDATE_CONTROLLER_CONFIG
    for text, code in (
        (b"enableElectUncleanMaster=true\n", 0),
        (b"configStorePath=/x\n", 16), (b"rocketmqHome=/x\n", 16),
        (b"controllerStorePath=/x\n", 16), (b"enableElectUncleanMaster=perhaps\n", 29),
        (b"notifyBrokerRoleChanged=false\nnoSuchKey=1\n", 29),
    ):  # fmt: skip
        assert cluster.ask(CONTROLLER, update, {}, text).code == code
    shown = (cluster.ask(CONTROLLER, RequestCode.GET_CONTROLLER_CONFIG).body or b"").decode()
    assert "enableElectUncleanMaster=true\n" in shown
    assert "notifyBrokerRoleChanged=true\n" in shown
