"""What a stored seed is known by: the digest of the source that its run follows from."""

import sys
from pathlib import Path
from types import FrameType

import pytest

from maxq.harness.experiments.simulate import run_seed
from maxq.harness.run import provenance
from maxq.harness.run.provenance import ELSEWHERE, MAXQ, PACKAGES

LENGTH_MS = 6_000
SEEDS = (1, 6)  # with locks and registration


@pytest.fixture(scope="module")
def entered() -> set[str]:
    """The files of which a function was called in a run."""
    found: set[str] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    for seed in SEEDS:
        run_seed(seed, length_ms=LENGTH_MS)  # whatever is imported is imported now
        sys.setprofile(called)
        try:
            run_seed(seed, length_ms=LENGTH_MS)
        finally:
            sys.setprofile(None)
    return {
        str(Path(name).relative_to(MAXQ))
        for name in found
        if Path(name).is_relative_to(MAXQ) and Path(name).relative_to(MAXQ).parts[0] in PACKAGES
    }


def test_a_simulated_run_enters_nothing_that_the_digest_leaves_out(entered: set[str]) -> None:
    assert sorted(name for name in entered if name.startswith(ELSEWHERE)) == []
    assert {name.split("/")[0] for name in entered} == set(PACKAGES)


def test_what_is_left_out_is_there() -> None:
    files = [str(p.relative_to(MAXQ)) for top in PACKAGES for p in (MAXQ / top).rglob("*.py")]
    assert [e for e in ELSEWHERE if not any(name.startswith(e) for name in files)] == []


@pytest.mark.parametrize(
    ("name", "same"), [("harness/cli/main.py", True), ("harness/run/stored_run.py", False)]
)
def test_the_digest_follows_what_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, same: bool
) -> None:
    for path in ("harness/cli/main.py", "harness/run/stored_run.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("before")
    monkeypatch.setattr(provenance, "MAXQ", tmp_path)
    before = provenance.digest.__wrapped__()
    (tmp_path / name).write_text("after")
    assert (provenance.digest.__wrapped__() == before) is same
