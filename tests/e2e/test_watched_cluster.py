"""Clusters that Max-Q did not start, found and watched: our nodes as processes on loopback."""

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from reference_nodes import HOST, NodeProcess, controller_settings, free_port, wait_until
from waiting import eventually

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.existing import read

BOUND_S = 20.0
pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]


class Hand:
    """A name server, maybe a controller, and a set of two brokers, started one by one."""

    def __init__(self, folder: Path, *, controlled: bool) -> None:
        rng, taken = random.Random(), set[int]()
        names = ("n", "c", "a", "b")
        self.ports = {name: free_port(rng, taken) for name in names}
        self.folder, self.controlled = folder, controlled
        self.nodes: dict[str, NodeProcess] = {}
        self.start("namesrv", "n", {
            "listenPort": self.ports["n"], "bindAddress": HOST, "kvConfigPath": folder / "kv",
            "supportActingMaster": not controlled,
        })  # fmt: skip
        if controlled:
            settings = controller_settings(folder, "g", "c", {"c": self.at("c")})
            self.start("controller", "c", settings)
        for number, name in enumerate("ab"):
            self.start("broker", name, self.broker(number, name))

    def at(self, name: str) -> str:
        return f"{HOST}:{self.ports[name]}"

    def broker(self, number: int, name: str) -> dict[str, object]:
        settings: dict[str, object] = {
            "brokerClusterName": "mine", "brokerName": "broker-x", "listenPort": self.ports[name],
            "haListenPort": self.ports[name] + 1, "namesrvAddr": self.at("n"), "brokerIP1": HOST,
            "brokerIP2": HOST, "storePathRootDir": self.folder / name,
            "mappedFileSizeCommitLog": 65536, "totalReplicas": 2,
            "brokerHeartbeatInterval": 500, "syncBrokerMetadataPeriod": 500,
        }  # fmt: skip
        if self.controlled:
            return settings | {
                "enableControllerMode": "true", "controllerAddr": self.at("c"), "brokerId": -1,
                "brokerRole": "SLAVE", "controllerHeartBeatTimeoutMills": 3000,
                "syncControllerMetadataPeriod": 500,
            }  # fmt: skip
        role = "SLAVE" if number else "SYNC_MASTER"
        return settings | {
            "brokerId": number, "brokerRole": role, "enableSlaveActingMaster": "true",
        }  # fmt: skip

    def start(self, role: str, name: str, settings: dict[str, object]) -> None:
        self.nodes[name] = node = NodeProcess(self.folder, role, name, settings)
        wait_until(node.started, f"{name} to start", [node], BOUND_S)

    def kill(self, name: str) -> None:
        self.nodes[name].process.send_signal(signal.SIGKILL)
        self.nodes[name].process.wait()

    def stop(self) -> None:
        for node in self.nodes.values():
            if node.process.poll() is None:
                node.stop()


@pytest.fixture(params=[
    pytest.param(False, id="pair", marks=pytest.mark.campaign),
    pytest.param(True, id="controllers"),
])  # fmt: skip
def hand(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Hand]:
    found = Hand(tmp_path, controlled=request.param)
    try:
        yield found
    finally:
        found.stop()


def test_a_cluster_is_found_and_what_happens_to_it_is_seen(
    hand: Hand, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its master is killed meanwhile, by somebody else."""
    file, store = tmp_path / "cluster.toml", tmp_path / "runs"
    find = ["cluster", "find", hand.at("n"), "--out", str(file)]
    assert eventually(lambda: run_cli(find) == 0 and len(read(file).broker) == 2, BOUND_S)
    found = read(file)
    assert found.cluster == "mine"
    assert [m.address for m in found.controller] == ([hand.at("c")] if hand.controlled else [])
    assert {b.address: b.id for b in found.broker} == (
        {hand.at("a"): 1, hand.at("b"): 2} if hand.controlled
        else {hand.at("a"): 0, hand.at("b"): 1}
    )  # fmt: skip

    killer = threading.Timer(3.0, hand.kill, "a")
    killer.start()
    code = run_cli(["watch", "--cluster", str(file), "--time-limit", "9s", "--store", str(store),
                    "--json"])  # fmt: skip
    killer.join()
    out, err = capfd.readouterr()
    assert code in (0, 2), err
    first, second = (f"broker-x-{b.id}" for b in found.broker)
    assert f"{first}: answers, as master" in err
    assert f"{first}: does not answer" in err
    led = "broker-x: by controllers master 2 in epoch 2" if hand.controlled else (
        f"{second}: answers, as slave, acting for its master"
    )  # fmt: skip
    assert led in err
    results = json.loads(out)
    assert results["valid"] is not False
    run = store / "latest"
    assert run_cli(["check", str(run)]) == code, "a watched cluster is judged again as any run"
    assert os.path.exists(run / "report.html")
