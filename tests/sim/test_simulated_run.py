"""Whole runs in the simulator: valid when correct, caught when not."""

from pathlib import Path

from small import SMALL

from maxq.harness.run.stored_run import run_test
from maxq.harness.schedule.options import Options

SECOND_NS = 1_000_000_000


def simulate(folder: Path, *, seed: int, seconds: int, mutant: str = "") -> tuple[bytes, object]:
    """Run in this process; the recorded bytes and the verdict."""
    options = Options(
        environment="simulated",
        seed=seed,
        time_limit_ns=seconds * SECOND_NS,
        mutant=mutant,
        **SMALL,
    )
    judged = run_test(options, folder, quiet=True)
    return (judged.stored.path / "history.jsonl").read_bytes(), judged.results.valid


def test_the_correct_reference_passes(tmp_path: Path) -> None:
    """S6, S10, S11 under kill and restart."""
    assert simulate(tmp_path, seed=11, seconds=15)[1] is True


def test_a_broker_that_acknowledges_before_it_writes_is_caught(tmp_path: Path) -> None:
    """S6: the first mutant, caught by the checker that owns its claim."""
    options = Options(
        environment="simulated",
        seed=1,
        time_limit_ns=15 * SECOND_NS,
        mutant="ack_before_write",
        **SMALL,
    )
    judged = run_test(options, tmp_path, quiet=True)
    assert judged.exit_code == 1
    durability = judged.results.verdicts[0]
    assert durability.checker == "durability"
    lost = [a for a in durability.anomalies if a.name in ("lost-write", "lost-tail")]
    assert lost
    assert all("acknowledged value" in a.story for a in lost)


def test_other_seeds_are_other_histories(tmp_path: Path) -> None:
    """A check that cannot fail would call everything equal."""
    assert simulate(tmp_path, seed=1, seconds=3)[0] != simulate(tmp_path, seed=2, seconds=3)[0]


def test_all_of_many_topics_are_sent_to_and_read_to_their_ends(tmp_path: Path) -> None:
    options = Options(
        environment="simulated", seed=5, topics=90, time_limit_ns=15 * SECOND_NS, **SMALL
    )
    judged = run_test(options, tmp_path, quiet=True)
    assert judged.results.valid is True
    history = judged.stored.history
    sent = {op.value[0][1] for op in history.of_f("send") if op.type == "ok"}
    assert len(sent) > 60
    read = [op for op in history.of_f("poll") if (op.ext or {}).get("drained")]
    assert read, "every reader says that all is read"
    ended = {k for op in history.of_f("poll") for k in (op.ext or {}).get("end", {})}
    assert len(ended) >= 91
    assert judged.results.lost.lost == 0
