"""The jars of a component, fetched once by Maven and kept with a list of their digests.

Maven finds what a component depends on, and fetches it from the repository that its user has set
up. That may be a mirror, so what comes from it is checked twice. Maven refuses a file that is not
what the repository's own checksum says (``--strict-checksums``; without it Maven only warns). And
`CHECKSUMS` lists the SHA-256 of each jar of the newest release, and so of many that the others
depend on, in the format of sha256sum: a jar of that name must be that one. A release that is added
has its lines from ``sha256sum *.jar`` in its folders, once each file agrees with the ``.sha1`` that
Maven Central has of it.

What was fetched lies in a cache, one folder for each component and release; ``jars.json`` in it
lists every file's SHA-256. By both lists it is checked before each run. A folder gets its name only
when it is whole.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from maxq.harness.contracts.environment import EnvironmentUnavailable, Lack
from maxq.harness.targets.rocketmq.releases import BACK_ENDS, DEPENDENCIES, PREFIX

FETCH_TIMEOUT_S = 600
LIST = "jars.json"
LIB = "lib"  # where a distribution has its jars
CHECKSUMS = Path(__file__).with_name("checksums.txt")
GROUP = "org.apache.rocketmq"
POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>maxq</groupId><artifactId>libraries</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>rocketmq-{component}</artifactId>
    <version>{release}</version>
  </dependency></dependencies>
  <dependencyManagement><dependencies>{pinned}</dependencies></dependencyManagement>
</project>
"""
PINNED = """\
<dependency><groupId>{group}</groupId><artifactId>rocketmq-{name}</artifactId>
<version>{release}</version></dependency>
"""


def cache() -> Path:
    """Where what was fetched is kept: below XDG_CACHE_HOME, or ``~/.cache``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "maxq" / "rocketmq"


def libraries(component: str, release: str, place: Path | None = None) -> Path:
    """The folder with a component's jars, fetched if it is not there.

    Args:
        component: ``namesrv``, ``controller``, ``broker`` or ``tools``.
        release: such as ``5.5.0``.
        place: of the cache; None: the user's.

    Raises:
        EnvironmentUnavailable: it cannot be fetched, or a file is not what it was; says what helps.
    """
    folder = (place or cache()) / f"{component}-{release}"
    if not (folder / LIST).is_file():
        with _alone(folder.parent):
            if not (folder / LIST).is_file():
                _fetch(component, release, folder)
    wrong = _changed(folder)
    if wrong:
        raise EnvironmentUnavailable(
            f"{folder} is not what was fetched ({wrong}); remove it, and it is fetched again"
        )
    return folder


def located(text: str) -> str:
    """The target that ``rocketmq:DIR`` means, with the release that its jars are of; any other text
    as it is.

    Args:
        text: DIR is an unpacked distribution, or one built from sources: its jars are in ``lib``.

    Raises:
        ValueError: there is no broker's jar.
    """
    name, colon, back_end = text.removeprefix(PREFIX).rpartition(":")
    given = name if colon and back_end in BACK_ENDS else text.removeprefix(PREFIX)
    if "/" not in given or "@" in given:
        return text
    folder = Path(given).expanduser().resolve()
    jars = sorted((folder / LIB).glob("rocketmq-broker-*.jar"))
    if not jars:
        raise ValueError(f"no {LIB}/rocketmq-broker-RELEASE.jar in {folder}: that is no "
                         "distribution of RocketMQ 5")  # fmt: skip
    release = jars[-1].stem.removeprefix("rocketmq-broker-")
    more = f":{back_end}" if given == name else ""
    return f"{PREFIX}{release}{more}@{folder}"


def distribution(folder: Path) -> tuple[Path, str]:
    """The folder with the jars of a distribution, and a digest of all of them.

    Raises:
        EnvironmentUnavailable: it is not there.
    """
    jars = folder / LIB
    found = _digests(jars)
    if not found:
        raise EnvironmentUnavailable(f"there are no jars in {jars}")
    return jars, hashlib.sha256(msgspec.json.encode(found)).hexdigest()[:12]


def digest(folder: Path) -> str:
    """A digest of all the jars of a folder."""
    return hashlib.sha256((folder / LIST).read_bytes()).hexdigest()[:12]


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """No other process fetches into the same cache meanwhile, nor by the same Maven."""
    place.mkdir(parents=True, exist_ok=True)
    fd = os.open(place, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _fetch(component: str, release: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise EnvironmentUnavailable(
            f"rocketmq-{component} {release} is not in {folder.parent}, and there is no mvn "
            "(package maven) to fetch it",
            Lack("there is no mvn to fetch the jars", package="maven"),
        )
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as name:
        made = Path(name)
        pom = made / "pom.xml"
        pom.write_text(pom_of(component, release))
        _run([
            maven, "--quiet", "--batch-mode", "--strict-checksums", "--file", str(pom),
            "dependency:copy-dependencies", "-DincludeScope=runtime",
            f"-DoutputDirectory={made / 'lib'}",
        ], f"rocketmq-{component} {release}")  # fmt: skip
        lib = made / "lib"
        if wrong := _false(_digests(lib)):
            raise EnvironmentUnavailable(
                f"the repository that mvn asks has false bytes ({wrong}); ask another one, and "
                "remove the file from its local repository"
            )
        (lib / LIST).write_bytes(msgspec.json.format(msgspec.json.encode(_digests(lib))))
        shutil.rmtree(folder, ignore_errors=True)  # what has no list is not whole
        lib.rename(folder)


def pom_of(component: str, release: str) -> str:
    """What Maven is asked for: a component, and what it depends on where that is not its own
    release's. The component itself is never another's."""
    pinned = "".join(
        PINNED.format(group=GROUP, name=name, release=of)
        for name, of in DEPENDENCIES.get(release, {}).items()
        if name != component
    )
    return POM.format(group=GROUP, component=component, release=release, pinned=pinned)


def _run(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
        said = (done.stdout + done.stderr).strip()
        why = "" if done.returncode == 0 else said[:600] or f"exit code {done.returncode}"
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if why:
        raise EnvironmentUnavailable(f"mvn cannot fetch {what}: {why}")


def _digests(lib: Path) -> dict[str, str]:
    return {
        jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sorted(lib.glob("*.jar"))
    }


def known_checksums() -> dict[str, str]:
    """The SHA-256 of each jar that is known, by the name of its file."""
    lines = (line.split() for line in CHECKSUMS.read_text().splitlines())
    return {name: digest for digest, name in lines}


def _false(found: dict[str, str]) -> str:
    """The first file that is known by its name, and is another; empty where there is none."""
    known = known_checksums()
    for name, digest in found.items():
        if known.get(name, digest) != digest:
            return f"{name} has SHA-256 {digest}, and {CHECKSUMS.name} lists {known[name]}"
    return ""


def _changed(folder: Path) -> str:
    """The first file that differs from one of the lists; empty where none does."""
    try:
        listed = msgspec.json.decode((folder / LIST).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError) as error:
        return f"{LIST}: {error}"
    found = _digests(folder)
    names = sorted({*listed, *found})
    return next((n for n in names if listed.get(n) != found.get(n)), "") or _false(found)
