"""The jars of a component, fetched once by Maven and kept with a list of their digests.

Maven finds what a component depends on, fetches it from the repository that its user has set up,
and checks each file. What was fetched lies in a cache, one folder for each component and release;
``jars.json`` in it lists every file's SHA-256, by which it is checked before each run. A folder
gets its name only when it is whole.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

from harness.contracts.environment import EnvironmentUnavailable, Lack

FETCH_TIMEOUT_S = 600
LIST = "jars.json"
GROUP = "org.apache.rocketmq"
POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>maxq</groupId><artifactId>libraries</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>{group}</groupId><artifactId>rocketmq-{component}</artifactId>
    <version>{release}</version>
  </dependency></dependencies>
</project>
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
        _fetch(component, release, folder)
    wrong = _changed(folder)
    if wrong:
        raise EnvironmentUnavailable(
            f"{folder} is not what was fetched ({wrong}); remove it, and it is fetched anew"
        )
    return folder


def digest(folder: Path) -> str:
    """A digest of all the jars of a folder."""
    return hashlib.sha256((folder / LIST).read_bytes()).hexdigest()[:12]


def _fetch(component: str, release: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise EnvironmentUnavailable(
            f"rocketmq-{component} {release} is not in {folder.parent}, and there is no mvn "
            "(package maven) to fetch it",
            Lack("there is no mvn to fetch the jars", package="maven"),
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as name:
        made = Path(name)
        pom = made / "pom.xml"
        pom.write_text(POM.format(group=GROUP, component=component, release=release))
        _run([
            maven, "--quiet", "--batch-mode", "--file", str(pom), "dependency:copy-dependencies",
            "-DincludeScope=runtime", f"-DoutputDirectory={made / 'lib'}",
        ], f"rocketmq-{component} {release}")  # fmt: skip
        lib = made / "lib"
        (lib / LIST).write_bytes(msgspec.json.format(msgspec.json.encode(_digests(lib))))
        shutil.rmtree(folder, ignore_errors=True)  # what has no list is not whole
        lib.rename(folder)


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


def _changed(folder: Path) -> str:
    """The first file that differs from the list; empty where none does."""
    try:
        listed = msgspec.json.decode((folder / LIST).read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError) as error:
        return f"{LIST}: {error}"
    found = _digests(folder)
    names = sorted({*listed, *found})
    return next((name for name in names if listed.get(name) != found.get(name)), "")
