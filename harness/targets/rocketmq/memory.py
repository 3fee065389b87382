"""How much memory a JVM of RocketMQ needs, as its settings have it, and whether the machine has it.

A heap that is small for production is enough here. What is held outside of it follows from the
keys: a transient store pool is `transientStorePoolSize` buffers of `mappedFileSizeCommitLog` bytes,
all taken and locked at the start; each thread that takes sends has a buffer of `maxMessageSize`.
Units: MiB.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from maxq.harness.contracts.environment import EnvironmentUnavailable, Role
from maxq.harness.contracts.target import Settings, plan
from maxq.harness.targets.reference import LOG_FILE_BYTES

MIB = 1 << 20
HEAPS = {Role.NAMESRV: (64, 128), Role.CONTROLLER: (64, 256), Role.BROKER: (256, 512)}
DIRECT = 512  # of a broker, without what its keys ask for
JVM = 250  # what any of them takes at least, a small heap included
MEMINFO = Path("/proc/meminfo")


class Held(NamedTuple):
    """What a broker holds outside of its heap, beside what any does: the transient store pool, and
    the buffers of threads; MiB."""

    pool: int
    buffers: int


def held(node: str, settings: Settings) -> Held:
    """What the keys of a broker ask for; of what is no number nothing."""
    keys = _keys(node, settings)
    pool = 0
    if keys.get("transientStorePoolEnable") == "true":
        size = _number(keys, "mappedFileSizeCommitLog", LOG_FILE_BYTES)
        pool = _number(keys, "transientStorePoolSize", 5) * size
    threads = _number(keys, "sendMessageThreadPoolNums", 0)
    buffers = threads * _number(keys, "maxMessageSize", 4 * MIB)
    return Held(-(-pool // MIB), -(-buffers // MIB))


def options(role: Role, node: str, settings: Settings) -> tuple[str, ...]:
    """The options of a node's JVM."""
    least, most = HEAPS[role]
    heap = (f"-Xms{least}m", f"-Xmx{most}m")
    if role is not Role.BROKER:
        return heap
    return (*heap, f"-XX:MaxDirectMemorySize={DIRECT + sum(held(node, settings))}m")


def of_container(brokers: int) -> tuple[str, ...]:
    """The options of a container's JVM with so many brokers."""
    least, most = HEAPS[Role.BROKER]
    return (
        f"-Xms{least}m",
        f"-Xmx{most * (brokers + 1) // 2}m",
        (f"-XX:MaxDirectMemorySize={DIRECT * brokers}m"),
    )


def refuse_what_does_not_fit(settings: Settings, free: int | None) -> None:
    """Refuse a cluster whose transient store pools do not fit into memory.

    Args:
        settings: of the cluster.
        free: MiB of the machine that are free; None: unknown.

    Raises:
        EnvironmentUnavailable: they do not; says how much is needed, and which keys ask for it.
    """
    nodes = plan(settings.topology)
    pools = {n.name: p for n in nodes if n.role is Role.BROKER
             if (p := held(n.name, settings).pool)}  # fmt: skip
    needed = sum(pools.values()) + JVM * len(nodes)
    if pools and free is not None and needed > free:
        each = max(pools.values())
        raise EnvironmentUnavailable(
            f"the nodes need {_gib(needed)} of memory, and {_gib(free)} are free: with "
            f"transientStorePoolEnable=true each of {len(pools)} brokers locks {_gib(each)} "
            "(transientStorePoolSize x mappedFileSizeCommitLog); make one of these smaller"
        )


def free_here(meminfo: Path = MEMINFO) -> int | None:
    """MiB of this machine that are free; None: unknown."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return None
    found = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return next((int(kib) >> 10 for kib in found), None)


def _keys(node: str, settings: Settings) -> dict[str, str]:
    """What was set for brokers, then for this one."""
    return {
        key.partition(":")[2]: value
        for whom in ("broker", node)
        for key, value in settings.keys.items()
        if key.startswith(f"{whom}:")
    }


def _number(keys: Mapping[str, str], key: str, default: int) -> int:
    value = keys.get(key, "")
    return int(value) if value.isdecimal() else default


def _gib(mib: int) -> str:
    return f"{mib / 1024:.1f} GiB"
