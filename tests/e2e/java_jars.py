"""Java programs of ours beside the clients and tools of a RocketMQ release. Times are seconds."""

import shutil
import subprocess
from pathlib import Path

import pytest

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.targets.rocketmq.libraries import libraries

SOURCES = Path(__file__).resolve().parent / "java"
FETCH_S, COMPILE_S = 300, 60  # a fetch: where nothing is cached


def java_jars(artifact: str, release: str) -> Path:
    """The folder of an artifact's jars; skips, saying why, where they cannot be had or run."""
    if shutil.which("java") is None:
        pytest.skip("needs a JDK; not found: java")
    try:
        return libraries(artifact, release)
    except EnvironmentUnavailable as error:
        pytest.skip(str(error))


def compiled(program: str, release: str, classes: Path) -> tuple[str, str]:
    """Compile one of `java/`; returns the class path to run it with. Skips, saying why, where there
    is no JDK or the jars cannot be had."""
    missing = [tool for tool in ("java", "javac") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs a JDK; not found: {', '.join(missing)}")
    jars = java_jars("tools", release)  # the client is among what they need
    command = ["javac", "-nowarn", "-cp", f"{jars}/*", "-d", str(classes), str(SOURCES / program)]
    subprocess.run(command, check=True, timeout=COMPILE_S)
    return str(classes), f"{jars}/*"
