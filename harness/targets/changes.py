"""What a run changes of an operator's settings, and of what RocketMQ ships: from nodes' own files.

Max-Q lays out the cluster itself, shortens time-outs so that more happens in a run, and makes
files small, so that stores can be collected. Each node's configuration as it is written is compared
with what was asked for and with the release's defaults, so nothing can be forgotten here.
"""

from collections.abc import Iterable, Iterator, Mapping

from maxq.harness.contracts.environment import Role
from maxq.harness.contracts.target import Node, Settings, Target, plan
from maxq.harness.targets import known_keys
from maxq.harness.targets.reference import KEEPING, PAIR_TIMINGS, TIMINGS
from maxq.harness.targets.settings_files import OWN
from maxq.reference.java_keys import LOCK_LEASE, MACHINE
from maxq.reference.wire.files import decode_properties

TIMES = "periods and time-outs, so that more happens (unless --timing stock)"
SIZES = "sizes and the timer, so that stores stay small"
DISK = "limits on disk use, since this machine's may be full"
# What is neither: the harness's own, and no setting of a cluster.
APART = frozenset({LOCK_LEASE})
_TIMED = {key for of in TIMINGS.values() for keys in of.values() for key in keys}
_TIMED |= {key for keys in PAIR_TIMINGS.values() for key in keys}
# What is set one by one for each run or each node, as its topology says.
LAID_OUT = frozenset({"totalReplicas"})


def written(node: Node, settings: Settings, target: Target) -> dict[str, str]:
    """A node's configuration as it would be written, by key."""
    addresses = dict.fromkeys((n.name for n in plan(settings.topology)), "198.18.0.1")
    lines = decode_properties(target.config(node, settings, addresses, "/data").encode())
    return {line.key: line.value for line in lines}


def changes(settings: Settings, target: Target) -> dict[str, dict[str, tuple[str, str]]]:
    """What is otherwise than as shipped, and was not asked for.

    Args:
        settings: of the run, whose `keys` were asked for.
        target: what runs.

    Returns:
        By reason: each key, with its value and the value that is shipped.
    """
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for node in plan(settings.topology):
        for key, value in written(node, settings, target).items():
            if not node.spare and not _expected(node, key, settings.keys):
                shipped = _shipped(node.roles, key, target.name)
                if shipped not in (None, MACHINE, value):
                    found.setdefault(_why(key), {})[key] = (value, shipped or "")
    return found


def _expected(node: Node, key: str, asked: Mapping[str, str]) -> bool:
    """Whether a key was asked for, or is Max-Q's to lay out."""
    names = (node.name, *(role.value for role in node.roles))
    if any(f"{name}:{key}" in asked for name in names):
        return True
    return key in APART or key in LAID_OUT or any(key in OWN[role] for role in node.roles)


def _shipped(roles: Iterable[Role], key: str, target: str) -> str | None:
    return next((v for r in roles if (v := known_keys.shipped(r, key, target)) is not None), None)


def _why(key: str) -> str:
    if key in _TIMED:
        return TIMES
    return DISK if key in KEEPING or key == "diskMaxUsedSpaceRatio" else SIZES


def said(settings: Settings, target: Target, *, whole: bool) -> Iterator[str]:
    """The same for people: how much is kept, what is changed and why; `whole`: each key by name."""
    kept = len({key.partition(":")[2] for key in settings.keys})
    found = sorted(changes(settings, target).items(), reverse=True)
    text = f"kept: {kept} setting{'' if kept == 1 else 's'} that you gave; changed: "
    text += "; ".join(f"{why}: {len(keys)}" for why, keys in found) or "nothing"
    yield text if whole or not found else f"{text} (--plan names them)"
    for why, keys in found if whole else ():
        each = ", ".join(f"{key}={value} of {was}" for key, (value, was) in sorted(keys.items()))
        yield f"  {why}: {each}"
