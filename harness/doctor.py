"""What this machine can host, found out by trying."""

import msgspec

from harness.environments import local
from harness.environments.api import EnvironmentUnavailable


class Finding(msgspec.Struct, frozen=True):
    """One environment: whether it works here, and what is missing or given."""

    environment: str
    works: bool
    text: str


def examine() -> list[Finding]:
    """Try every environment."""
    return [_local(), Finding("simulated", True, "needs nothing; can kill, restart")]


def _local() -> Finding:
    try:
        local.check()
    except EnvironmentUnavailable as error:
        return Finding("local", False, str(error))
    able = ", ".join(sorted(c.value for c in local.COULD - local.lacking().keys()))
    text = f"namespaces can be made; can {able}"
    for capability, why in local.lacking().items():
        text += f"; cannot {capability.value}: {why}"
    return Finding("local", True, text)
