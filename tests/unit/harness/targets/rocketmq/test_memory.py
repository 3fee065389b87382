"""Memory of RocketMQ's JVMs, by the keys that ask for it."""

from pathlib import Path

import pytest

from maxq.harness.contracts.environment import EnvironmentUnavailable, Role
from maxq.harness.contracts.target import Settings, Topology
from maxq.harness.targets.rocketmq.memory import (
    DIRECT,
    Held,
    free_here,
    held,
    options,
    refuse_what_does_not_fit,
)

POOL = {"broker:transientStorePoolEnable": "true"}
GIB = {**POOL, "broker:mappedFileSizeCommitLog": str(1 << 30)}


def settings(**keys: str) -> Settings:
    named = {key.replace("__", ":"): value for key, value in keys.items()}
    return Settings(topology=Topology(), profile="P-DEFAULT", keys=named)


@pytest.mark.parametrize(
    ("keys", "asked"),
    [
        ({}, Held(0, 0)),
        (POOL, Held(80, 0)),
        (GIB, Held(5120, 0)),
        ({**GIB, "b0-0:transientStorePoolSize": "2"}, Held(2048, 0)),
        ({**GIB, "b0-1:transientStorePoolSize": "2"}, Held(5120, 0)),
        ({**GIB, "broker:transientStorePoolEnable": "false"}, Held(0, 0)),
        ({"broker:sendMessageThreadPoolNums": "64"}, Held(0, 256)),
        ({"broker:sendMessageThreadPoolNums": "ture"}, Held(0, 0)),
    ],
)
def test_a_broker_holds_what_its_keys_ask_for(keys: dict[str, str], asked: Held) -> None:
    found = settings(**keys)
    assert held("b0-0", found) == asked
    direct = DIRECT + sum(asked)
    assert options(Role.BROKER, "b0-0", found)[-1] == f"-XX:MaxDirectMemorySize={direct}m"
    assert "Direct" not in " ".join(options(Role.NAMESRV, "n0", found))


def test_what_does_not_fit_is_refused_before_the_run() -> None:
    refuse_what_does_not_fit(settings(**GIB), None)
    refuse_what_does_not_fit(settings(**GIB), 20_000)
    refuse_what_does_not_fit(settings(), 10)  # what is certain is only the pools
    with pytest.raises(EnvironmentUnavailable, match=r"each of 3 brokers locks 5.0 GiB") as error:
        refuse_what_does_not_fit(settings(**GIB), 10_240)
    assert "10.0 GiB are free" in str(error.value)


def test_what_is_free_here(tmp_path: Path) -> None:
    assert free_here(tmp_path / "none") is None
    (tmp_path / "m").write_text("MemTotal: 9 kB\nMemAvailable:   2097152 kB\n")
    assert free_here(tmp_path / "m") == 2048
