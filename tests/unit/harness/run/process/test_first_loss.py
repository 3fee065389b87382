"""Signs that an acknowledged message was lost: seen where one was, and nowhere else."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxq.harness.run.lifecycle import JournalRecorder, no_alarm
from maxq.harness.run.process.first_loss import FirstLoss
from maxq.harness.run.replay import options_for, repeat
from maxq.harness.run.run_context import RunContext
from maxq.harness.schedule.format import decode
from maxq.histories.jsonl import JournalWriter
from maxq.histories.op import Op

DIRECTED = Path(__file__).parents[5] / "harness" / "schedule" / "directed"
QUEUES = 3


def sent(key: int, offset: int, value: int) -> Op:
    return Op("ok", 1, "send", [["send", key, [offset, value]]])


def polled(key: int, *messages: tuple[int, int]) -> Op:
    return Op("ok", 2, "poll", [["poll", {key: [[*message] for message in messages]}]])


logs = st.lists(st.lists(st.integers(0, 99), unique=True, max_size=8), min_size=QUEUES,
                max_size=QUEUES)  # fmt: skip


@st.composite
def operations(draw: st.DrawFn) -> list[Op]:
    """Sends and polls of logs in which every message keeps its place, in any order."""
    found = []
    for key, log in enumerate(draw(logs)):
        found += [sent(key, n, value) for n, value in enumerate(log)]
        if log:
            begin = draw(st.integers(0, len(log) - 1))
            found.append(polled(key, *[*enumerate(log)][begin:]))
    return draw(st.permutations(found))


@given(ops=operations())
def test_logs_that_keep_what_they_have_show_no_sign(ops: list[Op]) -> None:
    heard = FirstLoss()
    assert [heard.take(op) for op in ops] == [""] * len(ops)


@given(ops=operations(), key=st.integers(0, QUEUES - 1), read=st.booleans())
def test_another_message_at_an_acknowledged_place_is_a_sign(
    ops: list[Op], key: int, read: bool
) -> None:
    heard = FirstLoss()
    for op in [sent(key, 20, 100), *ops]:
        assert heard.take(op) == ""
    said = heard.take(polled(key, (19, 98), (20, 101)) if read else sent(key, 20, 101))
    assert said.startswith(f"message 100 of queue {key} was acknowledged at offset 20, and ")
    assert said.endswith("101 was read there" if read else "later 101 was")


@pytest.mark.parametrize("op", [
    Op("info", 1, "send", [["send", 0, 7]]), Op("invoke", 1, "send", [["send", 0, 7]]),
    Op("ok", 2, "poll", [["poll"]]), Op("ok", 3, "acquire", [0, 1]),
])  # fmt: skip
def test_what_says_nothing_of_a_place_is_no_sign(op: Op) -> None:
    heard = FirstLoss()
    assert (heard.take(sent(0, 0, 1)), heard.take(op)) == ("", "")


@pytest.mark.parametrize("mutant", ["majority_acknowledges", "acks_by_local_set"])
def test_runs_of_a_bug_that_loses_show_it_and_without_it_none(tmp_path: Path, mutant: str) -> None:
    script = decode((DIRECTED / f"{mutant}.jsonl").read_bytes())
    signs = {}
    for name in (mutant, ""):
        options = msgspec.structs.replace(options_for(script), mutant=name)
        [judged] = repeat(script, options, tmp_path / f"run-{name}", times=1, quiet=True,
                          context=RunContext())  # fmt: skip
        heard = FirstLoss()
        found = [said for op in judged.stored.history.ops if (said := heard.take(op))]
        signs[name] = len(found) > 0
        assert judged.results.valid is not bool(name)
    assert signs == {mutant: True, "": False}


def test_a_recorder_ends_the_run_for_the_first_sign(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "history.jsonl") as journal:
        ending = JournalRecorder(journal, lambda ns, op: None, FirstLoss().take)
        going_on = JournalRecorder(journal, lambda ns, op: None, no_alarm)
        for op in (sent(0, 0, 1), sent(0, 0, 2), sent(0, 0, 3)):
            ending.append(op)
            going_on.append(op)
        assert ending.short().endswith("and later 2 was")
        assert going_on.short() == ""
