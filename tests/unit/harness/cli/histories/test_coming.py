"""How far a judgement has come, in a line."""

from pathlib import Path

from maxq.harness.cli.histories.coming import Coming


def test_what_is_going_on_is_said(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    path.write_bytes(b" " * 3_000_000)
    coming = Coming(path, 60)
    coming.read(1_000_000)
    assert coming.line().startswith("reading: 1 of 3 MB, ")
    assert coming.line().endswith(" MB a second; 0 of 60 s")
    coming.goes_on("judging 12 events by register")
    assert coming.line() == "judging 12 events by register; 0 of 60 s"
    assert coming.seconds() >= 0
