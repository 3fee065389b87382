"""Which releases of Apache RocketMQ there are, and of what release each component of one is taken.

Not every component of every release is on Maven Central; one that is missing is taken from the
nearest release that has it, and a run names the release of each. Measured in 2026: see `MISSING`.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from maxq.harness.contracts.nearest import nearest

REFERENCE = "reference"
# In order. What is missing of each: nothing, of most.
MISSING: dict[str, tuple[str, ...]] = {
    "5.0.0": (),
    "5.1.0": (),
    "5.1.1": (),
    "5.1.3": ("namesrv", "controller", "tools", "container"),
    "5.1.4": ("container",),
    "5.2.0": (),
    "5.3.0": ("namesrv", "controller", "tools", "container"),
    "5.3.1": ("namesrv", "container"),
    "5.3.2": ("namesrv", "controller", "tools", "container"),
    "5.3.3": (),
    "5.3.4": ("tools",),
    "5.4.0": (),
    "5.5.0": (),
    "5.5.1": ("namesrv", "tools", "container"),
}
# Those of which the name server is driven, and nothing else: it knows no member groups, no
# heartbeats and no slaves that act for a master, as name servers before 5.0.0 do.
OLD_NAMESRVS = ("4.9.7",)
# Of what release a component's own dependencies are, where Maven Central lacks some of its own;
# without them Maven finds no component of that release at all.
DEPENDENCIES: dict[str, dict[str, str]] = {
    "5.3.4": dict.fromkeys(
        ("remoting", "tiered-store", "client", "srvutil", "filter", "auth", "tools"), "5.3.3"
    ),
    "5.5.1": dict.fromkeys(("client", "srvutil", "filter", "auth", "tools"), "5.5.0")
    | dict.fromkeys(("common", "remoting", "store"), "5.5.1"),
}
LATEST = "latest"  # the newest that is known here
NODE_COMPONENTS = ("namesrv", "controller", "broker")  # what nodes are started from
COMPONENTS = (*NODE_COMPONENTS, "tools")
JRAFT_SINCE = "5.2.0"
IDS_SINCE = "5.1.1"
# Seconds that a slave may lag, where a release needs more than the timing that is asked for.
CATCH_UP_S = {"5.0.0": 15}
BACK_ENDS = ("dledger", "jraft")
PREFIX = "rocketmq:"
FIRST_NUMBER = 413  # of 5.0.0 among RocketMQ's MQVersion; each release has a snapshot before it
PATCHES = MINORS = 10  # that a minor release, and a major one, have there
_SPELLED = re.compile(
    r"rocketmq:(?P<release>[0-9]+(\.[0-9]+)*(-[\w.-]+)?|latest)(:(?P<back_end>[a-z]+))?"
    r"(@(?P<folder>/.*))?"
)
SNAPSHOT = "-SNAPSHOT"


class Version(msgspec.Struct, frozen=True):
    """What to run: a release, and what its controllers agree by; with a `folder`, a distribution
    that is there, of that release or built from its sources."""

    release: str
    back_end: str = "dledger"
    folder: str = ""

    def __str__(self) -> str:
        more = "" if self.back_end == "dledger" else f":{self.back_end}"
        return f"rocketmq:{self.release}{more}{'@' if self.folder else ''}{self.folder}"


def parse(text: str) -> Version:
    """What ``rocketmq:5.5.0``, ``rocketmq:5.4.0:jraft`` or ``rocketmq:latest`` names.

    Raises:
        ValueError: there is no such release, or it has no such back end; says what there is.
    """
    found = _SPELLED.fullmatch(text)
    if found is None and "," in text:
        one, _, others = text.partition(",")
        raise ValueError(
            f"{text!r} is no target, which is one release; give nodes others by "
            f"--target {one} --release {others}"
        )
    if found is None:
        raise ValueError(
            f"{text!r} is no target; write reference, rocketmq:RELEASE, rocketmq:RELEASE:jraft, or "
            "rocketmq:DIR with the folder of a distribution"
        )
    version = Version(
        _release(found["release"]), found["back_end"] or "dledger", found["folder"] or ""
    )
    if not version.folder and version.release not in (*MISSING, *OLD_NAMESRVS):
        close = nearest(version.release, MISSING)
        raise ValueError(f"no release {version.release}{close}; there are: {', '.join(MISSING)}")
    if version.back_end not in BACK_ENDS:
        raise ValueError(f"controllers agree by {' or '.join(BACK_ENDS)}, not {version.back_end}")
    if version.back_end == "jraft" and ordered(version.release) < ordered(JRAFT_SINCE):
        raise ValueError(f"controllers have jraft since {JRAFT_SINCE}, not in {version.release}")
    return version


def spelled(text: str) -> str:
    """The target that a release of ``--release`` names: ``reference``, ``5.1.0``, ``latest``.

    Raises:
        ValueError: there is no such release; says what there is.
    """
    if text == REFERENCE:
        return REFERENCE
    if not text.removeprefix(PREFIX)[:1].isdecimal() and text.removeprefix(PREFIX) != LATEST:
        known = (REFERENCE, LATEST, *MISSING)
        raise ValueError(f"no release {text!r}{nearest(text, known)}; there are: "
                         f"{', '.join(known)}")  # fmt: skip
    return str(parse(text if text.startswith(PREFIX) else f"{PREFIX}{text}"))


def misplaced(releases: Mapping[str, str], nodes: Iterable[str]) -> str:
    """Which of the nodes or components that have a release of their own is none; empty: all are.

    Args:
        releases: by component or name of a node.
        nodes: the names of all nodes.
    """
    known = (*NODE_COMPONENTS, *nodes)
    for name in releases:
        if name not in known:
            return (
                f"--release: no component or node {name!r}{nearest(name, known)}; components: "
                f"{', '.join(NODE_COMPONENTS)}; nodes: {', '.join(known[len(NODE_COMPONENTS) :])}"
            )
    return ""


def not_driven(running: Iterable[tuple[str, str]]) -> str:
    """Which component of a release is asked for that is not driven; empty: none.

    Args:
        running: a component of a node, and the target that the node is to be.
    """
    for component, target in running:
        release = release_of(target) or ""
        if release in OLD_NAMESRVS and component not in components(release):
            return f"of {release} only the name server is driven, not the {component}"
    return ""


def excluded(
    targets: Sequence[str], environment: str, mutant: str, own: Collection[str] = ()
) -> str:
    """What was asked for beside other targets than our reference that only that can do; empty:
    nothing.

    Args:
        targets: of all nodes, those of a schedule's acts included.
        environment: where they run.
        mutant: a seeded bug; empty: none.
        own: the targets that are neither the reference nor releases of Apache RocketMQ.

    Raises:
        ValueError: as `parse`.
    """
    others = [target for target in targets if target != REFERENCE]
    for target in others:
        if target not in own:
            parse(target)
    if not others:
        return ""
    if environment == "simulated":
        return f"the simulator is for our reference, not for target {others[0]}"
    return f"seeded bugs are for our reference, not for target {others[0]}" if mutant else ""


def version_number(release: str) -> int:
    """The number by which RocketMQ's headers name a release: 435 for 5.1.1."""
    major, minor, patch = (*ordered(release), 0, 0)[:3]
    number = FIRST_NUMBER + 2 * (PATCHES * (MINORS * (major - 5) + minor) + patch)
    return number - release.endswith(SNAPSHOT)


def version_name(number: int) -> str:
    """The release of such a number, or the number itself where it is none of 5.x."""
    minor, patch = divmod((number - FIRST_NUMBER) // 2, PATCHES)
    known = number >= FIRST_NUMBER and (number - FIRST_NUMBER) % 2 == 0
    return f"5.{minor}.{patch}" if known else str(number)


def release_of(target: str) -> str | None:
    """The release that a target is of; None of what is none of Apache RocketMQ."""
    found = _SPELLED.fullmatch(target)
    return None if found is None else _release(found["release"])


def lacks_ids(target: str) -> bool:
    """Whether brokers of a target have no ids of their own: whoever asks controllers about them is
    told addresses."""
    release = release_of(target)
    return release is not None and ordered(release) < ordered(IDS_SINCE)


def catch_up_s(target: str) -> float:
    """How long a slave of a target may lag at least, whatever the timing; 0: as the timing says."""
    return CATCH_UP_S.get(release_of(target) or "", 0)


def _release(spelled: str) -> str:
    return [*MISSING][-1] if spelled == LATEST else spelled


def ordered(release: str) -> tuple[int, ...]:
    """A key by which releases are in order of their numbers."""
    return tuple(map(int, release.partition("-")[0].split(".")))


def components(release: str) -> dict[str, str]:
    """Of what release each component is taken: its own, else the nearest that has it, the older of
    two that are equally near. Of an old name server's release there is no other one."""
    if release in OLD_NAMESRVS:
        return {NODE_COMPONENTS[0]: release}
    return {name: nearest_having(name, release) for name in COMPONENTS}


def nearest_having(component: str, release: str) -> str:
    """The release of which a component is taken that stands for one."""
    order = list(MISSING)
    have = [r for r in order if component not in MISSING[r]]
    return min(have, key=lambda r: abs(order.index(r) - order.index(release)))
