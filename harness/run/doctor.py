"""What this machine can host, found out by trying."""

from collections.abc import Mapping

import msgspec

from harness.contracts.environment import Capability, Cut, EnvironmentUnavailable
from harness.environments import docker, local
from harness.environments.engine import image as docker_image
from harness.environments.engine.client import Engine, EngineFailed, connect
from harness.environments.engine.leaks import this_process
from harness.environments.machines.packet_filter import ruleset
from harness.environments.simulated import SimulatedEnvironment

TRIAL = "maxq-doctor"
RULES = ruleset([Cut(source="doctor", block="198.18.0.16/28", reset=True)])


class Finding(msgspec.Struct, frozen=True):
    """One environment: whether it works here, and what is missing or given."""

    environment: str
    works: bool
    text: str


def examine() -> list[Finding]:
    """Try every environment."""
    able = _able(SimulatedEnvironment.capabilities, {})
    return [_local(), _docker(), Finding("simulated", True, f"needs nothing; {able}")]


def _able(could: frozenset[Capability], lacking: Mapping[Capability, str]) -> str:
    text = f"can {', '.join(sorted(c.value for c in could - lacking.keys()))}"
    for capability, why in lacking.items():
        text += f"; cannot {capability.value}: {why}"
    return text


def _local() -> Finding:
    try:
        local.check()
    except EnvironmentUnavailable as error:
        return Finding("local", False, str(error))
    text = f"namespaces can be made; {_able(local.COULD, local.lacking())}"
    return Finding("local", True, text)


def _docker() -> Finding:
    try:
        engine = connect()
        try:
            return _engine(engine)
        finally:
            engine.close()
    except EnvironmentUnavailable as error:
        return Finding("docker", False, str(error))
    except EngineFailed as error:
        return Finding("docker", False, f"docker: {error}")


def _engine(engine: Engine) -> Finding:
    """What an engine that answers lacks."""
    text = f"engine {engine.version} answers"
    able = _able(docker.COULD, docker.lacking())
    image = docker_image.present(engine)
    if image is None:
        base = docker_image.default_base(engine)
        how = (
            f"no image for this source yet: the first run builds it from {base} (half a minute; "
            "where that cannot be pulled: --base-image, or as root docker/debootstrap-base)"
        )
        return Finding("docker", True, f"{text}; {how}; {able}")
    why = engine.try_command(image, ("nft", RULES), this_process().labels(TRIAL))
    if why:
        return Finding(
            "docker", False, f"docker: no packet rules can be made in containers ({why})"
        )
    return Finding("docker", True, f"{text}; {image} is there; {able}")
