"""Which releases of Apache RocketMQ there are, and of what release each component of one is taken.

Not every component of every release is on Maven Central; one that is missing is taken from the
nearest release that has it, and a run names the release of each. Measured in 2026: see `MISSING`.
"""

import re

import msgspec

REFERENCE = "reference"
# In order. What is missing of each: nothing, of most.
MISSING: dict[str, tuple[str, ...]] = {
    "5.0.0": (),
    "5.1.0": (),
    "5.1.1": (),
    "5.1.3": ("namesrv", "controller", "tools"),
    "5.1.4": (),
    "5.2.0": (),
    "5.3.0": ("namesrv", "controller", "tools"),
    "5.3.1": ("namesrv",),
    "5.3.2": ("namesrv", "controller", "tools"),
    "5.3.3": (),
    "5.4.0": (),
    "5.5.0": (),
    "5.5.1": ("namesrv", "tools"),
}
# Of what release a component's own dependencies are, where Maven Central lacks some of its own;
# without them Maven finds no component of that release at all.
DEPENDENCIES: dict[str, dict[str, str]] = {
    "5.5.1": dict.fromkeys(("client", "srvutil", "filter", "auth", "tools"), "5.5.0")
    | dict.fromkeys(("common", "remoting", "store"), "5.5.1"),
}
LATEST = "latest"  # the newest that is known here
COMPONENTS = ("namesrv", "controller", "broker", "tools")
JRAFT_SINCE = "5.2.0"
IDS_SINCE = "5.1.1"
# Seconds that a slave may lag, where a release needs more than the timing that is asked for.
CATCH_UP_S = {"5.0.0": 15}
BACK_ENDS = ("dledger", "jraft")
_SPELLED = re.compile(r"rocketmq:(?P<release>[0-9]+(\.[0-9]+)*|latest)(:(?P<back_end>[a-z]+))?")


class Version(msgspec.Struct, frozen=True):
    """What to run: a release, and what its controllers agree by."""

    release: str
    back_end: str = "dledger"

    def __str__(self) -> str:
        more = "" if self.back_end == "dledger" else f":{self.back_end}"
        return f"rocketmq:{self.release}{more}"


def parse(text: str) -> Version:
    """What ``rocketmq:5.5.0``, ``rocketmq:5.4.0:jraft`` or ``rocketmq:latest`` names.

    Raises:
        ValueError: there is no such release, or it has no such back end; says what there is.
    """
    found = _SPELLED.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text!r} is no target; write reference, rocketmq:RELEASE, or rocketmq:RELEASE:jraft"
        )
    version = Version(_release(found["release"]), found["back_end"] or "dledger")
    if version.release not in MISSING:
        raise ValueError(f"no release {version.release}; there are: {', '.join(MISSING)}")
    if version.back_end not in BACK_ENDS:
        raise ValueError(f"controllers agree by {' or '.join(BACK_ENDS)}, not {version.back_end}")
    if version.back_end == "jraft" and ordered(version.release) < ordered(JRAFT_SINCE):
        raise ValueError(f"controllers have jraft since {JRAFT_SINCE}, not in {version.release}")
    return version


def excluded(target: str, environment: str, mutant: str) -> str:
    """What was asked for beside a release of Apache RocketMQ that only our reference can do; empty:
    nothing.

    Raises:
        ValueError: as `parse`.
    """
    if target == REFERENCE:
        return ""
    parse(target)
    if environment == "simulated":
        return f"the simulator is for our reference, not for target {target}"
    return f"seeded bugs are for our reference, not for target {target}" if mutant else ""


def lacks_ids(target: str) -> bool:
    """Whether brokers of a target have no ids of their own: whoever asks controllers about them is
    told addresses."""
    found = _SPELLED.fullmatch(target)
    return found is not None and ordered(_release(found["release"])) < ordered(IDS_SINCE)


def catch_up_s(target: str) -> float:
    """How long a slave of a target may lag at least, whatever the timing; 0: as the timing says."""
    found = _SPELLED.fullmatch(target)
    return CATCH_UP_S.get(_release(found["release"]), 0) if found is not None else 0


def _release(spelled: str) -> str:
    return [*MISSING][-1] if spelled == LATEST else spelled


def ordered(release: str) -> tuple[int, ...]:
    """A key by which releases are in order of their numbers."""
    return tuple(map(int, release.split(".")))


def components(release: str) -> dict[str, str]:
    """Of what release each component is taken: its own, else the nearest that has it, the older of
    two that are equally near."""
    return {name: _nearest(name, release) for name in COMPONENTS}


def _nearest(component: str, release: str) -> str:
    order = list(MISSING)
    have = [r for r in order if component not in MISSING[r]]
    return min(have, key=lambda r: abs(order.index(r) - order.index(release)))
