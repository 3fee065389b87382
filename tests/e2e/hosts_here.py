"""Whether tests can have hosts with an sshd."""

from functools import cache

from docker_here import missing

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.environments.engine.client import EngineFailed


@cache
def image_or_why() -> tuple[str, str]:
    """The image of such a host, built at first; or why there is none."""
    if why := missing():
        return "", why
    try:
        from ssh_world import ssh_image
    except ImportError as error:
        return "", f"{error}: pip install --requirement constraints-ssh.txt"
    try:
        return ssh_image(), ""
    except (EngineFailed, EnvironmentUnavailable) as error:
        return "", f"no image with sshd: {error}"
