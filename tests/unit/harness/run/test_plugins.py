"""What is not Max-Q's own: loaded once, refused by name."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from few_files_environment import FEW_FILES, FewFiles
from flap_fault import FLAP
from register_checker import REGISTER as CHECKER
from register_workload import REGISTER as WORKLOAD
from spread_layout import SPREAD

from maxq.checkers.core.claims import BY_ID
from maxq.harness.cli.main import run_cli
from maxq.harness.contracts.plugins import TargetKind, current, layouts, restored, with_plugins
from maxq.harness.run import judging, plugins
from maxq.harness.run.execute import make_environment, make_target
from maxq.harness.run.plugins import PluginError, load, loaded, register
from maxq.harness.run.run_plan import workloads
from maxq.harness.schedule.options import Options
from maxq.nemeses import catalogue


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has loaded nothing."""
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(plugins, "_modules", [])
    monkeypatch.setattr(plugins, "_searched", [])
    with restored():
        yield
    if FLAP in catalogue.registered():
        catalogue.forget("flap")


def pointing(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Have entry points: by group without its beginning, ``name = module:value``."""
    found = {}
    for group, text in values.items():
        name, _, value = text.partition(" = ")
        point = EntryPoint(name=name, value=value, group=f"maxq.{group}")
        vars(point)["dist"] = SimpleNamespace(name="theirs", version="7")
        found[f"maxq.{group}"] = [point]
    monkeypatch.setattr(plugins, "entry_points", lambda group: found.get(group, []))


def test_entry_points_are_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pointing(
        monkeypatch,
        workloads="register = register_workload:REGISTER",
        checkers="register = register_checker:REGISTER",
        nemeses="flap = flap_fault:FLAP",
        layouts="spread = spread_layout:SPREAD",
        environments="few-files = few_files_environment:FEW_FILES",
    )
    load()
    load()
    assert loaded() == {
        "checker register": "maxq.checkers: register = register_checker:REGISTER of theirs 7",
        "environment few-files": "maxq.environments: few-files = few_files_environment:FEW_FILES "
        "of theirs 7",
        "layout spread": "maxq.layouts: spread = spread_layout:SPREAD of theirs 7",
        "nemesis flap": "maxq.nemeses: flap = flap_fault:FLAP of theirs 7",
        "workload register": "maxq.workloads: register = register_workload:REGISTER of theirs 7",
    }
    assert list(workloads())[-1] == "register"
    assert [c.name for c in judging.judges_of("register")] == ["register"]
    assert BY_ID["X1"].promise.startswith("A client reads")
    assert "flap" in catalogue.fault_names()
    assert list(layouts())[-1] == "spread"
    assert len(plugins.digest()) == 12


def test_without_any_there_is_nothing() -> None:
    assert (loaded(), plugins.digest(), current().signatures) == ({}, "", [])
    assert "X1" not in BY_ID


@pytest.mark.parametrize(
    ("points", "why"),
    [
        ({"workloads": "x = no_such_module:X"}, "ModuleNotFoundError: No module named"),
        ({"workloads": "x = register_workload:NONE"}, "AttributeError"),
        ({"workloads": "flap = flap_fault:FLAP"}, "it is a Kind, no WorkloadKind"),
        ({"workloads": "other = register_workload:REGISTER"},
         "the entry point is called 'other', and what it names is 'register'"),
    ],
)  # fmt: skip
def test_one_that_cannot_be_used_is_named(
    points: dict[str, str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointing(monkeypatch, **points)
    ((group, text),) = points.items()
    with pytest.raises(PluginError) as caught:
        load()
    assert str(caught.value).startswith(f"plug-in maxq.{group}: {text} of theirs 7: ")
    assert why in str(caught.value)


def test_the_same_value_again_is_no_other_one() -> None:
    register(WORKLOAD, "one")
    register(WORKLOAD, "two")
    assert loaded() == {"workload register": "one"}


@pytest.mark.parametrize(
    "value", [WORKLOAD, CHECKER, FLAP, SPREAD], ids=["workload", "checker", "fault", "layout"]
)
def test_a_name_that_is_taken_is_refused(value: Any) -> None:
    register(value, "one")
    changed = {"about": "another"}
    with pytest.raises(PluginError, match=r"plug-in two: .* is there already, from one"):
        register(msgspec.structs.replace(value, **changed), "two")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (msgspec.structs.replace(WORKLOAD, name="queue"), "'queue' is one of Max-Q's own"),
        (msgspec.structs.replace(WORKLOAD, threads=0), "how many clients it has"),
        (msgspec.structs.replace(FLAP, name="kill"), "the name is taken"),
        (msgspec.structs.replace(CHECKER, claims=()), "claim X1 has no text"),
        (msgspec.structs.replace(CHECKER, anomalies={"odd": "S6"}), "it does not judge S6"),
        (msgspec.structs.replace(SPREAD, name="one"), "'one' is one of Max-Q's own"),
        (msgspec.structs.replace(SPREAD, sets=0), "layout 'spread': sets=0 is not 1 to 50"),
        (TargetKind(name="reference", about="", make=lambda inside: None), "Max-Q's own"),  # type: ignore[arg-type, return-value]
        (TargetKind(name="rocketmq:9", about="", make=lambda inside: None), "of Apache RocketMQ"),  # type: ignore[arg-type, return-value]
    ],
)  # fmt: skip
def test_what_is_not_as_it_says_is_refused(value: Any, why: str) -> None:
    with pytest.raises(PluginError, match=why):
        register(value, "theirs")
    assert loaded() == {}


def test_a_claim_of_another_checker_is_refused() -> None:
    register(CHECKER, "one")
    mine = type("Mine", (), {"name": "mine", "claims": ("X1",), "check": None})()
    with pytest.raises(PluginError, match="claim X1 is another checker's"):
        register(msgspec.structs.replace(CHECKER, checker=mine), "two")


def test_a_module_is_named_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_cli(["list", "workloads", "--plugin", "register_workload"]) == 0
    assert "register" in capsys.readouterr().out
    assert plugins.modules() == ["register_workload"]
    (tmp_path / "empty_plugin.py").write_text("VALUE = 1\n")
    assert run_cli(["list", "plugins", "--plugin", "empty_plugin"]) == 254
    assert "--plugin empty_plugin: it has no value" in capsys.readouterr().err
    (tmp_path / "broken_plugin.py").write_text("1 / 0\n")
    assert run_cli(["test", "--plugin", "broken_plugin", "--plan"]) == 254
    assert "--plugin broken_plugin: ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["test", "--plan"], ["simulate", "--seeds", "0"],
                                     ["hunt", "--target", "rocketmq:5.5.0"]])  # fmt: skip
def test_an_unknown_layout_is_answered_with_those_that_there_are(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    named = [*command, "--plugin", "spread_layout", "--layout"]
    assert run_cli([*named, "spraed"]) == 254
    said = " ".join(capsys.readouterr().err.split())
    assert "'spraed' is unknown, did you mean spread?" in said
    assert "known: crossed-2, crossed-3, mixed, one, spread" in said
    assert run_cli([*named, "one"]) == 254
    assert "--layout one is for --mode pair" in capsys.readouterr().err


def test_list_layouts_has_those_of_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["list", "layouts", "--plugin", "spread_layout"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["crossed-2", "crossed-3", "mixed", "one", "spread"]


def test_a_command_that_repeats_a_run_names_the_modules_once_and_no_distribution() -> None:
    loaded = {"workload a": "--plugin mine", "nemesis b": "--plugin mine", "layout c": "wheel 1.0"}
    assert with_plugins("maxq test", loaded) == "maxq test --plugin mine"
    assert with_plugins("maxq test", {}) == "maxq test"


def test_an_environment_is_chosen_by_its_name_and_asked_what_it_can_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--plugin", "few_files_environment", "--env"]
    assert run_cli(["test", *named, "few-file", "--plan"]) == 254
    assert "unknown, did you mean few-files?" in " ".join(capsys.readouterr().err.split())
    assert run_cli(["test", *named, "few-files", "--nemesis", "disk"]) == 254
    assert "--env few-files cannot do disk" in capsys.readouterr().err
    assert run_cli(["test", *named, "few-files", "--nemesis", "kill", "--plan"]) == 0
    assert "kill" in capsys.readouterr().out
    assert run_cli(["list", "environments"]) == 0
    assert "few-files  as local" in capsys.readouterr().out
    options = Options(environment="few-files", seed=0)
    made = make_environment(options, tmp_path, "", print, make_target(options))
    assert isinstance(made, FewFiles)


@pytest.mark.parametrize(("change", "why"), [
    ({"name": "local"}, "'local' is one of Max-Q's own"),
    ({"name": "auto"}, "'auto' is one of Max-Q's own"),
    ({"name": "theirs", "about": ""}, "environment 'theirs': `about` says in a line what it is"),
])  # fmt: skip
def test_an_environment_that_is_refused(change: dict[str, str], why: str) -> None:
    with pytest.raises(PluginError, match=why):
        register(msgspec.structs.replace(FEW_FILES, **change), "theirs")


def test_an_environment_is_there_once() -> None:
    register(FEW_FILES, "one")
    with pytest.raises(PluginError, match="environment 'few-files' is there already, from one"):
        register(msgspec.structs.replace(FEW_FILES, about="another"), "two")
