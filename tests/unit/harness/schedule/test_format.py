"""Schedules as files: what is read back, what is refused and how, what a load stands for."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from maxq.harness.schedule.format import (
    LOAD_VALUES,
    Act,
    Call,
    Done,
    Header,
    Load,
    Schedule,
    ScheduleError,
    Stretch,
    When,
    Who,
    decode,
    encode,
    ns,
    read,
    seconds,
)

HEADER = '{"item": "header"}'
WHOLE = Schedule(
    header=Header(
        name="all of it",
        length=12.5,
        seed=7,
        options={"profile": "P-ALL", "keys": {"broker:flushDiskType": "SYNC_FLUSH"}},
        factors={"crash": "kill"},
    ),
    loads=(
        Load(id="l", at=1.0, until=3.0, rate=2.5, keys=(0, 1, 2), threads=(3, 4), size=900),
        Load(id="r", until=3, rate=1, f="poll"),
        Load(id="t", until=3, rate=1, f="turn", threads=(0,), workload="lock"),
    ),
    calls=(
        Call(id="s", at=0.000000001, thread=5, value=[1, 0, 7]),
        Call(id="p", at=2, thread=0, f="poll"),
        Call(id="x", at=2, thread=1, f="turn", workload="registration"),
    ),
    acts=(
        Act(id="c", f="start-partition", when=When(at=5), who=Who(part="master"),
            args={"from": ["c0", "c1"], "reset": True}),
        Act(id="h", f="stop-partition", when=When(after="c", at=8), who=Who(of="c")),
        Act(id="k", f="kill", when=When(after="new-epoch", at=0.25, within=3),
            who=Who(part="broker", count=-1), done=Done(at=9.5, nodes={"b0-1": "slave"})),
        Act(id="b", f="start", when=When(after="k"), who=Who(of="k", share="rest")),
        Act(id="z", f="pause", who=Who(nodes=("b0-0", "n0"))),
    ),
)  # fmt: skip


def refused(*lines: str) -> str:
    with pytest.raises(ScheduleError) as caught:
        decode("\n".join(lines).encode(), "mine.jsonl")
    assert str(caught.value).startswith("mine.jsonl"), "it names the file"
    return str(caught.value)


def act(id_: str, **more: Any) -> str:
    return msgspec.json.encode({"item": "act", "id": id_, "f": "kill", **more}).decode()


def test_every_item_is_read_back() -> None:
    assert decode(encode(WHOLE)) == WHOLE
    once = decode(encode(WHOLE))  # where times are decimals
    assert encode(decode(encode(once))) == encode(once)


def test_what_is_as_ever_is_not_written() -> None:
    small = Schedule(
        calls=(Call(id="p", at=1.0, thread=0, f="poll"),), acts=(Act(id="k", f="kill"),)
    )
    assert encode(small).decode().splitlines() == [
        '{"item":"header"}',
        '{"item":"act","id":"k","f":"kill"}',
        '{"item":"call","id":"p","at":1.0,"thread":0,"f":"poll"}',
    ]


def test_comments_and_empty_lines_are_for_people() -> None:
    text = f"# why this is here\n\n{HEADER}\n   # and this\n \n{act('k')}\n"
    assert decode(text.encode()).acts == (Act(id="k", f="kill"),)


def test_a_file_is_read_and_a_missing_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(encode(WHOLE))
    assert read(path) == WHOLE
    with pytest.raises(ScheduleError, match=r"other\.jsonl: No such file"):
        read(tmp_path / "other.jsonl")
    path.write_text("{}")
    with pytest.raises(ScheduleError, match=r"^s\.jsonl, line 1"):
        read(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"item": "act", "id": "k", "f": "kill", "whom": {}}', "unknown field `whom`"),
        ('{"item": "act", "id": "k", "f": "kill", "when": {"time": 3}}', "unknown field `time`"),
        ('{"item": "act", "id": "k", "f": "kill", "who": {"node": "b"}}', "unknown field `node`"),
        ('{"item": "act", "id": "k", "f": "kill", "who": {"share": "some"}}', "'some'"),
        ('{"item": "act", "f": "kill"}', "missing required field `id`"),
        ('{"item": "load", "id": "l", "rate": 3}', "missing required field `until`"),
        ('{"item": "call", "id": "c", "at": "soon", "thread": 1}', "$.at"),
        ('{"item": "fault", "id": "f"}', "'fault'"),
        ('{"item": "act"', "truncated"),
        ("[]", "Expected `object`"),
        ("\udcff", "invalid"),
    ],
)
def test_a_wrong_line_is_named(line: str, said: str) -> None:
    data = f"{HEADER}\n# fine\n".encode() + line.encode(errors="surrogateescape")
    with pytest.raises(ScheduleError) as caught:
        decode(data, "mine.jsonl")
    assert str(caught.value).startswith("mine.jsonl, line 3: ")
    assert said.lower() in str(caught.value).lower()


def test_a_schedule_has_one_header_and_that_comes_first() -> None:
    for lines in ([act("k")], [act("k"), HEADER], [HEADER, HEADER], [HEADER, act("k"), HEADER], []):
        assert refused(*lines).endswith("needs one header, in its first line")


def test_another_version_is_refused() -> None:
    assert refused('{"item": "header", "version": 2}') == "mine.jsonl: version 2; this is 1"


def test_an_id_is_there_once() -> None:
    load = '{"item": "load", "id": "k", "until": 3, "rate": 1}'
    call = '{"item": "call", "id": "k", "at": 1, "thread": 3}'
    for twice in ((act("k"), load), (load, call), (call, call)):
        assert refused(HEADER, *twice) == "mine.jsonl: the id 'k' is there twice"


def test_what_an_act_waits_for_and_concerns_is_there() -> None:
    unknown = refused(HEADER, act("k", when={"after": "cut"}))
    assert "k waits for 'cut', which is no act; events: new-epoch, set-grew" in unknown
    assert refused(HEADER, act("k", who={"of": "cut"})).endswith(
        "k concerns 'cut', which is no act"
    )
    later = decode("\n".join([HEADER, act("k", when={"after": "z"}), act("z")]).encode())
    assert later.acts[0].when.after == "z", "order in the file is no order in time"


@pytest.mark.parametrize("ring", [("a",), ("a", "b"), ("a", "b", "c")])
def test_acts_that_wait_for_each_other_would_wait_for_ever(ring: tuple[str, ...]) -> None:
    acts = [act(i, when={"after": ring[n - 1]}) for n, i in enumerate(ring)]
    behind = act("z", when={"after": "a"})
    said = refused(HEADER, *acts, behind, act("free"))
    assert said == f"mine.jsonl: {', '.join((*ring, 'z'))} wait for each other"


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (act("x", when={"at": -0.5}), ">= 0.0 - at `$.when.at`"),
        (act("x", when={"at": 1e300}), "<= 604800.0 - at `$.when.at`"),
        (act("x", when={"after": "healed", "within": 1e9}), "<= 604800.0 - at `$.when.within`"),
        (act("x", who={"part": "broker", "count": 10**12}), "<= 1000 - at `$.who.count`"),
        ('{"item": "call", "id": "x", "at": -1, "thread": 3}', ">= 0.0 - at `$.at`"),
        ('{"item": "call", "id": "x", "at": 1, "thread": 1000000000}', "<= 999 - at `$.thread`"),
        ('{"item": "load", "id": "x", "at": -1, "until": 3, "rate": 1}', ">= 0.0 - at `$.at`"),
        ('{"item": "load", "id": "x", "until": 1e308, "rate": 1}', "<= 604800.0 - at `$.until`"),
        ('{"item": "load", "id": "x", "until": 3, "rate": 0}', "> 0.0 - at `$.rate`"),
        ('{"item": "load", "id": "x", "until": 3, "rate": -1}', "> 0.0 - at `$.rate`"),
        ('{"item": "load", "id": "x", "until": 3, "rate": 1e9}', "<= 100000.0 - at `$.rate`"),
        (
            '{"item": "load", "id": "x", "until": 3, "rate": 1, "threads": [1000]}',
            "<= 999",
        ),
        ('{"item": "load", "id": "x", "until": 3, "rate": 1, "size": 1000000000000}', "`$.size`"),
        ('{"item": "load", "id": "x", "until": 3, "rate": 1, "lull": -1}', ">= 0.0 - at `$.lull`"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_what_sizes_a_run_is_bounded(item: str, said: str) -> None:
    why = refused(HEADER, item)
    assert why.startswith("mine.jsonl, line 2: ")
    assert said in why


@pytest.mark.parametrize(
    "field", ['"length": -1', '"length": 1e300', '"seed": -1', f'"seed": {2**63}']
)
def test_what_a_header_says_is_bounded(field: str) -> None:
    why = refused(f'{{"item": "header", {field}}}')
    assert why.startswith("mine.jsonl, line 1: Expected")


def test_a_load_has_keys() -> None:
    line = '{"item": "load", "id": "x", "until": 3, "rate": 1, "keys": []}'
    assert refused(HEADER, line) == "mine.jsonl: x needs keys"


def test_times_are_whole_nanoseconds() -> None:
    for time_ns in (0, 1, 999_999_999, 123_456_789_012, 7 * 24 * 3600 * 10**9 - 1):
        assert ns(seconds(time_ns)) == time_ns
        again = decode(encode(Schedule(calls=(Call(id="c", at=seconds(time_ns), thread=0),))))
        assert ns(again.calls[0].at) == time_ns


def test_a_load_stands_for_these_calls_for_ever() -> None:
    """Stored schedules mean what they meant: ids key the draws of a run, values its messages."""
    load = Load(id="l", at=1.5, until=3.1, rate=3, keys=(4, 5), threads=(6, 3), size=9)
    assert list(Stretch(load, 2_000_000)) == [
        Call(id="l/0", at=1.5, thread=6, value=[4, 9, 2_000_000]),
        Call(id="l/1", at=1.833333333, thread=3, value=[5, 9, 2_000_001]),
        Call(id="l/2", at=2.166666667, thread=6, value=[4, 9, 2_000_002]),
        Call(id="l/3", at=2.5, thread=3, value=[5, 9, 2_000_003]),
    ]


def test_a_load_has_threads_of_its_own_kind_if_none_are_said() -> None:
    sends = list(Stretch(Load(id="s", until=7, rate=1), 0))
    polls = list(Stretch(Load(id="p", until=3, rate=1, f="poll"), 0))
    turns = list(Stretch(Load(id="t", until=2, rate=1, f="turn", workload="lock", threads=(1,)), 0))
    assert [c.thread for c in sends] == [3, 4, 5, 6, 7, 3, 4]
    assert [(c.thread, c.value) for c in polls] == [(0, None), (1, None), (0, None)]
    assert {(c.f, c.thread, c.workload, c.value) for c in turns} == {("turn", 1, "lock", None)}
    assert list(Stretch(Load(id="n", at=3, until=3, rate=9), 0)) == []


def test_all_calls_are_in_order_and_numbered_by_load() -> None:
    made = WHOLE.expanded()
    assert [(c.at, c.id) for c in made] == sorted((c.at, c.id) for c in made)
    values = [c.value[2] for c in made if c.f == "send"]
    assert sorted(values) == [7, *(LOAD_VALUES + n for n in range(5))]
    # Turns are of no kind that is known before.
    assert WHOLE.counts() == {"lock": 3, "poll": 4, "queue": 10, "registration": 1, "send": 6}


def test_a_load_with_lulls_pauses_and_goes_on_counting() -> None:
    load = Load(id="l", at=1, until=11, rate=2, busy=2, lull=3, threads=(0, 1))
    made = list(Stretch(load, 0))
    assert [c.at for c in made] == [1, 1.5, 2, 2.5, 6, 6.5, 7, 7.5]
    assert [c.value[2] for c in made] == [*range(8)]
    assert [c.at for c in Stretch(load, 0).of_thread(1)] == [1.5, 2.5, 6.5, 7.5]
    short = msgspec.structs.replace(load, until=7.2)
    assert [c.at for c in Stretch(short, 0)] == [1, 1.5, 2, 2.5, 6, 6.5]
    with pytest.raises(ScheduleError, match="l has no call between its quiet periods"):
        decode(encode(Schedule(loads=(msgspec.structs.replace(load, busy=0.1),))))


def test_an_hour_of_a_thousand_a_second_is_no_list() -> None:
    hour = Stretch(Load(id="l", until=3600, rate=1000, threads=(0, 1, 2)), 1_000_000)
    assert len(hour) == 3_600_000
    assert hour[3_599_999].at == 3599.999
    assert len(hour.of_thread(2)) == 1_200_000
    assert hour[2:4] == [hour[2], hour[3]]
    with pytest.raises(IndexError):
        hour[3_600_000]
    loads = tuple(Load(id=str(n), until=3600, rate=1000) for n in range(2))
    first, second = Schedule(loads=loads).stretches()
    assert second[0].value[2] > first[len(first) - 1].value[2], "no number is given away twice"
