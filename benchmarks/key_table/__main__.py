"""The keys of RocketMQ's configuration, by release: ``python -m benchmarks.key_table``.

Reads them from the configuration classes in the jars of each release (`Keys.java`), and prints the
table that ``reference/java_keys.tsv`` is. Each class is asked twice, in JVMs of other sizes, homes
and names, so that a default that depends on the machine is known for one: it is printed as ``*``.

    python -m benchmarks.key_table > reference/java_keys.tsv

With ``--counts`` it prints as Markdown how many keys of a release Max-Q does what with, from the
table as it is (docs/settings.md).
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from maxq.harness.contracts.environment import Role
from maxq.harness.targets.rocketmq.libraries import libraries
from maxq.harness.targets.rocketmq.releases import MISSING, ordered
from maxq.harness.targets.settings_files import Fate, fates

SOURCE = Path(__file__).with_name("Keys.java")
OLD = ("4.9.7",)  # of before 5.0, whose spellings many files have
RUN_S = 120
MACHINE = "*"
COMMON, REMOTING = "org.apache.rocketmq.common", "org.apache.rocketmq.remoting.netty"
SHARED = (f"{REMOTING}.NettyServerConfig", f"{REMOTING}.NettyClientConfig")
# What each program fills from its file, in this order.
CLASSES: dict[str, tuple[str, ...]] = {
    "namesrv": (f"{COMMON}.namesrv.NamesrvConfig", *SHARED),
    "controller": (
        f"{COMMON}.ControllerConfig",
        f"{COMMON}.JraftConfig",
        *SHARED,
    ),
    "broker": (
        f"{COMMON}.BrokerConfig",
        "org.apache.rocketmq.store.config.MessageStoreConfig",
        "org.apache.rocketmq.auth.config.AuthConfig",
        *SHARED,
    ),
    "container": ("org.apache.rocketmq.container.BrokerContainerConfig", *SHARED),
}
CONTAINERS = ("5.5.0",)  # of which containers are read: not every release has the artifact
JVMS = (
    ("-XX:ActiveProcessorCount=1", "-Duser.home=/a", "-Drocketmq.home.dir=/a"),
    ("-XX:ActiveProcessorCount=7", "-Duser.home=/b", "-Drocketmq.home.dir=/b"),
)
OWN_NAMES = ("brokerName", "brokerIP1", "brokerIP2")  # of the machine that asks


class Row(NamedTuple):
    """One key of one program: what its value is, and what it is where none is set."""

    role: str
    key: str
    type: str
    values: str
    default: str


def rows(release: str) -> list[Row]:
    """All keys of a release."""
    contained = release in CONTAINERS  # its jars hold a broker's
    jars = libraries("container" if contained else "broker", release)
    words = [f"{role}={name}" for role, names in CLASSES.items() for name in names
             if contained or role != "container"]  # fmt: skip
    first, second = (_said(jars, jvm, words) for jvm in JVMS)
    found: dict[tuple[str, str], Row] = {}
    for one, other in zip(first, second, strict=True):
        own = one.default != other.default or one.key in OWN_NAMES
        row = one._replace(default=MACHINE) if own else one
        if row.type == "string" or row[:2] not in found:  # of two setters: what takes any text
            found[row[:2]] = row
    return list(found.values())


def _said(jars: Path, jvm: Sequence[str], words: Sequence[str]) -> list[Row]:
    command = ["java", *jvm, "-cp", f"{jars}/*", str(SOURCE), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=True)
    lines = (line.split("\t") for line in done.stdout.splitlines())
    found = [Row(*line) for line in lines if len(line) == len(Row._fields)]
    return sorted(found, key=lambda row: row[:3])


def spans(releases: Sequence[str]) -> Iterator[str]:
    """A line for each key and each span of releases in which it is the same."""
    by_release = {release: {row[:2]: row for row in rows(release)} for release in releases}
    for role, key in sorted({name for found in by_release.values() for name in found}):
        begun: list[tuple[str, str, Row]] = []  # first, last, and what it was
        for n, release in enumerate(releases):
            row = by_release[release].get((role, key))
            if row is None:
                continue
            if begun and begun[-1][1:] == (releases[n - 1], row):
                begun[-1] = (begun[-1][0], release, row)
            else:
                begun.append((release, release, row))
        for first, last, row in begun:
            yield "\t".join((role, key, first, last, row.type, row.values, row.default))


def counts() -> Iterator[str]:
    """How many keys there are by release, and what becomes of them."""
    yield "| release | " + " | ".join(f"{role.value} keys" for role in Role) + " | "\
        + " | ".join(Fate) + " |"  # fmt: skip
    yield "|---" * (1 + len(Role) + len(Fate)) + "|"
    for release in MISSING:
        of = fates(release)
        every = sum(of.values(), Counter[Fate]())
        cells = [release, *(of[role].total() for role in Role), *(every[fate] for fate in Fate)]
        yield f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    if "--counts" in sys.argv[1:]:
        print("\n".join(counts()))
        return 0
    for line in spans(sorted((*OLD, *MISSING), key=ordered)):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
