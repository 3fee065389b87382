"""Parts of the local environment: files of names, and what is said where a program is missing."""

import shutil
from pathlib import Path

import pytest

from harness.contracts.environment import Capability, EnvironmentUnavailable
from harness.environments import local
from harness.environments.local import LocalEnvironment, check, lacking
from harness.environments.machines.machine import write_hosts
from harness.run import doctor

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
        assert lacking()[Capability.CUT] == "nft is missing (package nftables)"
        assert Capability.CUT not in LocalEnvironment(tmp_path).capabilities
        assert Capability.PAUSE in LocalEnvironment(tmp_path).capabilities
        finding = next(f for f in doctor.examine() if f.environment == "local")
        assert finding.works
        assert "cannot cut: nft is missing (package nftables)" in finding.text
    finally:
        lacking.cache_clear()
