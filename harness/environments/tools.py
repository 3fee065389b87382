"""What of this machine some runs need: a JDK, Maven, fetched jars, toxiproxy; and Spark."""

import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from maxq.harness.environments.machines import toxiproxy_server
from maxq.harness.targets.rocketmq.libraries import LIST, cache
from maxq.harness.targets.rocketmq.releases import COMPONENTS, NODE_COMPONENTS
from maxq.spark_checkers.session import missing

JAVA_S_MAX = 10
JAVA_MIN, SPARK_JAVA_MIN = 8, 17  # of RocketMQ, and of Spark
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def found() -> Iterator[tuple[bool, str]]:
    """Whether each thing is there, and what that means, a line each."""
    java = _java()
    yield java.enough, java.said
    maven = shutil.which("mvn")
    yield (
        (True, f"maven: {maven}, which fetches releases that are not here yet")
        if maven
        else (False, "maven: there is no mvn (package maven) to fetch releases of RocketMQ")
    )
    yield _releases(cache())
    yield _toxiproxy()
    why = missing()
    if not why and 0 < java.version < SPARK_JAVA_MIN:
        why = (
            f"Java {java.version} is too old for it: install {SPARK_JAVA_MIN} or later, or set "
            "JAVA_HOME"
        )
    yield not why, f"spark: {why or '`maxq check --engine spark` works'}"


def _toxiproxy() -> tuple[bool, str]:
    """What makes ways slow on real machines."""
    lack, server = toxiproxy_server.lacking(), toxiproxy_server.found()
    if lack is not None:
        return False, f"toxiproxy: {lack}; `--nemesis delay` needs it on real machines"
    if server is None:
        version = toxiproxy_server.VERSION
        return True, f"toxiproxy: the first run with slow links builds {version}, with Go"
    return True, f"toxiproxy: {toxiproxy_server.described(server)}"


class _Java(NamedTuple):
    """Whether RocketMQ runs on it, what to say, and its version; 0: it has none."""

    enough: bool
    said: str
    version: int = 0


def _java() -> _Java:
    home = os.environ.get("JAVA_HOME")
    inside = Path(home, "bin", "java") if home else None
    java = str(inside) if inside is not None and inside.exists() else shutil.which("java")
    if java is None:
        where = "RocketMQ in local, and Spark, need one; in docker the image has its own"
        return _Java(False, f"java: none is here (package openjdk-17-jdk-headless); {where}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True,
                              timeout=JAVA_S_MAX)  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return _Java(False, f"java: {java} does not run: {error}")
    version = _VERSION.search(done.stderr)
    if version is None:
        return _Java(False, f"java: {java} does not say its version")
    number = int(version[1])
    compiler = shutil.which("javac") or (inside is not None and inside.with_name("javac").exists())
    kind = "a JDK" if compiler else "no JDK: without javac our tests of Java clients are skipped"
    return _Java(number >= JAVA_MIN, f"java: {java}, version {number}, {kind}", number)


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
