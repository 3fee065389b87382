"""The jars of a RocketMQ release: from Maven Central once, then kept in ``.cache/java``.

Times are seconds.
"""

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = Path(__file__).resolve().parent / "java"
CACHE = Path(__file__).resolve().parents[2] / ".cache" / "java"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
LIST = "jars.json"  # name -> bytes, written last: its presence says that a fetch was finished
FETCH_S, COMPILE_S = 120, 30
STALE_S = 3600  # a fetch that began earlier has long been dead


def intact(folder: Path) -> bool:
    """Whether a folder holds all that was once fetched into it."""
    try:
        sizes = json.loads((folder / LIST).read_bytes())
        return bool(sizes) and all((folder / n).stat().st_size == s for n, s in sizes.items())
    except (OSError, ValueError):
        return False


def cached(folder: Path, fetch: Callable[[Path], None]) -> Path:
    """Return `folder`, filled by `fetch` unless it is intact.

    The fetch goes aside and is renamed, so that an interrupted one leaves nothing that could be
    taken for a whole one, and two at the same time do not disturb each other.
    """
    if intact(folder):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(".fetch-*"):
        with contextlib.suppress(FileNotFoundError):  # somebody else cleans up as well
            if time.time() - left.stat().st_mtime > STALE_S:
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as aside:
        fresh = Path(aside) / "jars"
        fresh.mkdir()
        fetch(fresh)
        sizes = {jar.name: jar.stat().st_size for jar in sorted(fresh.glob("*.jar"))}
        (fresh / LIST).write_text(json.dumps(sizes, indent=1))
        if not intact(folder):
            with contextlib.suppress(FileNotFoundError):
                folder.rename(Path(aside) / "damaged")
            with contextlib.suppress(OSError):  # another fetch was faster; its result is as good
                fresh.rename(folder)
    assert intact(folder), f"{folder} was not filled"
    return folder


def fetch_jars(release: str, folder: Path, pom: str = "pom.xml") -> None:
    """Copy the jars that a POM names from Maven Central; skips where it cannot be reached."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as repository:
        command = [
            "mvn", "--batch-mode", "--quiet", "-Dstyle.color=never",
            "--file", str(SOURCES / pom), COPY, "-DincludeScope=runtime",
            f"-Drocketmq.version={release}", f"-DoutputDirectory={folder}",
            f"-Dmaven.repo.local={repository}",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=FETCH_S, check=False
            )
        except subprocess.TimeoutExpired:
            pytest.skip(f"nothing cached, and Maven Central too slow: not done in {FETCH_S} s")
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()
        _, word, why = said.partition("Could not transfer")
        if word:
            why = why.splitlines()[0]
            pytest.skip(f"nothing cached, and Maven Central not reached: could not transfer{why}")
        pytest.fail(f"mvn failed, exit code {done.returncode}:\n{said[-4000:]}")


def need(*tools: str) -> None:
    """Skip where this machine lacks a program."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs a JDK and Maven; not found: {', '.join(missing)}")


def server_jars(release: str) -> Path:
    """The jars of a broker and of mqadmin, the client's among them."""
    return cached(
        CACHE / f"{release}-server", lambda aside: fetch_jars(release, aside, "server.xml")
    )


def compiled(program: str, jars: Path, classes: Path) -> tuple[str, str]:
    """Compile one of `java/`; returns the class path to run it with."""
    command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(SOURCES / program)]
    subprocess.run(command, check=True, timeout=COMPILE_S)
    return str(classes), f"{jars}/*"
