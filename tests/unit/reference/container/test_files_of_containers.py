"""A container's files: what is refused before anything runs, by file and line."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from maxq.reference.__main__ import make_node
from maxq.reference.config import ConfigError, ContainerConfig
from maxq.reference.container.files import FILE_BYTES_MAX, read_broker
from maxq.reference.container.server import Container
from maxq.reference.host import RealHost
from maxq.reference.node_file import parse_node

GiB = 1 << 30


class Files:
    """A folder with a container's file and two brokers' files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.container = {
            "listenPort": "10811",
            "brokerConfigPaths": f"{folder}/x.conf:{folder}/y.conf",
        }
        self.x = self.of("x", 10911)
        self.y = self.of("y", 10921)

    def of(self, name: str, port: int) -> dict[str, str]:
        return {
            "brokerClusterName": "c",
            "brokerName": name,
            "brokerId": "0",
            "listenPort": str(port),
            "storePathRootDir": f"{self.folder}/{name}",
        }

    def write(self) -> None:
        for name, settings in (("k", self.container), ("x", self.x), ("y", self.y)):
            text = "".join(f"{key}={value}\n" for key, value in settings.items())
            path = self.folder / f"{name}.conf"
            if not path.exists():
                path.write_text(text)

    def load(self) -> Container:
        self.write()
        file = str(self.folder / "k.conf")
        configs, _ = parse_node("container", Path(file).read_bytes(), file)
        node = make_node(configs, RealHost(seed=1), file=file)
        assert isinstance(node, Container)
        return node

    def listed(self, *paths: str) -> None:
        self.container["brokerConfigPaths"] = ":".join(paths)


def instead(make: Callable[[Path], object]) -> Callable[[Files], object]:
    """Something else than settings at the place of y's file."""
    return lambda files: make(files.folder / "y.conf")


def sized(path: Path) -> None:
    """A file of 1 GiB, which takes no place on the disk."""
    with path.open("wb") as file:
        file.truncate(GiB)


ROWS: dict[str, tuple[Callable[[Files], object], str]] = {
    "a path twice": (
        lambda f: f.listed(f"{f.folder}/x.conf", f"{f.folder}/y.conf", f"{f.folder}/x.conf"),
        "k.conf:2: brokerConfigPaths: '{}/x.conf': it is there twice",
    ),
    "a relative path": (
        lambda f: f.listed("x.conf"),
        "k.conf:2: brokerConfigPaths: 'x.conf': not an absolute path",
    ),
    "a path with ..": (
        lambda f: f.listed(f"{f.folder}/../x.conf"),
        "k.conf:2: brokerConfigPaths: '{}/../x.conf': a path with .. in it",
    ),
    "no file": (lambda f: f.listed(f"{f.folder}/z.conf"),
                "{}/z.conf: No such file or directory"),
    "a folder": (instead(Path.mkdir), "{}/y.conf: Is a directory"),
    "a pipe": (instead(os.mkfifo), "{}/y.conf: Invalid argument"),
    "an empty file": (instead(Path.touch), "{}/y.conf: there is no key in it"),
    "1 GiB": (instead(sized), "{}/y.conf: File too large"),
    "no text": (instead(lambda p: p.write_bytes(b"\xff")), "{}/y.conf: properties is not UTF-8"),
    "a typing error": (lambda f: f.y.update(brokerNme="y"),
                       "{}/y.conf:6: unknown key brokerNme; did you mean brokerName"),
    "the same identity": (lambda f: f.y.update(brokerName="x"),
                          "{}/y.conf:2: c_x_0 has already been added to current broker container"),
    "1 port apart": (lambda f: f.y.update(listenPort="10912"),
                     "{}/y.conf:4: The port 10912 already in use by c_x_0"),
    "2 ports apart": (lambda f: f.y.update(listenPort="10913"),
                      "{}/y.conf:4: The port 10911 already in use by c_x_0"),
    "3 ports apart": (lambda f: f.y.update(listenPort="10914"),
                      "{}/y.conf:4: The port 10912 already in use by c_x_0"),
    "the container's port": (lambda f: f.y.update(listenPort="10811"),
                             "{}/y.conf:4: The port 10811 already in use by the container"),
    "a port without a next one": (lambda f: f.y.update(listenPort="65535"),
                                  "{}/y.conf:4: listenPort=65535: not at most 65534"),
    "one store": (lambda f: f.y.update(storePathRootDir=f"{f.folder}/x"),
                  "{}/y.conf:5: the store {}/x is that of c_x_0"),
    "one commit log": (lambda f: f.y.update(storePathCommitLog=f"{f.folder}/x/commitlog/"),
                       "{}/y.conf:5: the store {}/x/commitlog is that of c_x_0"),
    "DLedger": (lambda f: f.y.update(enableDLegerCommitLog="true"),
                "{}/y.conf:6: enableDLegerCommitLog=true: no container here runs DLedger"),
    "duplication": (lambda f: f.y.update(duplicationEnable=" TRUE"),
                    "{}/y.conf:6: duplicationEnable=TRUE: a container takes no such broker"),
    "a slave with a master's id": (lambda f: f.y.update(brokerRole="SLAVE"),
                                   "{}/y.conf:3: brokerId=0"),
    "a master with a slave's id": (lambda f: f.y.update(brokerId="1"),
                                   "{}/y.conf:3: brokerId=1 is a slave's"),
    "more copies than replicas": (
        lambda f: f.y.update(totalReplicas="2", inSyncReplicas="3", brokerRole="SYNC_MASTER"),
        "{}/y.conf:6: minInSyncReplicas=1, inSyncReplicas=3, totalReplicas=2 do not ascend"),
    "controllers without an address": (lambda f: f.y.update(enableControllerMode="true"),
                                       "{}/y.conf: enableControllerMode=true needs"),
    "no share of the partition": (
        lambda f: f.y.update(quotaPercentForDiskPartition="0"),
        "{}/y.conf:6: quotaPercentForDiskPartition=0: not above 0"),
    "more than the partition": (
        lambda f: f.y.update(quotaPercentForDiskPartition="1.5"),
        "{}/y.conf:6: quotaPercentForDiskPartition=1.5: not at most 1"),
    "two shares": (
        lambda f: f.y.update(replicasPerDiskPartition="2", quotaPercentForDiskPartition="0.4"),
        "{}/y.conf:7: quotaPercentForDiskPartition=0.4 is another share of the partition than"),
    "the container's own typing error": (lambda f: f.container.update(brokerConfigPath="x"),
                                         "k.conf:3: unknown key brokerConfigPath; did you mean"),
    "the container's own port": (lambda f: f.container.update(listenPort="2"),
                                 "k.conf:1: listenPort=2: not at least 3"),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_files_that_cannot_be_used_are_refused_by_file_and_line(tmp_path: Path, row: str) -> None:
    change, why = ROWS[row]
    files = Files(tmp_path)
    change(files)
    with pytest.raises(ConfigError) as caught:
        files.load()
    assert why.replace("{}", str(tmp_path)) in str(caught.value)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """root reads all, so the kernel's refusal stands in for it."""
    host = RealHost(seed=1)

    class Denying:
        def read(self, path: str, bytes_max: int) -> bytes:
            raise PermissionError(13, os.strerror(13), path)

    host._disk = Denying()  # type: ignore[assignment]
    with pytest.raises(ConfigError, match=r"/x\.conf: Permission denied"):
        read_broker(host.disk, "/x.conf", ContainerConfig())


def test_a_file_need_not_be_writable_and_may_be_as_long_as_comments_make_it(
    tmp_path: Path,
) -> None:
    files = Files(tmp_path)
    files.write()
    path = tmp_path / "y.conf"
    path.write_text(path.read_text().ljust(FILE_BYTES_MAX - 1, "#") + "\n")
    path.chmod(0o444)
    assert [file.member.port for file in files.load()._listed] == [10911, 10921]


def test_a_broker_listens_and_registers_as_its_container_says(tmp_path: Path) -> None:
    """What its file says of that has no effect, and one warning each."""
    files = Files(tmp_path)
    files.container |= {"namesrvAddr": "127.0.0.1:1;127.0.0.1:2", "bindAddress": "127.0.0.1"}
    files.x |= {"namesrvAddr": "10.0.0.1:9876", "bindAddress": "10.0.0.2", "haListenPort": "7",
                "serverWorkerThreads": "3", "fetchNamesrvAddrByAddressServer": "true"}  # fmt: skip
    files.y |= {"haListenPort": "10922"}
    x, y = files.load()._listed
    assert (x.config.namesrv_addr, x.config.bind_address, x.config.ha_listen_port) == (
        "127.0.0.1:1;127.0.0.1:2", "127.0.0.1", 10912,
    )  # fmt: skip
    own, ignored = "is the container's to decide; ignored", "is used by the Java system only"
    expected = [
        f"x.conf:9: serverWorkerThreads {ignored}",
        f"x.conf:10: fetchNamesrvAddrByAddressServer {ignored}",
        f"x.conf:7: bindAddress {own}",
        f"x.conf:6: namesrvAddr {own}",
        "x.conf:8: haListenPort is listenPort + 1 in a container; ignored",
    ]
    assert len(x.warnings) == len(expected)
    assert all(said in warning for said, warning in zip(expected, x.warnings, strict=True))
    assert (y.config.ha_listen_port, y.warnings) == (10922, ())


def test_keys_of_javas_container_are_accepted(tmp_path: Path) -> None:
    """Nobody outside is asked for name servers, as by brokers."""
    text = b"fetchNamesrvAddrByAddressServer=true\nrocketmqHome=/x\nserverSelectorThreads=9\n"
    _, warnings = parse_node("container", text, "k.conf")
    assert [warning.split()[1] for warning in warnings] == [
        "fetchNamesrvAddrByAddressServer", "rocketmqHome", "serverSelectorThreads",
    ]  # fmt: skip
