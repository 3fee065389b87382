"""Before the first fault: clients get what they need, or the run ends at once and says why not."""

from pathlib import Path

import pytest

from maxq.harness.cli.main import run_cli
from maxq.harness.targets import known_keys
from maxq.histories.fault_facts import TRIAL
from maxq.reference.broker.client_calls.pulls import Pulls
from maxq.reference.wire.codes import ResponseCode
from maxq.reference.wire.frame import Frame

ALL_BY_HAND = ("broker:autoCreateSubscriptionGroup=false", "broker:autoCreateTopicEnable=false")


def run(tmp_path: Path, *words: str, workload: str = "queue") -> int:
    of = ["--env", "simulated", "--nemesis", "none", "--time-limit", "6s", "--seed", "1"]
    return run_cli(["test", *of, "--workload", workload, "--store", str(tmp_path), *words])


@pytest.mark.parametrize("mode", [(), ("--mode", "pair")], ids=["controllers", "pair"])
def test_what_brokers_may_not_make_themselves_is_made_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: tuple[str, ...]
) -> None:
    sets = [word for key in ALL_BY_HAND for word in ("--set", key)]
    assert run(tmp_path, *mode, *sets, workload="queue,offsets") == 0
    assert "acknowledged messages was lost" in capsys.readouterr().out


def test_a_run_whose_producers_are_refused_names_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_keys, "refusal", lambda *_: "")  # what is refused before any run
    assert run(tmp_path, "--set", "broker:brokerPermission=4") == 1
    out = capsys.readouterr()
    assert "not writable by the route" in " ".join(out.out.split())
    assert "none of" not in out.out


def test_a_run_whose_consumers_are_refused_names_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S13: messages are taken, and nobody is given one."""

    def refuse(self: Pulls, request: Frame, connection: object) -> Frame:
        return request.answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "no group")

    monkeypatch.setattr(Pulls, "_pull", refuse)
    assert run(tmp_path) == 1
    out = capsys.readouterr()
    assert (
        "the run ends at once: no consumer of group maxq can read maxq-queue of broker set b0: "
        "SUBSCRIPTION_GROUP_NOT_EXIST" in out.err
    )
    text = " ".join(out.out.split())
    assert "No consumer could read from a broker set although everything was healed: " \
           "SUBSCRIPTION_GROUP_NOT_EXIST. S13 is broken." in text  # fmt: skip
    assert TRIAL in (tmp_path / "latest" / "history.jsonl").read_text()
