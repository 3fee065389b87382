"""Are the replicas of a set equal at the end of a run? Reads the stores that a run collected.

After the heal and the drain nobody writes any more, so all replicas of a set must hold the same
bytes up to the same end, under the same epochs. Files are compared without the zeros that they were
grown by. Offsets are bytes of the commit log.
"""

from pathlib import Path

from reference.records import RemoteProtocolError
from reference.wire.files import decode_epochs

LOG_FOLDER, EPOCH_FILE = "store/commitlog", "store/epochFileCheckpoint"


def differences(nodes: Path) -> list[str]:
    """Say how the replicas of each set differ; nothing where they are equal.

    Args:
        nodes: a run's folder of nodes; those named ``b<set>-<replica>`` are brokers.
    """
    sets: dict[str, list[Path]] = {}
    for node in sorted(nodes.glob("b*-*")):
        sets.setdefault(node.name.rpartition("-")[0], []).append(node)
    found = []
    for replicas in sets.values():
        first, *others = replicas
        for other in others:
            found += _differ(first, other)
    return found


def _differ(one: Path, two: Path) -> list[str]:
    found = []
    logs = _log(one), _log(two)
    who = f"{one.name} and {two.name}"
    for name in sorted(logs[0].keys() | logs[1].keys()):
        a, b = (log.get(name, b"") for log in logs)
        if a != b:
            found.append(f"{who}: logs of {int(name) + len(a)} and {int(name) + len(b)} bytes, "
                         f"first other byte at {int(name) + _first_other(a, b)}")  # fmt: skip
            break
    epochs = _epochs(one), _epochs(two)
    if epochs[0] != epochs[1]:
        found.append(f"{who}: epochs {epochs[0]} and {epochs[1]}")
    return found


def _log(node: Path) -> dict[str, bytes]:
    files = sorted(p for p in (node / LOG_FOLDER).glob("*") if p.name.isdecimal())
    return {p.name: data for p in files if (data := p.read_bytes().rstrip(b"\0"))}


def _first_other(a: bytes, b: bytes) -> int:
    both = min(len(a), len(b))
    return next((at for at in range(both) if a[at] != b[at]), both)


def _epochs(node: Path) -> tuple[tuple[int, int], ...] | str:
    path = node / EPOCH_FILE
    try:
        return tuple((e.epoch, e.start) for e in decode_epochs(path.read_bytes()))
    except (OSError, RemoteProtocolError) as error:
        return f"unreadable: {type(error).__name__}: {error}"
