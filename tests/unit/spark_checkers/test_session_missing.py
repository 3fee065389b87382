"""What keeps Spark from starting is one sentence, with what to do, before any JVM is started."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from maxq.harness.cli.main import run_cli


class Case(NamedTuple):
    """A machine, a master, and what is said."""

    said: str
    master: str = "local[1]"
    absent: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}


CASES = {
    "no pyspark": Case(
        "not installed: no_such_module; pip install 'maxq[spark]'", absent=("no_such_module",)
    ),
    "no Java": Case("no java was found: install a Java runtime", environment={"PATH": ""}),
    "another Java home": Case(
        "JAVA_HOME is /nonsense, which has no bin/java: correct or unset it",
        environment={"JAVA_HOME": "/nonsense"},
    ),
    "no master of Spark": Case("--master: 'local[x]' is no master of Spark", "local[x]"),
    "nobody there": Case(
        "no Spark master answers at 127.0.0.1:{port} (", "spark://127.0.0.1:{port}"
    ),
    "nobody there at all": Case(
        "127.0.0.1:{port} (Connection refused), localhost:{port} (",
        "spark://127.0.0.1:{port},localhost:{port}",
    ),
}


@pytest.fixture(scope="module")
def port() -> int:
    """Where nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_sentence(
    name: str,
    port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = CASES[name]
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(0o755)
    monkeypatch.setenv("PATH", str(java.parent))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    for key, value in case.environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr("maxq.spark_checkers.session.HERE", case.absent)
    journal = tmp_path / "history.jsonl"
    journal.write_text('{"end":true,"count":0}\n')

    master = case.master.format(port=port)
    code = run_cli(["check", str(journal), "--workload", "queue", "--engine", "spark",
                    "--master", master])  # fmt: skip

    said = capsys.readouterr().err
    assert code == 254
    assert case.said.format(port=port) in said.splitlines()[-1]
    assert "Traceback" not in said
