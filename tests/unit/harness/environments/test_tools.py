"""What this machine has for releases of RocketMQ."""

from pathlib import Path

import pytest

from maxq.harness.environments import tools
from maxq.harness.targets.rocketmq.libraries import LIST


def test_a_release_is_listed_once_a_run_has_fetched_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair needs no controller, and no run needs the tools."""
    monkeypatch.setattr(tools, "cache", lambda: tmp_path)
    assert "no release is in" in dict(_said())["rocketmq"]
    for name in ("broker-5.10.0", "namesrv-5.5.0", "broker-5.5.0", "broker-5.3.3",
                 "controller-5.3.3", "namesrv-5.3.3", "broker-5.4.0"):  # fmt: skip
        (tmp_path / name).mkdir()
        if name != "broker-5.4.0":  # that one is not whole
            (tmp_path / name / LIST).touch()
    assert dict(_said())["rocketmq"].endswith(
        "are 5.3.3, 5.5.0 (namesrv and broker only), 5.10.0 (broker only)"
    )


def _said() -> list[tuple[str, str]]:
    return [(text.partition(":")[0], text) for _, text in tools.found()]
