"""What of this machine releases and Spark need."""

from pathlib import Path

import pytest

from maxq.harness.environments import tools
from maxq.harness.targets.rocketmq.libraries import LIST
from maxq.harness.targets.rocketmq.releases import components


def said() -> dict[str, tuple[bool, str]]:
    return {line.partition(":")[0]: (there, line) for there, line in tools.found()}


def test_a_machine_without_anything_says_what_to_get(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = said()
    assert not any(there for there, _ in found.values())
    assert "openjdk-17-jdk-headless" in found["java"][1]
    assert "package maven" in found["maven"][1]
    assert "the first run fetches it" in found["rocketmq"][1]


def test_a_release_counts_once_all_of_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folders = [f"{name}-{of}" for name, of in components("5.3.3").items()]
    for folder in folders:
        assert said()["rocketmq"][0] is False
        (tmp_path / "maxq" / "rocketmq" / folder).mkdir(parents=True)
        (tmp_path / "maxq" / "rocketmq" / folder / LIST).write_text("{}")
    there, line = said()["rocketmq"]
    assert there
    assert line.endswith("are 5.3.3")


def test_a_java_is_asked_for_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    there, line = said()["java"]
    assert there
    assert f"{java}, version 21, " in line
