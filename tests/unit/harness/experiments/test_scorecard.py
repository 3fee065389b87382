"""Scorecards: what is run in which order, what a cell says, and the pages."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from maxq.harness.cli.scorecard import scorecard as command
from maxq.harness.experiments import scorecard
from maxq.harness.experiments.engine import JOURNAL
from maxq.harness.experiments.scorecard import (
    Entry,
    Job,
    Scorecard,
    battery,
    cell,
    middle,
    script_of,
)
from maxq.harness.experiments.scorecard_page import TITLES, markdown, page, word
from maxq.harness.experiments.scorecard_sentences import in_short
from maxq.harness.run.replay import Rate
from maxq.harness.schedule.format import digest_of

OLD, NEW = "rocketmq:5.1.0", "rocketmq:5.5.0"


def entry(name: str = "kill_master", target: str = NEW, **given: Any) -> Entry:
    profile = given.pop("profile", "P-SAFE")
    job = Job(name=name, target=target, profile=profile, environment="local")
    digest = digest_of(script_of(name, "local"))
    return Entry(job=job, digest=digest, date="2026-11-22", run="/runs/x", **given)


def card(folder: Path, *entries: Entry, **given: Any) -> Scorecard:
    folder.mkdir(exist_ok=True)
    lines = b"".join(msgspec.json.encode(e) + b"\n" for e in entries)
    (folder / JOURNAL).write_bytes(lines)
    more = {"targets": (OLD, NEW), "profiles": ("P-SAFE", "P-DEFAULT"), "environment": "local"}
    return Scorecard(folder, **{**more, **given})


def test_the_battery_has_a_schedule_for_each_class_of_faults() -> None:
    acts = {act.f for name in battery() for act in script_of(name, "local").acts}
    assert len(battery()) >= 8
    assert acts >= {
        "kill",
        "pause",
        "start-partition",
        "change-address",
        "order-election",
        "restart",
    }
    assert scorecard.LATENCY.keys() <= set(battery())
    for name in battery():
        assert script_of(name, "local").header.known is None


def test_pairs_have_a_battery_and_cells_of_their_own(tmp_path: Path) -> None:
    names = battery("pair")
    assert 3 <= len(names) <= 5
    for name in names:
        assert script_of(name, "local", "pair").header.options["controllers"] == 0
    with_controllers = entry(claims={"S6": "kept"})
    job = Job(name=names[0], target=NEW, profile="P-SYNC", environment="local", mode="pair")
    digest = digest_of(script_of(names[0], "local", "pair"))
    pair = Entry(job=job, digest=digest, claims={"P4": "broken", "A8": "kept"}, run="/runs/y",
                 found=("P4/acting-offset-lost",), date="2026-11-27")  # fmt: skip
    other = {"mode": "pair", "profiles": ("P-SYNC", "P-ASYNC")}
    of_pairs = card(tmp_path, with_controllers, pair, **other)
    assert of_pairs.entries() == [pair]
    assert card(tmp_path, with_controllers, pair).entries() == [with_controllers]
    assert len(card(tmp_path, seeds=1, **other).missing()) == (len(names) + 1) * 4
    text = markdown(of_pairs)
    assert text.startswith(f"# {TITLES['pair']}\n")
    assert "| masters take over their slaves' offsets (P4) | - | **broken 1 of 1** |" in text
    assert "DLedger" not in text
    assert f"`maxq replay harness/schedule/battery_pairs/{names[0]}.jsonl" in text
    assert "--profiles sync,async --mode pair --env local" in text
    assert cell([pair], "A8", NEW, "P-SYNC").promised


def test_a_schedule_that_takes_a_promise_back_breaks_nothing() -> None:
    """Consumers of `open_messages` may not read from slaves, by a setting of the schedule."""
    names = ("open_messages", "kill_and_return")
    closed, read = (
        Job(name=name, target=NEW, profile="P-SYNC", environment="local", mode="pair")
        for name in names
    )
    measured = Entry(job=closed, digest="", claims={"A5": "broken", "E9": "broken"})
    kept = Entry(job=read, digest="", claims={"A5": "kept"})
    assert cell([measured], "A5", NEW, "P-SYNC").state == "unknown"
    assert word(cell([measured, kept], "A5", NEW, "P-SYNC")) == "kept 1"
    assert word(cell([measured, kept], "E9", NEW, "P-SYNC")) == "broken 1 of 1"


def test_profiles_of_the_other_mode_are_refused(tmp_path: Path) -> None:
    words = ["--versions", "5.5.0", "--mode", "pair", "--profiles", "sync,safe"]
    told = CliRunner().invoke(command, [*words, "--store", str(tmp_path)])
    assert told.exit_code == 2
    assert "P-SAFE is no profile of --mode pair" in " ".join(told.output.split())


def test_all_cells_fill_at_one_pace(tmp_path: Path) -> None:
    empty = card(tmp_path, rounds=2)
    jobs = empty.missing()
    assert len(jobs) == len(battery()) * 4 * 2
    first = jobs[:4]
    assert {j.name for j in first} == {battery()[0]}
    assert {(j.target, j.profile) for j in first} == {
        (t, p) for t in (OLD, NEW) for p in ("P-SAFE", "P-DEFAULT")
    }


def test_what_is_done_is_not_missing(tmp_path: Path) -> None:
    done = entry(claims={"S6": "kept"})
    assert done.job not in card(tmp_path, done).missing()
    assert card(tmp_path, done, rounds=2).missing().count(done.job) == 1
    changed = msgspec.structs.replace(done, digest="of another schedule")
    assert done.job in card(tmp_path, changed).missing()
    failed = entry(error="SetupFailed: no")
    assert failed.job in card(tmp_path, failed).missing()
    assert failed.job not in card(tmp_path, failed, failed).missing()


@pytest.mark.parametrize(
    ("given", "state", "said"),
    [
        ([], "empty", "-"),
        ([{"error": "SetupFailed"}], "empty", "-"),
        ([{"claims": {"S6": "unknown"}}, {}], "unknown", "?"),
        ([{"claims": {"S6": "kept"}}] * 3, "kept", "kept 3"),
        ([{"claims": {"S6": "kept"}}, {"claims": {"S6": "unknown"}}], "kept", "kept 1"),
        ([{"absent": ("S6",)}], "n/a", "n/a"),
        ([{"claims": {"S6": "kept"}}, {"claims": {"S6": "broken"}}], "broken", "broken 1 of 2"),
    ],
)
def test_what_a_cell_says(given: list[dict[str, Any]], state: str, said: str) -> None:
    entries = [entry(**one) for one in given]
    found = cell(entries, "S6", NEW, "P-SAFE")
    assert (found.state, word(found)) == (state, said)
    assert cell(entries, "S6", OLD, "P-SAFE").state == "empty"


def test_what_the_profile_does_not_promise_is_in_parentheses() -> None:
    lost = entry(claims={"S6": "broken"}, found=("S6/lost-tail", "S9/x"), profile="P-DEFAULT")
    found = cell([lost], "S6", NEW, "P-DEFAULT")
    assert word(found) == "(broken 1 of 1)"
    assert (found.found, found.rate, found.shown_by) == (("S6/lost-tail",), Rate(1, 1), lost.job)


def test_the_middle_of_recoveries_counts_those_that_never_came() -> None:
    name = "kill of the master"
    some = [entry(recovery_ms={name: [1000.0, 3000.0]}), entry(recovery_ms={name: [None]})]
    assert middle(some, name) == (3000.0, 3)
    assert middle([entry(recovery_ms={name: [None, None, 5.0]})], name) == (None, 3)
    assert middle([], name) == (None, 0)


def whole(folder: Path) -> Scorecard:
    return card(
        folder,
        entry(
            claims={"S6": "broken", "S13": "kept"},
            found=("S6/lost-tail",),
            acknowledged=700,
            recovery_ms={"kill of the master": [4200.0]},
            components={"broker": "5.5.0 (abc)", "namesrv": "5.3.3 (abc)"},
        ),
        entry("one_sender", p50_ms=2.04, p99_ms=9.96, claims={"S13": "kept"}),
        entry(target=OLD, absent=("S1",), claims={"S6": "kept"}, late="woken late"),
        entry("pause_master", target=OLD, error="SetupFailed: <script>"),
    )


def test_claims_that_no_release_can_show_have_no_row(tmp_path: Path) -> None:
    absent = [entry(target=t, absent=("S1",), claims={"S6": "kept"}) for t in (OLD, NEW)]
    text = markdown(card(tmp_path, *absent, profiles=("P-SAFE",)))
    assert "| unique broker ids (S1) | no release can show it here |" in text
    kept = text.partition("## Kept by every release")[2]
    assert "| no acknowledged message lost (S6) | 1 |" in kept


def test_where_nothing_was_broken_it_says_so(tmp_path: Path) -> None:
    kept = card(tmp_path, entry(claims={"S6": "kept"}))
    assert "## What was broken\n\nNothing.\n" in markdown(kept)
    assert "<p>Nothing.</p>" in page(kept)


def test_sentences_say_which_releases_broke_a_promise_and_which_did_not(tmp_path: Path) -> None:
    lost: dict[str, Any] = {
        "claims": {"S6": "broken", "S9": "broken"}, "found": ("S6/lost-tail", "S9/x"),
    }  # fmt: skip
    kept: dict[str, Any] = {"claims": {"S6": "kept", "S9": "kept"}}
    unpromised = entry(profile="P-DEFAULT", target=OLD, **lost)
    runs = (entry(**lost), entry(**kept), entry(target=OLD, **kept), unpromised)
    made = card(tmp_path, *runs, entry("pause_master", **kept))
    said = list(in_short(made, made.entries()))
    assert said == [
        "5.5.0: an acknowledged message was lost (S6, S9). Seen in 1 of 2 runs. The schedule: "
        f"{made.title('kill_master')}. Not in 5.1.0, in 1 run.",
        "Nothing that is promised was broken in 5.1.0.",
    ]
    both = card(tmp_path, entry(**lost), entry(target=OLD, **lost))
    said = list(in_short(both, both.entries()))
    assert said[0].startswith("5.1.0 and 5.5.0: an acknowledged message was lost (S6, S9). Seen in "
                              "1 of 1 runs each. ")  # fmt: skip


def test_no_claim_stands_without_words(tmp_path: Path) -> None:
    text = markdown(whole(tmp_path)).replace("S6/lost-tail", "")
    for line in text.splitlines():
        for code in re.findall(r"\b[SANPELBO]\d+[a-z]?\b", line):
            assert re.search(rf"\w \((?:\w+, )*{code}[,)]", line), line


def test_the_table_as_markdown(tmp_path: Path) -> None:
    text = markdown(whole(tmp_path))
    assert "3 runs, 2026-11-22, in local" in text
    assert (
        "Built by: maxq scorecard --versions 5.1.0,5.5.0 --profiles safe,default --env local\n"
        in text
    )
    assert "1 run did not come up." in text
    assert "Not finished: " in text
    assert "5.5.0 is run with namesrv 5.3.3." in text
    assert "(S1) |" not in text.partition("## What the claims say")[0]
    unjudged = text.partition("## Claims without a verdict")[2].partition("\n## ")[0]
    assert all(f"({claim}) | no run could judge it |" in unjudged for claim in ("S1", "S2"))
    assert not any(f"({claim})" in unjudged for claim in ("S6", "S13"))
    assert "| no acknowledged message lost (S6) | kept 1 | **broken 1 of 1** |" in text
    assert "| queues work after the last heal (S13) | ? | kept 2 |" in text
    found = text.index("## What was broken")
    assert text.index("## In short") < found < text.index("## P-SAFE") < text.index("(S13) | ? |")
    assert text.index("(S13) | ? |") < text.index("Built by: ")
    wanted = "| P-SAFE | an acknowledged message was lost (S6/lost-tail) | "
    assert wanted in text
    assert " | 0 of 1 | **1 of 1** | `maxq replay" in text.partition(wanted)[2]
    assert "| 5.5.0 | P-SAFE | 700 | 2.0, 10.0 | - | 4.2, 1 | - | - |" in text
    assert (
        "`maxq replay harness/schedule/battery/kill_master.jsonl --env local --target "
        "rocketmq:5.5.0 --profile safe --times 10`"
    ) in text
    assert "(S6) | An acknowledged message is never lost while" in text
    judged = text.partition("## Claims without a verdict")[0]
    assert "(L1) | " not in judged, "no run had anything to say of it"


def test_the_page_loads_nothing_and_shows_the_same(tmp_path: Path) -> None:
    text = page(whole(tmp_path))
    assert '<td class="broken">broken 1 of 1</td>' in text
    assert "default-src &#x27;none&#x27;" in text
    assert "http:" not in text
    assert "<script>" not in text
