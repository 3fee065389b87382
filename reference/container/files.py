"""What a container reads: the list of files in its own one, and each file of a broker.

A broker's file has the keys of a broker that runs alone, but the container decides where its
brokers listen and which name servers they know. Files are read whole, and checked before anything
of them takes effect. Source: RIP-31; RocketMQ ``BrokerContainerStartup``,
``BrokerContainerProcessor.addBroker``; docs/spec/acting-master.md 2.
"""

from collections.abc import Mapping

import msgspec

from maxq.reference.config import BrokerConfig, ConfigError, ContainerConfig, parse_config
from maxq.reference.container.registry import Member, member_of
from maxq.reference.host import Disk
from maxq.reference.node_file import check_broker
from maxq.reference.records import Record, RemoteProtocolError
from maxq.reference.wire.files import decode_properties

FILE_BYTES_MAX = 1 << 20
PATHS = "brokerConfigPaths"
NO_PATH = "addBroker config path is empty"
NOTHING = "addBroker properties empty"
SLAVE_ID = "slave broker id must be > 0"
REPLICAS = "invalid replicas number"
_CONTAINERS_OWN = ("bindAddress", "namesrvAddr")
DUPLICATION = "Can not add broker to container when duplicationEnable is true currently"
# Keys whose value true makes a broker that no container here can hold: why, and RocketMQ's remark.
_REFUSED = {
    "enableDLegerCommitLog": ("no container here runs DLedger; use enableControllerMode", ""),
    "duplicationEnable": ("a container takes no such broker", DUPLICATION),
}


class BrokerFileError(ConfigError):
    """A broker's file that cannot be used.

    Args:
        said: file, line and what is wrong.
        remark: what RocketMQ's container says; empty if it does not look.
    """

    def __init__(self, said: str, remark: str = "") -> None:
        super().__init__(said)
        self.remark = f"{remark}: {said}" if remark else said


class BrokerFile(Record):
    """A broker's file, as it counts in a container."""

    path: str
    config: BrokerConfig
    member: Member
    warnings: tuple[str, ...]
    lines: Mapping[str, int]  # of its keys

    def where(self, key: str) -> str:
        """File and line of a key; the file, if it has none."""
        return f"{self.path}:{self.lines[key]}" if key in self.lines else self.path


def path_fault(path: str) -> str:
    """Why a container reads no file of this path; empty if it does.

    RocketMQ reads a relative one in its working directory, which who asks cannot know.
    """
    if not path.startswith("/"):
        return "not an absolute path"
    if ".." in path.split("/"):
        return "a path with .. in it"
    return "" if path.isprintable() else "a path with control characters"


def listed_paths(config: ContainerConfig, content: bytes, file: str) -> tuple[str, ...]:
    """The files of a container's brokers, in their order.

    Args:
        config: the container's.
        content: of the container's file.
        file: its name, for messages.

    Raises:
        ConfigError: one is there twice, or is none that a container reads.
    """
    where = f"{file}:{_lines(content, file).get(PATHS, 0)}: {PATHS}"
    found: list[str] = []
    for path in filter(None, map(str.strip, config.broker_config_paths.split(":"))):
        fault = "it is there twice" if path in found else path_fault(path)
        if fault:
            raise ConfigError(f"{where}: {path!r}: {fault}")
        found.append(path)
    return tuple(found)


def read_broker(disk: Disk, path: str, container: ContainerConfig) -> BrokerFile:
    """Read a broker's file.

    Raises:
        BrokerFileError: there is none, or it describes no broker that a container takes.
    """
    if not path:
        raise BrokerFileError(NO_PATH)
    if fault := path_fault(path):
        raise BrokerFileError(f"{path!r}: {fault}", NOTHING)
    try:
        content = disk.read(path, FILE_BYTES_MAX)
    except OSError as error:
        raise BrokerFileError(f"{path}: {error.strerror or error}", NOTHING) from None
    try:
        return _broker_of(content, path, container)
    except BrokerFileError:
        raise
    except ConfigError as error:
        raise BrokerFileError(str(error)) from None


def _broker_of(content: bytes, path: str, container: ContainerConfig) -> BrokerFile:
    config, warnings = parse_config(BrokerConfig, content, path)
    lines = _lines(content, path)
    if not lines:
        raise BrokerFileError(f"{path}: there is no key in it", NOTHING)
    _refuse_kinds(content, path)
    ours = msgspec.structs.replace(
        config,
        bind_address=container.bind_address,
        namesrv_addr=container.namesrv_addr,
        ha_listen_port=config.listen_port + 1,
    )
    file = BrokerFile(
        path=path, config=ours, member=member_of(ours), warnings=tuple(warnings), lines=lines
    )
    _refuse_numbers(file)
    late = check_broker(ours, content, path)
    return msgspec.structs.replace(
        file, warnings=(*warnings, *_without_effect(file, config), *late)
    )


def _lines(content: bytes, file: str) -> dict[str, int]:
    try:
        return {entry.key: entry.line for entry in decode_properties(content)}
    except RemoteProtocolError as error:
        raise ConfigError(f"{file}: {error}") from None


def _refuse_kinds(content: bytes, path: str) -> None:
    for entry in decode_properties(content):
        if entry.key in _REFUSED and entry.value.strip().lower() == "true":
            why, remark = _REFUSED[entry.key]
            said = f"{path}:{entry.line}: {entry.key}={entry.value}: {why}"
            raise BrokerFileError(said, remark)


def _refuse_numbers(file: BrokerFile) -> None:
    """Refuse what RocketMQ's container refuses with a remark of its own, before other checks."""
    c = file.config
    if not c.enable_controller_mode and c.broker_role == "SLAVE" and c.broker_id < 1:
        raise BrokerFileError(f"{file.where('brokerId')}: brokerId={c.broker_id}", SLAVE_ID)
    if not c.min_in_sync_replicas <= c.in_sync_replicas <= c.total_replicas:
        numbers = (
            f"minInSyncReplicas={c.min_in_sync_replicas}, inSyncReplicas={c.in_sync_replicas}, "
            f"totalReplicas={c.total_replicas} do not ascend"
        )
        raise BrokerFileError(f"{file.where('totalReplicas')}: {numbers}", REPLICAS)


def _without_effect(file: BrokerFile, config: BrokerConfig) -> list[str]:
    """Warnings about keys of a broker's file that a container decides."""
    said = [
        f"{file.where(key)}: {key} is the container's to decide; ignored"
        for key in _CONTAINERS_OWN
        if key in file.lines
    ]
    if config.ha_listen_port not in (0, file.config.ha_listen_port):
        where = file.where("haListenPort")
        said.append(f"{where}: haListenPort is listenPort + 1 in a container; ignored")
    return said
