"""The table of commands: what it costs, and that it says what the commands say."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from maxq.harness.cli.given.lazy import CLOSED
from maxq.harness.cli.main import cli, run_cli

HEAVY = ("pyspark", "pandas", "pyarrow", "matplotlib", "networkx", "docker", "hypothesis", "rich")
OURS = ("maxq.reference.broker", "maxq.reference.controller", "maxq.reference.wire",
        "maxq.harness.environments", "maxq.harness.run.stored_run", "maxq.checkers",
        "maxq.workloads", "maxq.nemeses")  # fmt: skip
MODULES_MAX = 60  # of ours and foreign ones that are none of the standard library
COUNT = """
import sys
from maxq.harness.cli.main import run_cli
code = run_cli(sys.argv[1:])
print(*(m for m in sys.modules if m.partition(".")[0] not in sys.stdlib_module_names))
sys.exit(code)
"""
MAXQ = (sys.executable, "-m", "maxq.harness.cli.main")


def imported(*words: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", COUNT, *words],
                          capture_output=True, text=True, check=True)  # fmt: skip
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("words", [("--help",), ("--version",)])
def test_help_imports_next_to_nothing(words: tuple[str, ...]) -> None:
    found = imported(*words)
    assert "maxq.harness.cli.main" in found
    assert not [m for m in found for heavy in (*HEAVY, *OURS) if f"{m}.".startswith(f"{heavy}.")]
    assert len(found) < MODULES_MAX


def test_a_command_is_imported_with_what_it_needs() -> None:
    found = imported("list", "profiles")
    assert "maxq.harness.cli.listing" in found
    assert "pyspark" not in found


@pytest.mark.parametrize("name", cli.places)
def test_every_command_is_where_the_table_says(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.name == name
    assert command.callback is not None
    assert command.help
    assert run_cli([name, "--help"]) == 0
    assert f"Usage: maxq {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", cli.places)
def test_the_table_says_what_the_command_says(name: str) -> None:
    """It begins with the same verb, and is a sentence of one line."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    about = cli.places[name].about
    assert about.split()[0] == (command.help or "").split()[0]
    assert about.endswith(".")
    assert len(about) <= 80


@pytest.mark.parametrize(
    "words",
    [
        ["--help"], ["test", "--help"], ["list", "claims"], ["nonsense"], ["test", "--nope"],
        ["test", "--env", "simulated", "--time-limit", "2s", "--seed", "1", "--workload", "queue"],
    ],
)  # fmt: skip
def test_a_reader_that_has_gone_is_no_verdict(words: list[str], tmp_path: Path) -> None:
    """Whatever is printed, and on whichever stream: never 1, which says invalid."""
    process = subprocess.Popen([*MAXQ, *words], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, cwd=tmp_path)  # fmt: skip
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) == CLOSED
