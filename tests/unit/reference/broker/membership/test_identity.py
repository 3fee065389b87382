"""The identity files: what they say at a start, as a pure table, and their order on the disk."""

import asyncio
from pathlib import Path

import pytest

from maxq.reference.broker.membership.identity import (
    Claimed,
    IdentityError,
    IdentityFiles,
    New,
    Owned,
    State,
    check_code,
    state_of,
)
from maxq.reference.host import RealHost
from maxq.reference.records import BrokerId

CODE = "10.0.0.5:10911;1700000000000"
FINAL, TEMP = b"c#b#2", f"c#b#3#{CODE}".encode()
OWNED = Owned(broker_id=BrokerId(2))
CLAIMED = Claimed(broker_id=BrokerId(3), check_code=CODE)


def read(final: bytes | None, temporary: bytes | None) -> State:
    return state_of(final, temporary, cluster="c", broker_name="b", path="/s/brokerIdentity")


@pytest.mark.parametrize(
    ("final", "temporary", "state"),
    [
        (None, None, New()),
        (None, TEMP, CLAIMED),
        (None, b"", New()),
        (None, TEMP[:6], New()),
        (None, FINAL, New()),
        (FINAL, None, OWNED),
        (FINAL, TEMP, OWNED),
        (FINAL, b"torn", OWNED),
        (FINAL + b"\n", None, OWNED),
    ],
)
def test_state_table(final: bytes | None, temporary: bytes | None, state: State) -> None:
    """S1: the final file decides; else a whole temporary one (docs/spec/controller-ha.md 3.3)."""
    assert read(final, temporary) == state


@pytest.mark.parametrize("final", [b"", b"c#b", b"c#b#", b"c#b#x", TEMP, b"c#b#0", b"c#b#-1"])
def test_a_damaged_final_file_refuses_to_start_by_its_name(final: bytes) -> None:
    """S1: Java takes it for new and claims a second id; we refuse."""
    with pytest.raises(IdentityError, match="/s/brokerIdentity: "):
        read(final, TEMP)


@pytest.mark.parametrize(
    ("final", "temporary", "path"),
    [
        (b"other#b#2", None, "/s/brokerIdentity belongs to other#b,"),
        (b"c#other#2", TEMP, "/s/brokerIdentity belongs to c#other,"),
        (None, b"other#b#2#x", "/s/brokerIdentity-temp belongs to other#b,"),
        (None, b"c#other#2#x", "/s/brokerIdentity-temp belongs to c#other,"),
    ],
)
def test_files_of_another_cluster_or_name_are_refused(
    final: bytes | None, temporary: bytes | None, path: str
) -> None:
    """S1: an id of another set must not be used."""
    with pytest.raises(IdentityError, match=path):
        read(final, temporary)


def test_claim_settle_and_drop_on_a_disk(tmp_path: Path) -> None:
    """S2: the claim goes only once the final file is there."""
    folder = str(tmp_path)
    files = IdentityFiles(
        RealHost(seed=1).disk,
        f"{folder}/brokerIdentity",
        epochs=f"{folder}/epochs",
        cluster="c",
        broker_name="b",
    )

    async def case() -> None:
        assert files.load() == New()
        await files.drop_claim()  # there is none: nothing happens
        await files.save_claim(CLAIMED)
        assert files.load() == CLAIMED
        await files.drop_claim()
        assert files.load() == New()
        await files.save_claim(CLAIMED)
        await files.keep(CLAIMED.broker_id)
        assert files.load() == Owned(broker_id=BrokerId(3))

    asyncio.run(case())
    (tmp_path / "epochs").write_bytes(b"1\n")
    assert files.load() == Owned(broker_id=BrokerId(3))
    (tmp_path / "brokerIdentity").rename(tmp_path / "away")
    with pytest.raises(IdentityError, match="epochs is not: restore the file"):
        files.load()
    (tmp_path / "away").rename(tmp_path / "brokerIdentity")
    (tmp_path / "epochs").unlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["brokerIdentity"]
    assert (tmp_path / "brokerIdentity").read_bytes() == b"c#b#3#crc32=e01df369"


def test_the_check_code_begins_with_the_address() -> None:
    """The controller takes the address from it (docs/spec/remoting.md 8.3)."""
    assert check_code("10.0.0.5:10911", 1_700_000_000_000) == CODE
