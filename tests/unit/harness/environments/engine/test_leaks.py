"""What dead runs left in an engine, whose answers have the shape of those of a real one."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from maxq.harness.cli import main
from maxq.harness.environments import leaks as everywhere
from maxq.harness.environments.disks import leaks as disks
from maxq.harness.environments.engine import leaks
from maxq.harness.environments.engine.client import Engine, EngineFailed, Remain

DEAD = {"maxq.run": "maxq-1f", "maxq.boot": "of another boot"}


class Api:
    """The SDK's client, of an engine with networks, each with endpoints by the id of who has it.

    It removes no network that has endpoints, and disconnects by force only.
    """

    def __init__(self, networks: dict[str, dict[str, str]], containers: tuple[str, ...]) -> None:
        self.ends = networks
        self.holders = containers
        self.labels = DEAD
        self.closed = False

    def info(self) -> dict[str, Any]:
        return {"ServerVersion": "20.10"}

    def containers(self, filters: object = None, **asked: bool) -> list[dict[str, Any]]:
        assert asked == {"all": True}, "stopped containers hold endpoints too"
        return [] if filters else [{"Id": c, "Names": [f"/{c}"]} for c in self.holders]

    def networks(self, filters: object) -> list[dict[str, Any]]:
        return [{"Id": n, "Name": f"maxq-{n}", "Labels": self.labels} for n in self.ends]

    def inspect_network(self, name: str) -> dict[str, Any]:
        if name not in self.ends:
            raise NotFound(f"network {name} not found")
        return {"Containers": {held: {"Name": n} for held, n in self.ends[name].items()}}

    def disconnect_container_from_network(self, name: str, net: str, *, force: bool) -> None:
        assert force
        self.ends[net] = {held: n for held, n in self.ends[net].items() if n != name}

    def remove_network(self, name: str) -> None:
        if self.ends[name]:
            raise APIError("403", explanation=f"network {name} has active endpoints")
        del self.ends[name]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def ghosts() -> Iterator[Api]:
    api = Api(
        {"a": {"ep-9": "m0", "gone": "m1"}, "b": {}, "c": {"ep-1": "m2", "k": "kept"}}, ("k",)
    )
    yield api
    assert "b" not in api.ends


@pytest.mark.parametrize("name", [".maxq-1f", ".maxq-2", "b"])
def test_the_folder_of_a_socket_goes_and_no_other(tmp_path: Path, name: str) -> None:
    """A label can name any folder; one of a socket is called as its run is."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "socket").touch()
    api = Api({"b": {}}, ())
    api.labels = {**DEAD, leaks.FOLDER: str(folder)}
    ours = name == ".maxq-1f"
    gone = ("network maxq-b", f"folder {folder}") if ours else ("network maxq-b",)
    assert leaks.remove_dead(Engine(api), going_s=0.0).removed == gone
    assert folder.exists() == (not ours)


def test_a_network_goes_whose_endpoints_no_container_holds(ghosts: Api) -> None:
    done = leaks.remove_dead(Engine(ghosts), going_s=0.0)
    assert done.removed == ("network maxq-a", "network maxq-b")


def test_an_endpoint_of_a_container_is_kept_with_its_network(ghosts: Api) -> None:
    """A user may have put a container of their own into it."""
    done = leaks.remove_dead(Engine(ghosts), going_s=0.0)
    assert done.kept == ("network maxq-c: remove network maxq-c: network c has active endpoints",)
    assert ghosts.ends == {"c": {"k": "kept"}}


def test_what_goes_by_itself_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api({"a": {"k": "m0"}}, ("k",))

    def ended(_: float) -> None:
        api.holders, api.ends = (), {"a": {}}

    monkeypatch.setattr("time.sleep", ended)
    assert leaks.remove_dead(Engine(api)) == leaks.Cleaned(removed=("network maxq-a",))


def test_clean_says_what_it_could_not_remove_and_exits_with_1(
    ghosts: Api, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leaks, "connect", lambda: Engine(ghosts))
    monkeypatch.setattr(leaks, "remove_dead", partial(leaks.remove_dead, going_s=0.0))
    monkeypatch.setattr(disks, "_ours", list)
    assert main.run_cli(["clean"]) == 1
    *_, why, summary = capsys.readouterr().out.splitlines()
    assert why.startswith("could not remove network maxq-c: ")
    assert summary == "2 left-overs removed, 1 not"
    assert ghosts.closed


def test_an_engine_that_fails_is_no_clean_one(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api({"b": {}}, ())

    def broken(filters: object) -> list[dict[str, Any]]:
        raise APIError("500", explanation="the disk is full")

    api.networks = broken  # type: ignore[method-assign]
    monkeypatch.setattr(leaks, "connect", lambda: Engine(api))
    monkeypatch.setattr(disks, "_ours", list)
    assert everywhere.clean().kept == ("docker: list what is left of runs: the disk is full",)


def test_a_container_that_is_being_removed_already_is_still_there() -> None:
    api = Api({}, ())

    def going(name: str, **_: bool) -> None:
        raise APIError("409", explanation=f"removal of container {name} is already in progress")

    api.remove_container = going  # type: ignore[attr-defined]
    remain = Remain(kind="container", id="x", name="x", labels=DEAD)
    with pytest.raises(EngineFailed, match="already in progress"):
        Engine(api).remove(remain)
