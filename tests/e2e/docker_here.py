"""Whether tests can have containers."""

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.environments.engine import client as docker_engine


def missing() -> str:
    """Why no containers can be had here; empty if they can."""
    try:
        docker_engine.connect().close()
    except EnvironmentUnavailable as error:
        return str(error)
    return ""
