"""Which toxiproxy's server is taken, what is said where there is none, and what is built."""

import importlib.util
from pathlib import Path

import pytest

from maxq.harness.contracts.environment import EnvironmentUnavailable
from maxq.harness.environments.engine.image import quiet
from maxq.harness.environments.machines import toxiproxy_server as servers

SAID = """x: go1.26
\tpath\tgithub.com/Shopify/toxiproxy/v2/cmd/server
\tmod\tgithub.com/Shopify/toxiproxy/v2\tv2.5.0\th1:a=
\tdep\tgopkg.in/tomb.v1\tv1.0.0\th1:b=
\tbuild\tCGO_ENABLED=0
"""
GO = """#!/bin/sh
case "$1" in
install) {install} ;;
*) printf '%s' '{said}' ;;
esac
"""


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A computer with an empty cache and nothing in its PATH but a folder."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(servers.CHOICE, raising=False)
    (tmp_path / "bin").mkdir()
    return tmp_path


def test_the_one_that_is_chosen_comes_first_then_that_of_the_path_then_the_built_one(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert servers.found() is None
    built = program(servers.cache() / servers.NAME)
    assert servers.found() == built
    installed = program(bare / "bin" / servers.NAME)
    assert servers.found() == installed
    chosen = program(bare / "mine")
    monkeypatch.setenv(servers.CHOICE, str(chosen))
    assert servers.found() == chosen
    assert servers.lacking() is None
    assert servers.ensure(quiet) == chosen
    assert servers.described(chosen) == f"{chosen}, sha256 a8076d3d28d21e02"


def test_what_is_missing_is_said_with_what_helps(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert str(servers.lacking()) == (
        "toxiproxy-server is missing, and Go, which builds it (package golang-go)"
    )
    with pytest.raises(EnvironmentUnavailable, match="no way can be slow here: toxiproxy-server"):
        servers.ensure(quiet)
    program(bare / "bin" / "go")
    assert servers.lacking() is None, "it can be built"
    monkeypatch.setenv(servers.CHOICE, "/no/such")
    assert str(servers.lacking()) == (
        "TOXIPROXY_SERVER names /no/such, which is no program; unset TOXIPROXY_SERVER"
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert str(servers.lacking()) == (
        "the package toxiproxy-python is missing; pip install toxiproxy-python"
    )


def test_it_is_built_once_from_the_sources_that_are_pinned(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = 'echo "$@" >> "$GOBIN/../asked"; echo built > "$GOBIN/server"'
    program(bare / "bin" / "go", GO.format(install=builds, said=SAID))
    with pytest.raises(EnvironmentUnavailable, match="is not of the source that is pinned"):
        servers.ensure(quiet)
    assert servers.found() is None, "and is thrown away"
    monkeypatch.setattr(servers, "SOURCES", servers.sources(SAID))
    said: list[str] = []
    made = [servers.ensure(said.append) for _ in range(2)]
    assert made == [servers.cache() / servers.NAME] * 2
    assert made[0].read_text() == "built\n"
    assert said == ["building toxiproxy v2.5.0, once"]
    [_, asked] = (servers.cache() / "asked").read_text().splitlines()
    assert asked == "install -trimpath github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0"


def test_why_it_could_not_be_built_is_said(bare: Path) -> None:
    program(bare / "bin" / "go", GO.format(install="echo no network >&2; exit 1", said=""))
    with pytest.raises(EnvironmentUnavailable, match="cannot be built: no network") as caught:
        servers.ensure(quiet)
    assert caught.value.lacks[0].mend == "TOXIPROXY_SERVER=PATH names a server"


def test_sources_are_all_modules_in_whatever_order() -> None:
    lines = SAID.splitlines()
    assert servers.sources("\n".join(reversed(lines))) == servers.sources(SAID)
    assert servers.sources(SAID.replace("h1:b=", "h1:c=")) != servers.sources(SAID)
    assert servers.sources(SAID.replace("CGO_ENABLED=0", "")) == servers.sources(SAID)
