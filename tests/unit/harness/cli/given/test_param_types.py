"""Values on the command line: what is taken, and how a wrong one is answered."""

import subprocess
import sys

import click
import pytest

from maxq.harness.cli.given.lazy import CLOSED
from maxq.harness.cli.given.param_types import Alias, Duration, Setting

SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 60), ("1.5", 1.5), ("60s", 60), ("1min", 60), ("2m", 120), ("500ms", 0.5),
     ("1h30m", 5400), ("1h30min5s", 5405)],
)  # fmt: skip
def test_a_duration(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds * SECOND_NS


@pytest.mark.parametrize("text", ["", "s", "-1s", "1h30", "1 h", "60s ", "1e3", "0", "8000h"])
def test_no_duration(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)


@pytest.mark.parametrize("text", ["safe", "SAFE", "p-safe", "P-SAFE"])
def test_a_name_in_any_case(text: str) -> None:
    assert Alias({"safe": "P-SAFE", "all": "P-ALL"}).convert(text, None, None) == "P-SAFE"


def test_a_key_that_nobody_knows_is_answered_with_the_nearest() -> None:
    with pytest.raises(click.BadParameter, match="a broker has no key 'aclEnabel', did you mean "
                                                 "aclEnable"):  # fmt: skip
        Setting().convert("broker:aclEnabel=true", None, None)


@pytest.mark.parametrize(
    "text", ["broker:traceTopicEnable=true", "b0-1:flushDiskType=SYNC_FLUSH",
             "n0:controllerDLegerGroup=g", "controller:jRaftGroupId=g"],
)  # fmt: skip
def test_keys_of_rocketmq_are_known_whoever_uses_them(text: str) -> None:
    assert "=".join(Setting().convert(text, None, None)) == text


def test_a_reader_that_has_gone_is_no_invalid_run() -> None:
    """Exit code 1 would say that a run was invalid."""
    command = [sys.executable, "-m", "maxq.harness.cli.main", "list", "claims"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) == CLOSED
