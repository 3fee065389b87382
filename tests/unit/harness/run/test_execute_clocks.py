"""Which runs start their nodes with a library that sets clocks off."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from maxq.harness.contracts.environment import REAL_ONLY, Capability
from maxq.harness.environments.docker import DockerEnvironment
from maxq.harness.environments.local import LocalEnvironment
from maxq.harness.environments.machines import wrong_clock
from maxq.harness.run import execute
from maxq.harness.schedule.format import Act, Schedule
from maxq.harness.schedule.options import Options

LIBRARY = Path("/usr/lib/any/faketime/libfaketimeMT.so.1")


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrong_clock, "found", lambda: LIBRARY)


@pytest.mark.parametrize("name", ["local", "docker"])
@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"nemesis": ("kill", "partition")}, False),
        ({"nemesis": ("none",)}, False),
        ({"nemesis": ("kill", "clock")}, True),
        ({"nemesis": ("kill-then-clock",)}, True),
        ({"nemesis": ("kill", "start"), "scripted": True}, False),
        ({"nemesis": ("kill", "bump-clock"), "scripted": True}, True),
    ],
)
def test_nodes_have_the_library_only_where_a_clock_goes_wrong(
    name: str, more: dict[str, Any], wanted: bool, tmp_path: Path
) -> None:
    options = Options(environment=name, seed=1, **more)
    environment = execute.make_environment(
        options, tmp_path, "", print, execute.make_target(options)
    )
    assert isinstance(environment, LocalEnvironment | DockerEnvironment)
    assert (environment._library == LIBRARY) is wanted
    if isinstance(environment, DockerEnvironment):
        assert (str(LIBRARY.parent) in environment._shown) is wanted, "containers see its folder"


def test_what_a_schedule_does_counts_whatever_its_options_say(tmp_path: Path) -> None:
    options = Options(environment="local", seed=1, nemesis=("none",), scripted=True)
    script = Schedule(acts=(Act(id="a", f="bump-clock"), Act(id="b", f="no-such-act")))
    environment = execute.make_environment(
        *(options, tmp_path, "", print, execute.make_target(options)), script=script
    )
    assert isinstance(environment, LocalEnvironment)
    assert environment._library == LIBRARY


def test_random_schedules_set_clocks_off_in_the_simulator_alone() -> None:
    """On real machines that is for those who ask by name."""
    for name in ("local", "docker"):
        can = execute.capabilities_of(name)
        assert Capability.CLOCK in can
        assert execute.drawn_in(name) == can - {Capability.CLOCK, Capability.DELAY}
    assert execute.drawn_in("simulated") == frozenset(Capability) - REAL_ONLY


def test_only_our_nodes_do_not_go_by_their_wall_clocks() -> None:
    ours = Options(environment="local", seed=1)
    assert not ours.by_wall_clock
    for more in ({"target": "rocketmq:5.5.0"}, {"releases": {"broker": "rocketmq:5.5.0"}}):
        assert msgspec.structs.replace(ours, **more).by_wall_clock
