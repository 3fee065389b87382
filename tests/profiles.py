"""What checkers are told of a run under a profile."""

from typing import Any

from maxq.checkers.core.api import Context
from maxq.harness.contracts.target import Profile, Settings, Topology
from maxq.harness.targets.reference import effective


def settings(profile: Profile, **keys: str) -> dict[str, str]:
    """The effective settings of a profile; keys are more of them, role and name joined by `__`."""
    more = {name.replace("__", ":"): value for name, value in keys.items()}
    return effective(Settings(topology=Topology(), profile=profile, keys=more))


def under(profile: Profile, **more: Any) -> Context:
    """A context with a profile's settings."""
    return Context(settings=settings(profile), profile=profile, **more)
