"""Writes down what observers see of a cluster: one call, one whole observation."""

from typing import Any

from history_recorder import Recorder

from maxq.histories.observed import (
    ControllerView,
    EpochView,
    ReplicaLog,
    ReplicaView,
    SetView,
    encoded,
)
from maxq.histories.op import NEMESIS

BROKERS, CONTROLLERS, STORES = 8, 9, 10  # processes of observers


def set_view(
    epoch: int, number: int, master: int | None, *members: int, replicas: tuple[int, ...] = ()
) -> SetView:
    """A set in a master epoch and a SyncStateSet epoch."""
    return SetView(
        master=master,
        master_address="" if master is None else f"x{master}:1",
        master_epoch=epoch,
        sync_state_set=members,
        sync_state_set_epoch=number,
        replicas={str(i): f"x{i}:1" for i in replicas or members},
    )


def table(view: SetView, node: str = "c0", of: str = "b0") -> dict[str, Any]:
    """What a controller answers that knows one set."""
    return encoded(ControllerView(node=node, sets={of: view}))


def broker(
    node: str,
    broker_id: int | None,
    *epochs: tuple[int, int, int],
    leads: bool = False,
    confirmed: int | None = None,
    of: str = "b0",
) -> dict[str, Any]:
    """What a broker answers; epochs are (epoch, start, end)."""
    return encoded(
        ReplicaView(
            node=node,
            set=of,
            address=f"{node}:1",
            id=broker_id,
            leads=leads,
            epochs=tuple(EpochView(*e) for e in epochs),
            end=epochs[-1][2] if epochs else 0,
            confirmed=confirmed,
        )
    )


class Cluster(Recorder):
    """A recorder of observations."""

    def controllers(
        self, view: SetView, *, node: str = "c0", of: str = "b0", process: int = CONTROLLERS
    ) -> int:
        asked = {"node": node}
        return self.op("ok", process, "observe-controller", asked, table(view, node, of))

    def broker(self, node: str, broker_id: int | None, *epochs: Any, **more: Any) -> int:
        value = broker(node, broker_id, *epochs, **more)
        return self.op("ok", BROKERS, "observe-replica", {"node": node}, value)

    def store(self, log: ReplicaLog) -> int:
        return self.op("ok", STORES, "replica-log", {"node": log.node}, encoded(log))


def fail_over() -> Cluster:
    """Master 1 with a set of three dies, 2 is elected, 3 joins its set again."""
    r = Cluster()
    r.controllers(set_view(1, 3, 1, 1, 2, 3))
    r.broker("b0-0", 1, (1, 0, 10), leads=True)
    r.fault("kill", **{"b0-0": True})
    r.controllers(set_view(2, 4, 2, 2))
    r.broker("b0-1", 2, (1, 0, 10), (2, 10, 20), leads=True)
    r.broker("b0-2", 3, (1, 0, 10), (2, 10, 15))
    r.controllers(set_view(2, 5, 2, 2, 3))
    return r


IDS = {"b0-0": 1, "b0-1": 2, "b0-2": 3}


class Trio(Cluster):
    """A broker set of three, of which b0-0 leads in epoch 1."""

    def __init__(self) -> None:
        super().__init__()
        self.elected("b0-0", 1)
        for node, number in IDS.items():
            self.broker(node, number, (1, 0, 200), leads=node == "b0-0")

    def elected(self, node: str, epoch: int) -> int:
        view = SetView(
            master=IDS[node], master_address=f"{node}:1", master_epoch=epoch,
            sync_state_set=(1, 2, 3), sync_state_set_epoch=epoch,
            replicas={str(i): f"{n}:1" for n, i in IDS.items()},
        )  # fmt: skip
        return self.controllers(view, process=9)

    def cut(self, node: str, *others: str) -> int:
        return self.act("start-partition", {node: {"holds": True, "from": list(others)}})

    def act(self, f: str, value: dict[str, Any], **who: Any) -> int:
        """An action of the nemesis with its proof; the index at which it begins."""
        at = self.begin(NEMESIS, f, "f", **who)
        self.end("info", NEMESIS, f, value, **who)
        return at
