"""Hosts with a real sshd, each a container at an address of its own; a supervisor has its nodes."""

import secrets
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paramiko
from docker.types import IPAMConfig, IPAMPool
from waiting import eventually

from docker import APIClient
from maxq.harness.contracts.existing import BrokerMember, Existing, Member, SshFiles, written
from maxq.harness.environments.docker import free_subnets
from maxq.harness.environments.engine import client as docker_engine
from maxq.harness.environments.engine import image

START_S = 40.0
FILES = Path(__file__).parent / "ssh_host"
SUDOERS = "admin ALL=(root) NOPASSWD: /usr/bin/python3\n"
NODE = "/opt/maxq/venv/bin/python -m maxq.reference {role} --config /host/{name}.conf"
ENVIRONMENT = "env PYTHONPATH=/opt/maxq/lib "


def ssh_image() -> str:
    """The image of a host, built where it is not there."""
    engine = docker_engine.connect()
    try:
        machine = image.ensure_image(engine, None, image.quiet)
        sources = {"Dockerfile": (FILES / "Dockerfile").read_bytes()}
        tag = image.tag_of(sources, machine, name="maxq-ssh-host")
        if not engine.has_image(tag):
            engine.build(
                tag, image.pack(sources), {"MACHINE": machine, **image._proxies()}, image.quiet
            )
        return tag
    finally:
        engine.close()


def new_key(path: Path) -> paramiko.PKey:
    """A private key, in a file."""
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(str(path))
    return key


class Hosts:
    """Hosts in an internal network.

    Args:
        folder: what they are shown of this machine.
        image: of all of them.
    """

    def __init__(self, folder: Path, image: str) -> None:
        self.api, self.folder, self.image = APIClient(version="auto"), folder, image
        self.run = f"host-{secrets.token_hex(3)}"
        engine = docker_engine.connect()
        try:
            self.subnet = free_subnets(24, engine.networks())[-1]
        finally:
            engine.close()
        pool = IPAMPool(subnet=str(self.subnet))
        self.api.create_network(self.run, internal=True, ipam=IPAMConfig(pool_configs=[pool]))
        self.login = folder / "id"
        self.public = _line(new_key(self.login))
        self.known = folder / "known_hosts"
        self.at: dict[str, str] = {}

    def add(self, name: str, units: Mapping[str, str], *, sudoers: str = SUDOERS) -> str:
        """Start a host with the next address, which is returned.

        Args:
            units: the command of each node.
        """
        at = self.at[name] = str(self.subnet[10 + len(self.at)])
        shown = self.folder / name
        (shown / "units").mkdir(parents=True, exist_ok=True)
        key = new_key(shown / "key")
        for unit, command in units.items():
            (shown / "units" / unit).write_text(command)
        (shown / "authorized_keys").write_text(f"{self.public}\n")
        (shown / "sudoers").write_text(sudoers)
        for script in ("systemctl", "supervisor"):
            shutil.copy(FILES / script, shown / script)
        with self.known.open("a") as known:
            known.write(f"{at} {_line(key)}\n")
        shared = {str(shown): {"bind": "/host", "mode": "ro"}}
        made = self.api.create_container(
            self.image, entrypoint=["sh"], command=["/host/supervisor"], name=f"{self.run}-{name}",
            host_config=self.api.create_host_config(
                binds=shared, network_mode=self.run, cap_add=["NET_ADMIN"], init=True,
            ),
            networking_config=self.api.create_networking_config(
                {self.run: self.api.create_endpoint_config(ipv4_address=at)}
            ),
        )  # fmt: skip
        self.api.start(made["Id"])
        return at

    def execute(self, name: str, *command: str) -> tuple[int, str]:
        """Run a program as root on a host; its exit code, and what it printed."""
        made = self.api.exec_create(f"{self.run}-{name}", list(command))
        said = self.api.exec_start(made["Id"]).decode(errors="replace")
        return self.api.exec_inspect(made["Id"])["ExitCode"], said

    def pid(self, name: str, unit: str) -> str:
        """The process of a node as the host numbers it, if it lives and nothing holds it."""
        script = f'p=$(cat /run/{unit}.pid) && grep -q "^State:.[SRD]" /proc/$p/status && echo $p'
        code, said = self.execute(name, "sh", "-c", script)
        return "" if code else said.strip()

    def rules(self, name: str) -> bool:
        """Whether rules of Max-Q are in force there."""
        return "maxq" in self.execute(name, "nft", "list", "tables")[1]

    def owes(self, name: str) -> bool:
        """Whether something is noted there that a run has taken."""
        return self.execute(name, "ls", "/run/maxq-owed.json")[0] == 0

    def pull(self, name: str) -> None:
        """Let no packet of ssh reach a host any more."""
        rules = (
            "add table inet cable; add chain inet cable in { type filter hook input priority -9; };"
            "add rule inet cable in tcp dport 22 drop"
        )
        assert self.execute(name, "nft", rules)[0] == 0

    def plug(self, name: str) -> None:
        """Let them reach it again."""
        assert self.execute(name, "nft", "delete table inet cable")[0] == 0

    def listens(self, name: str, port: int) -> bool:
        try:
            socket.create_connection((self.at[name], port), 1).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        for name in self.at:
            self.api.remove_container(f"{self.run}-{name}", force=True, v=True)
        self.api.remove_network(self.run)
        self.api.close()


class Pair:
    """A name server and a pair of brokers of the reference, each on a host of its own.

    Args:
        hosts: where.
    """

    units: Mapping[str, str] = {"n": "names", "a": "broker-a", "b": "broker-b"}

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        first = str(hosts.subnet[10])
        self._node("n", "namesrv", {"listenPort": 9876, "supportActingMaster": "true"})
        assert eventually(lambda: hosts.listens("n", 9876), START_S), "or brokers wait 10 s for it"
        for number, name in enumerate("ab"):
            self._node(name, "broker", {
                "brokerClusterName": "mine", "brokerName": "broker-x", "brokerId": number,
                "brokerRole": "SLAVE" if number else "SYNC_MASTER", "inSyncReplicas": 2,
                "namesrvAddr": f"{first}:9876", "enableSlaveActingMaster": "true",
                "storePathRootDir": "/tmp/store", "totalReplicas": 2,
                "brokerHeartbeatInterval": 500, "syncBrokerMetadataPeriod": 500,
            })  # fmt: skip

    def _node(self, host: str, role: str, settings: Mapping[str, Any]) -> None:
        name = self.units[host]
        folder = self.hosts.folder / host
        folder.mkdir()
        lines = "".join(f"{key}={value}\n" for key, value in settings.items())
        (folder / f"{name}.conf").write_text(lines)
        self.hosts.add(host, {name: ENVIRONMENT + NODE.format(role=role, name=name)})

    def described(self, **other: Any) -> Existing:
        """The cluster, as a file has it; the name server by commands, brokers by units."""
        at, ssh = self.hosts.at, {name: f"admin@{at}:22" for name, at in self.hosts.at.items()}
        brokers = tuple(
            BrokerMember(
                name=self.units[name], address=f"{at[name]}:10911", set="broker-x", id=number,
                ssh=ssh[name], unit=f"{self.units[name]}.service",
            )
            for number, name in enumerate("ab")
        )  # fmt: skip
        names = Member(
            name="names", address=f"{at['n']}:9876", ssh=ssh["n"],
            start="sudo /usr/bin/python3 -c 'import os; open(\"/run/wanted/names\", \"w\")'",
            stop="sudo /usr/bin/python3 -c 'import os; os.unlink(\"/run/wanted/names\")'",
            pid="/run/names.pid",
        )  # fmt: skip
        files = SshFiles(key=str(self.hosts.login), known_hosts=str(self.hosts.known))
        return Existing(cluster="mine", namesrv=(names,), broker=brokers, ssh=files)

    def file(self) -> Path:
        """The file that describes it."""
        path = self.hosts.folder / "cluster.toml"
        path.write_text(written(self.described()))
        return path

    def pids(self) -> dict[str, str]:
        """The process of each node, by its host."""
        return {host: self.hosts.pid(host, unit) for host, unit in self.units.items()}

    def whole(self) -> bool:
        """Whether all nodes run, none is held, and no rule of Max-Q is in force."""
        return all(self.pids().values()) and not any(map(self.hosts.rules, self.units))


def _line(key: paramiko.PKey) -> str:
    return f"{key.get_name()} {key.get_base64()}"
