"""Hosts on which a cluster cannot be tested: each is refused with what would mend it."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from hosts_here import image_or_why
from waiting import eventually

from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.existing import BrokerMember, Existing, Member, SshFiles, written
from maxq.harness.environments.attached.attached_hosts import AttachedHosts

MISSING = image_or_why()[1]
if not MISSING:
    from ssh_world import Hosts, new_key

BOUND_S = 40.0
IDLE = {"idle": "/usr/bin/python3 /host/listener"}
LISTENER = """import socket
listener = socket.create_server(("", 9876))
while True:
    listener.accept()[0].close()
"""
BASE = "no broker of .* answers"  # what is refused where nothing else is wrong: they are no nodes
pytestmark = [
    pytest.mark.docker,
    pytest.mark.timeout(120),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Hosts"]:
    """Two on which something listens; ``poor``, which may not become root."""
    found = Hosts(tmp_path_factory.mktemp("hosts"), image_or_why()[0])
    try:
        for name in ("n", "b", "poor"):
            (found.folder / name).mkdir()
            (found.folder / name / "listener").write_text(LISTENER)
        for name in "nb":
            found.add(name, IDLE)
        found.add("poor", IDLE, sudoers="")
        assert eventually(
            lambda: all(found.listens(name, port) for name in found.at for port in (22, 9876)),
            BOUND_S,
        )
        yield found
    finally:
        found.stop()


def cluster(hosts: "Hosts", *, on: str = "b", **broker: str) -> Existing:
    files = SshFiles(key=str(hosts.login), known_hosts=str(hosts.known))
    at = {name: f"admin@{address}" for name, address in hosts.at.items()}
    there = {"ssh": at[on], "unit": "idle.service", "address": f"{hosts.at[on]}:9876", **broker}
    return Existing(
        cluster="mine", ssh=files,
        namesrv=(
            Member(name="n", address=f"{hosts.at['n']}:9876", ssh=at["n"], unit="idle.service"),
        ),
        broker=(BrokerMember(name="b", set="x", id=0, **there),),
    )  # fmt: skip


def refused(found: Existing, folder: Path, capfd: pytest.CaptureFixture[str], why: str) -> str:
    """See that a test of a cluster is refused for a reason; what was said."""
    file = folder / "cluster.toml"
    file.write_text(written(found))
    asked = ["test", "--cluster", str(file), "--nemesis", "kill,partition", "--yes", "mine",
             "--store", str(folder / "runs")]  # fmt: skip
    capfd.readouterr()
    assert run_cli(asked) == 254
    said = capfd.readouterr().err
    assert re.search(why, said), said
    return said


class Case(NamedTuple):
    """A host that lacks something: what is done there to that end, and undone; and what is said."""

    broken: str
    mended: str
    why: str


@pytest.mark.parametrize(
    "case",
    [
        Case("mv /usr/bin/python3 /tmp/p", "mv /tmp/p /usr/bin/python3", "runs no Python 3: .*not"),
        Case("mv /usr/sbin/nft /tmp/n", "mv /tmp/n /usr/sbin/nft", "has no nft: install nftables"),
        Case("mv /usr/sbin/sshd /tmp/s; mv /usr/bin/sudo /tmp/u",
             "mv /tmp/s /usr/sbin/sshd; mv /tmp/u /usr/bin/sudo", "there is no sudo"),
    ],
    ids=["python", "nft", "sudo"],
)  # fmt: skip
def test_a_host_lacks_something(
    hosts: "Hosts", tmp_path: Path, capfd: pytest.CaptureFixture[str], case: Case
) -> None:
    assert hosts.execute("b", "sh", "-c", case.broken)[0] == 0
    try:
        refused(cluster(hosts), tmp_path, capfd, case.why)
    finally:
        hosts.execute("b", "sh", "-c", case.mended)
    refused(cluster(hosts), tmp_path, capfd, BASE)


def test_nothing_is_stored_on_a_host(
    hosts: "Hosts", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor is anything changed: no file there is newer than before, but what a login leaves."""
    hosts.execute("b", "sh", "-c", "touch /tmp/before")
    refused(cluster(hosts), tmp_path, capfd, BASE)
    left = ("/tmp/before", "/var/log/*", "/run/sudo*", "/run/motd*", "/host/*")
    where = "-xdev -newer /tmp/before -not -type d " + " ".join(f"-not -path '{p}'" for p in left)
    assert hosts.execute("b", "sh", "-c", f"find / /run /home {where}") == (0, "")


def test_the_line_for_sudo_is_the_right_one(
    hosts: "Hosts", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = refused(cluster(hosts, on="poor"), tmp_path, capfd, "is not root, and may not be")
    line = said.strip().splitlines()[-1]
    assert line == "admin ALL=(root) NOPASSWD: /usr/bin/python3"
    assert hosts.execute("poor", "sh", "-c", f"echo '{line}' >/etc/sudoers.d/maxq")[0] == 0
    refused(cluster(hosts, on="poor"), tmp_path, capfd, BASE)


def test_the_line_for_known_hosts_is_the_right_one(
    hosts: "Hosts", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    known = tmp_path / "known"
    known.write_text(hosts.known.read_text().splitlines()[0] + "\n")
    files = SshFiles(key=str(hosts.login), known_hosts=known.name)
    found = msgspec.structs.replace(cluster(hosts), ssh=files)
    said = refused(found, tmp_path, capfd, r"is not in .*known: .* SHA256:[\w+/]{43}, then add")
    line = said.strip().splitlines()[-1]
    assert line == hosts.known.read_text().splitlines()[1]
    with known.open("a") as file:
        file.write(f"{line}\n")
    refused(found, tmp_path, capfd, BASE)


def test_another_key_of_a_host_is_refused(
    hosts: "Hosts", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = hosts.known.read_text().splitlines()
    known = tmp_path / "known"
    known.write_text(f"{first}\n{second.split()[0]} {' '.join(first.split()[1:])}\n")
    files = SshFiles(key=str(hosts.login), known_hosts=str(known))
    found = msgspec.structs.replace(cluster(hosts), ssh=files)
    refused(found, tmp_path, capfd, "has another key than .* says: .*It may be another host")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda h: {"ssh": f"nobody-here@{h.at['b']}"}, "refuses the keys of .*id .*ssh-copy-id"),
        (lambda h: {"ssh": f"admin@{h.subnet[99]}"}, r"does not answer at port 22: .*Start it, or"),
        (lambda h: {"ssh": f"admin@{h.at['b']}:9876"}, "no login to .*; try: ssh -p 9876"),
        (lambda h: {"unit": "other.service"}, "systemctl cat other.service: No files found"),
        (lambda h: {"address": f"{h.at['b']}:1"}, "nobody listens at .*:1 on admin@.*: start it"),
        (lambda h: {"pid": "/run/none"}, "b: pid = '/run/none' says no process that lives"),
        (
            lambda h: {"address": f"{h.at['poor']}:9876"},
            r"known at .*, which admin@.* has not: pack",
        ),
    ],
    ids=["user", "down", "no-sshd", "unit", "silent", "pid", "address"],
)
def test_a_node_is_not_where_its_file_says(
    hosts: "Hosts", tmp_path: Path, capfd: pytest.CaptureFixture[str],
    change: Callable[["Hosts"], dict[str, str]], why: str,
) -> None:  # fmt: skip
    refused(cluster(hosts, **change(hosts)), tmp_path, capfd, why)


def test_another_key_of_a_user_is_refused(
    hosts: "Hosts", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    new_key(tmp_path / "other")
    files = SshFiles(key="other", known_hosts=str(hosts.known))
    found = msgspec.structs.replace(cluster(hosts), ssh=files)
    refused(found, tmp_path, capfd, r"refuses the keys of .*other .*: ssh-copy-id adds one, or")


def test_two_runs_do_not_test_one_host(
    hosts: "Hosts", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = cluster(hosts)

    async def main() -> None:
        first = AttachedHosts(found, tmp_path, say=lambda line: None)
        await first.up(())
        try:
            await asyncio.to_thread(
                refused, found, tmp_path, capfd, "another run of Max-Q tests admin@"
            )
        finally:
            await first.down()

    asyncio.run(main())
