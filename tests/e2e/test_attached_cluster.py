"""A cluster in containers that Max-Q did not start: found, tested, and left as it was."""

import json
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.types import IPAMConfig, IPAMPool
from docker_here import missing
from waiting import eventually

from docker import APIClient
from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.existing import read
from maxq.harness.environments.docker import free_subnets
from maxq.harness.environments.engine import client as docker_engine
from maxq.harness.environments.engine.image import ensure_image, quiet
from maxq.histories.store import open_run

BOUND_S, HEALED_S = 40.0, 20.0
NODES = {"n": 10, "a": 11, "b": 12}  # each with the last number of its address

MISSING = missing()
pytestmark = [
    pytest.mark.docker,
    pytest.mark.serial,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]


class Hand:
    """A name server and a pair of brokers, each in a container, made by the engine's own client."""

    def __init__(self, folder: Path) -> None:
        self.api, self.folder = APIClient(version="auto"), folder
        self.run = f"hand-{secrets.token_hex(3)}"
        engine = docker_engine.connect()
        try:
            self.image = ensure_image(engine, None, quiet)
            subnet = free_subnets(24, engine.networks())[-1]
        finally:
            engine.close()
        self.at = {name: str(subnet[number]) for name, number in NODES.items()}
        self.api.create_network(
            self.run, internal=True, ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(subnet))])
        )
        self.start("n", "namesrv", {"listenPort": 9876, "supportActingMaster": "true"})
        for number, name in enumerate("ab"):
            self.start(name, "broker", {
                "brokerClusterName": "mine", "brokerName": "broker-x", "brokerId": number,
                "brokerRole": "SLAVE" if number else "SYNC_MASTER", "inSyncReplicas": 2,
                "namesrvAddr": f"{self.at['n']}:9876", "enableSlaveActingMaster": "true",
                "storePathRootDir": "/tmp/store", "totalReplicas": 2,
            })  # fmt: skip

    def start(self, name: str, role: str, settings: dict[str, object]) -> None:
        file = self.folder / f"{name}.conf"
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        end = self.api.create_endpoint_config(ipv4_address=self.at[name])
        made = self.api.create_container(
            self.image, entrypoint=["python3"], name=f"{self.run}-{name}",
            command=["-m", "maxq.reference", role, "--config", "/node.conf"],
            host_config=self.api.create_host_config(
                binds={str(file): {"bind": "/node.conf", "mode": "ro"}}, network_mode=self.run
            ),
            networking_config=self.api.create_networking_config({self.run: end}),
        )  # fmt: skip
        self.api.start(made["Id"])

    def pids(self) -> dict[str, int]:
        """The process of each container; 0: it has ended."""
        found = {name: self.api.inspect_container(f"{self.run}-{name}") for name in NODES}
        return {name: of["State"]["Pid"] for name, of in found.items()}

    def whole(self) -> bool:
        """Whether all run, none is paused, and no rule of Max-Q is in force."""
        for name in NODES:
            state = self.api.inspect_container(f"{self.run}-{name}")["State"]
            if not state["Running"] or state["Paused"] or self.rules(state["Pid"]):
                return False
        return True

    def guests(self) -> list[str]:
        """Containers that are in its network, or share that of one of its own."""
        found = {c["Id"]: c for c in self.api.containers()}
        own = {id_ for id_, c in found.items() if c["Names"][0][1:] in
               [f"{self.run}-{name}" for name in NODES]}  # fmt: skip
        return [
            c["Names"][0]
            for id_, c in found.items()
            if id_ not in own
            and (
                self.run in c["NetworkSettings"]["Networks"]
                or c["HostConfig"]["NetworkMode"].removeprefix("container:") in own
            )
        ]

    def rules(self, pid: int) -> bool:
        listing = subprocess.run(
            ["nsenter", "--target", str(pid), "--net", "nft", "list", "tables"],
            capture_output=True, text=True,
        )  # fmt: skip
        return listing.returncode != 0 or "maxq" in listing.stdout  # or it has just ended

    def stop(self) -> None:
        for name in NODES:
            self.api.remove_container(f"{self.run}-{name}", force=True, v=True)
        self.api.remove_network(self.run)
        self.api.close()


@pytest.fixture
def hand(tmp_path: Path) -> Iterator[Hand]:
    found = Hand(tmp_path)
    try:
        yield found
    finally:
        found.stop()


def test_a_cluster_in_containers_is_tested_and_left_as_it_was(
    hand: Hand, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, store = tmp_path / "cluster.toml", tmp_path / "runs"
    find = ["cluster", "find", f"{hand.at['n']}:9876", "--out", str(file)]
    assert eventually(lambda: run_cli(find) == 0 and len(read(file).broker) == 2, BOUND_S)
    assert [m.container for m in read(file).members] == [f"{hand.run}-{n}" for n in NODES]
    asked = ["test", "--cluster", str(file), "--nemesis", "kill,partition", "--time-limit", "30s",
             "--interval", "2s", "--seed", "5", "--store", str(store)]  # fmt: skip

    before = hand.pids()
    assert run_cli(asked) == 2
    assert run_cli([*asked, "--yes", "another"]) == 254
    assert (hand.pids(), store.exists()) == (before, False), "nothing is done without consent"

    capfd.readouterr()
    assert run_cli([*asked, "--yes", "mine", "--json"]) in (0, 2), "a busy machine leaves doubts"
    out, _ = capfd.readouterr()
    results = json.loads(out)
    assert results["valid"] is not False
    assert isinstance(results["left"], list)
    struck = {fault["f"] for fault in results["faults"]}
    assert {"kill", "start-partition"} <= struck
    assert all(fault["holds"] for fault in results["faults"])
    claims = json.loads((store / "latest" / "results.json").read_text())["claims"]
    assert [claims[claim] for claim in ("S6", "S11", "S12")] == ["kept"] * 3
    assert json.loads((store / "latest" / "config.json").read_text())["left"] == []
    assert hand.whole()
    assert hand.guests() == []
    assert hand.pids() != before, "something was killed"

    assert run_cli(["replay", str(store / "latest")]) == 254, "and nothing is done again unasked"

    harness = subprocess.Popen(
        [sys.executable, "-m", "maxq.harness.cli.main", *asked, "--yes", "mine"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert eventually(lambda: not hand.whole(), BOUND_S), "a fault is at work"
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    assert eventually(lambda: hand.whole() and not hand.guests(), HEALED_S)
    assert open_run(store / "latest").history.ops
