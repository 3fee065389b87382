"""Damaged files: whatever their bytes are, they are read or refused by name."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from history_recorder import Recorder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from maxq.harness.experiments.campaign import BUILT_IN, CampaignError, jobs_of, read_campaign
from maxq.harness.run.rejudge import FORMATS, open_file
from maxq.histories.history import wellformed
from maxq.histories.op import HistoryError

# What a value is replaced by, or what is put between two.
PIECES = (
    b"\xff", b"9" * 5000, b"-5", b"18446744073709551616", b"1e999", b"##NaN", b"\\ud800", b"\0",
    b"null", b"true", b'"$map"', b'"$set"', *(bytes([c]) for c in b'"[]{}()#,:-0'),
)  # fmt: skip
Change = tuple[float, int, bytes]  # where, how many bytes of that go, what comes
CHANGES = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES) | st.binary(max_size=8)),
    min_size=1,
    max_size=4,
)
# The file is written anew for each example, so one folder serves all.
SETTINGS = settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def recorded() -> Recorder:
    recorder = Recorder()
    recorder.assign(1, 0, seek=True)
    recorder.fault("kill", **{"b0-0": True})
    for offset in range(3):
        recorder.send(0, 10 + offset, offset, broker="x:1")
    recorder.poll(1, (0, 10), (2, 12), end={0: 3})
    return recorder


def damaged(data: bytes, changes: list[Change]) -> bytes:
    for where, gone, new in changes:
        at = int(where * len(data))
        data = data[:at] + new + data[at + gone :]
    return data


def history(path: Path) -> None:
    """Read it, and what was read can be judged and written again."""
    with suppress(HistoryError):
        ops = open_file(path).history.ops
        wellformed(open_file(path).history)
        for encode in FORMATS.values():
            encode(ops, "run")


def campaign(path: Path) -> None:
    with suppress(CampaignError):
        jobs_of(read_campaign(path))


SOURCES: dict[str, tuple[bytes, Callable[[Path], None]]] = {
    **{f".{name}": (encode(recorded().ops, "run"), history) for name, encode in FORMATS.items()},
    ".toml": ((BUILT_IN / "acceptance.toml").read_bytes(), campaign),
}


@pytest.mark.parametrize("suffix", SOURCES)
@SETTINGS
@given(changes=CHANGES)
def test_a_damaged_file_is_read_or_refused(
    tmp_path: Path, suffix: str, changes: list[Change]
) -> None:
    data, read = SOURCES[suffix]
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(damaged(data, changes))
    read(path)


@pytest.mark.parametrize("suffix", SOURCES)
def test_what_is_not_damaged_is_read(tmp_path: Path, suffix: str) -> None:
    """Otherwise the other test would only see refusals."""
    data, _ = SOURCES[suffix]
    path = tmp_path / f"whole{suffix}"
    path.write_bytes(data)
    if suffix == ".toml":
        assert jobs_of(read_campaign(path))
    else:
        assert len(open_file(path).history) == len(recorded().ops)
