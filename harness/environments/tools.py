"""What of this machine releases of Apache RocketMQ and Spark need: a JDK, Maven, fetched jars."""

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

from maxq.harness.targets.rocketmq.libraries import LIST, cache
from maxq.harness.targets.rocketmq.releases import COMPONENTS, NODE_COMPONENTS
from maxq.spark_checkers.session import missing

JAVA_S_MAX = 10
JAVA_MIN = 8  # of RocketMQ; Spark asks for more itself
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def found() -> Iterator[tuple[bool, str]]:
    """Whether each thing is there, and what that means, a line each."""
    yield _java()
    maven = shutil.which("mvn")
    yield (
        (True, f"maven: {maven}, which fetches releases that are not here yet")
        if maven
        else (False, "maven: there is no mvn (package maven) to fetch releases of RocketMQ")
    )
    yield _releases(cache())
    why = missing()
    yield not why, f"spark: {why or '`maxq check --engine spark` works'}"


def _java() -> tuple[bool, str]:
    home = os.environ.get("JAVA_HOME")
    inside = Path(home, "bin", "java") if home else None
    java = str(inside) if inside is not None and inside.exists() else shutil.which("java")
    if java is None:
        return False, "java: none is here (package openjdk-17-jdk-headless); RocketMQ in local, " \
                      "and Spark, need one; in docker the image has its own"  # fmt: skip
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True,
                              timeout=JAVA_S_MAX)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"java: {java} does not run: {error}"
    version = _VERSION.search(done.stderr)
    if version is None:
        return False, f"java: {java} does not say its version"
    number = int(version[1])
    compiler = shutil.which("javac") or (inside is not None and inside.with_name("javac").exists())
    kind = "a JDK" if compiler else "no JDK: without javac our tests of Java clients are skipped"
    return number >= JAVA_MIN, f"java: {java}, version {number}, {kind}"


def _releases(folder: Path) -> tuple[bool, str]:
    """The releases of which something is in the cache; of those that lack nodes, what there is."""
    here: dict[str, list[str]] = {}
    for list_of_jars in folder.glob(f"*/{LIST}"):
        component, _, release = list_of_jars.parent.name.partition("-")
        if component in COMPONENTS:
            here.setdefault(release, []).append(component)
    if not here:
        what = ", ".join(COMPONENTS)
        return False, f"rocketmq: no release is in {folder} yet ({what}); the first run fetches it"
    said = (f"{release}{_part(here[release])}" for release in sorted(here, key=_in_order))
    return True, f"rocketmq: in {folder} are {', '.join(said)}"


def _part(fetched: Collection[str]) -> str:
    """What there is of a release, where that is not enough for every cluster."""
    if set(NODE_COMPONENTS) <= set(fetched):
        return ""
    return f" ({' and '.join(name for name in COMPONENTS if name in fetched)} only)"


def _in_order(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]
