"""Parts of the local environment: files of names, and what is said where a program is missing."""

import shutil
from pathlib import Path

import pytest

from maxq.harness.contracts.environment import Capability, EnvironmentUnavailable
from maxq.harness.environments import local
from maxq.harness.environments.local import LocalEnvironment, allowing, check, lacking
from maxq.harness.environments.machines.machine import write_hosts
from maxq.harness.run import doctor
from maxq.harness.schedule.options import Options

try:
    check()
    MISSING = ""
except EnvironmentUnavailable as error:
    MISSING = str(error)


def test_a_file_of_names_is_rewritten_in_place_and_never_gets_shorter(tmp_path: Path) -> None:
    path = tmp_path / "m.hosts"
    alone = "127.0.0.1 localhost\n127.0.1.1 a\n"
    write_hosts(path, {"b": "198.18.0.32", "a": "198.18.0.16"}, own_name="a")
    inode, size = path.stat().st_ino, path.stat().st_size
    assert path.read_text() == "127.0.0.1 localhost\n198.18.0.16 a\n198.18.0.32 b\n"
    write_hosts(path, {}, own_name="a")
    assert path.read_text() == alone.ljust(size, "\n")
    assert path.stat().st_ino == inode
    for hosts in ({"a b": "198.18.0.1"}, {"a": "198.18.0.1\n1.1.1.1 x"}):
        with pytest.raises(ValueError):
            write_hosts(path, hosts, own_name="a")
    write_hosts(path, {}, own_name="no name")
    assert "no name" not in path.read_text()


@pytest.mark.local
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_without_nft_local_works_and_says_that_it_cannot_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in ("unshare", "ip", "mount", "true"):
        found = shutil.which(program, path=local.admin_path())
        assert found is not None
        (tmp_path / program).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(local, "SBIN", "")
    lacking.cache_clear()
    try:
        assert str(lacking()[Capability.CUT]) == "nft is missing (package nftables)"
        assert Capability.CUT not in LocalEnvironment(tmp_path).capabilities
        assert Capability.PAUSE in LocalEnvironment(tmp_path).capabilities
        local_only = {"local": doctor.FACTS["local"], "simulated": doctor.FACTS["simulated"]}
        monkeypatch.setattr(doctor, "FACTS", local_only)
        monkeypatch.setattr(doctor, "ORDER", tuple(local_only))
        said: list[str] = []
        place = doctor.Place(store=tmp_path)
        kill = Options(environment="local", seed=1, nemesis=("kill",))
        assert doctor.choose(kill, place, said.append) == "local"
        assert (
            "cannot cut: nft is missing (package nftables)"
            in next(doctor.examine(kill, place)).line
        )
        cut = Options(environment="local", seed=1, nemesis=("kill", "partition"))
        assert doctor.choose(cut, place, said.append) == "simulated"
        assert said[1] == "local: nft is missing; apt-get install nftables"
    finally:
        lacking.cache_clear()


def test_a_bare_machine_lacks_both_programs_and_nothing_that_was_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(local, "SBIN", "")
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    lacking.cache_clear()
    try:
        facts = doctor.FACTS["local"]()
    finally:
        lacking.cache_clear()
    assert [lack.what for lack in facts.lacks] == ["ip is missing"]
    assert {c: lack.package for c, lack in facts.lacking.items() if c is Capability.CUT} == {
        Capability.CUT: "nftables"
    }
    assert Capability.CHANGE_ADDRESS not in facts.lacking


def test_the_setting_that_forbids_namespaces_is_named(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    assert allowing(tmp_path, root=False) == "run maxq as root"
    assert allowing(tmp_path, root=True) == ""
    clone = tmp_path / "kernel" / "unprivileged_userns_clone"
    clone.write_text("1\n")
    apparmor = tmp_path / "kernel" / "apparmor_restrict_unprivileged_userns"
    apparmor.write_text("1\n")
    want = "sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    assert allowing(tmp_path, root=False) == want
    clone.write_text("0\n")
    assert allowing(tmp_path, root=False) == "sysctl kernel.unprivileged_userns_clone=1"
