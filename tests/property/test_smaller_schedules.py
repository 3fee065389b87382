"""What a shrinker tries: every candidate of any drawn schedule is a schedule, and is no larger."""

import itertools
from collections.abc import Iterable
from functools import cache

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from maxq.harness.run.replay import options_for
from maxq.harness.sampling.draw import draw
from maxq.harness.sampling.factors import row_of
from maxq.harness.schedule import reductions
from maxq.harness.schedule.format import (
    START,
    Act,
    Call,
    Done,
    Header,
    Load,
    Schedule,
    When,
    Who,
    decode,
    encode,
    ns,
)

LENGTH_MS = 12_000


@cache
def drawn(seed: int) -> Schedule:
    script = draw(seed, row_of(seed), length_ms=LENGTH_MS)
    return msgspec.structs.replace(script, calls=script.calls[::7])


def performed(script: Schedule) -> Schedule:
    """As if each act had been done a second after the one before it in the schedule."""
    acts = tuple(
        msgspec.structs.replace(act, done=Done(at=float(n + 1), nodes={"b0-0": "master"}))
        for n, act in enumerate(script.acts)
    )
    return msgspec.structs.replace(script, acts=acts)


raw = st.integers(0, 300).map(drawn)
timed = raw.map(lambda script: reductions.pinned(performed(script)))
either = st.one_of(raw, timed)


def ids_of(script: Schedule) -> set[str]:
    return {act.id for act in script.acts} | {call.id for call in script.calls}


def assert_smaller(script: Schedule, found: Iterable[Schedule]) -> list[Schedule]:
    """Each candidate can be written, read and performed, and has no more of anything."""
    ids = ids_of(script)
    kept = list(found)
    for one in kept:
        assert decode(encode(one)) == one
        options_for(one)
        faults, ops = reductions.size_of(one)
        assert faults <= reductions.size_of(script)[0]
        assert ops <= reductions.size_of(script)[1]
        assert one.header.length <= script.header.length
        assert ids_of(one) <= ids
        assert all(call.at >= 0 for call in one.calls)
    return kept


@given(script=timed)
@settings(max_examples=25, deadline=None)
def test_pinned_acts_depend_on_nothing(script: Schedule) -> None:
    assert {act.when.after for act in script.acts} <= {START}
    assert [act.when.at for act in script.acts] == [float(n + 1) for n in range(len(script.acts))]
    assert reductions.pinned(script) == script


@given(script=either)
@settings(max_examples=25, deadline=None)
def test_simpler_settings_change_one_setting(script: Schedule) -> None:
    for one in assert_smaller(script, reductions.simpler_settings(script)):
        assert one.header.options != script.header.options
        assert one.acts == script.acts


@given(script=either)
@settings(max_examples=25, deadline=None)
def test_fewer_faults_drop_something(script: Schedule) -> None:
    found = assert_smaller(script, reductions.fewer_faults(script))
    assert all(len(one.acts) < len(script.acts) for one in found)
    assert all(one.calls == script.calls for one in found)


@given(script=either, share=st.floats(0.01, 1.2))
@settings(max_examples=60, deadline=None)
def test_cut_off_and_earlier(script: Schedule, share: float) -> None:
    at = script.header.length * share
    for one in assert_smaller(script, reductions.shorter(script, [at, at / 2, at, -1.0])):
        assert all(c.at < one.header.length + 0.001 for c in one.calls)
    if at < script.header.length:
        [one] = assert_smaller(script, [reductions.earlier(script, at)])
        gone = {c.id for c in script.calls if c.at < at}
        assert {c.id for c in one.calls} == {c.id for c in script.calls} - gone


@given(script=either, parts=st.integers(2, 16), names=st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_fewer_calls(script: Schedule, parts: int, names: int) -> None:
    dear = frozenset(c.id for c in script.calls[:names])
    found = assert_smaller(script, reductions.fewer_calls(script, parts, dear))
    assert len(found) <= parts
    assert all(0 < len(one.calls) < len(script.calls) for one in found)
    if len(script.calls) > parts > 1:
        gone = [{c.id for c in script.calls} - {c.id for c in one.calls} for one in found]
        assert set().union(*gone) == {c.id for c in script.calls}, "each is left out once"
        assert sum(map(len, gone)) == len(script.calls)
        if 0 < names <= len(gone[-1]):
            assert dear <= gone[-1]
    for one in assert_smaller(script, reductions.without_kinds(script)):
        assert len({(c.workload, c.f) for c in one.calls}) >= 1
        assert len(one.calls) < len(script.calls)
    for one in assert_smaller(script, reductions.near(script, [2.0, 5.0])):
        assert all(min(abs(c.at - 2), abs(c.at - 5)) <= 8 for c in one.calls)


@given(script=either)
@settings(max_examples=25, deadline=None)
def test_closer_keeps_the_order_of_everything(script: Schedule) -> None:
    order = [c.id for c in sorted(script.calls, key=lambda c: ns(c.at))]
    for one in assert_smaller(script, reductions.closer(script)):
        assert one.header.length < script.header.length
        assert len(one.calls) == len(script.calls)
        assert len(one.acts) == len(script.acts)
        at = {c.id: c.at for c in one.calls}
        assert all(at[a] <= at[b] + 1e-6 for a, b in itertools.pairwise(order))


@given(script=timed)
@settings(max_examples=25, deadline=None)
def test_forms_that_people_write(script: Schedule) -> None:
    chained = reductions.chained(script)
    afters = [act.when.after for act in chained.acts]
    assert afters == ["", *(act.id for act in chained.acts)][: len(afters)]
    for forms in (reductions.on_events, reductions.with_load, reductions.wider):
        for form in [chained, *itertools.islice(forms(chained), 6)]:
            assert decode(encode(form)) == form
            assert [act.id for act in form.acts] == [act.id for act in script.acts]
            assert form.header.length >= script.header.length


# By example.

ACTS = (
    Act(id="c", f="start-partition", when=When(at=2.0), who=Who(part="master")),
    Act(id="c.h1", f="stop-partition", when=When(after="c", at=3.0), who=Who(of="c")),
    Act(id="k", f="kill", when=When(after="c.h1", at=0.5), who=Who(part="slave")),
    Act(id="k.h", f="start", when=When(after="k", at=1.0), who=Who(of="k")),
    Act(id="e", f="pause", when=When(after="new-epoch", at=0.25, within=4.0)),
    Act(id="z", f="resume", when=When(after="e", at=1.0)),
)


def sends(*times: float) -> tuple[Call, ...]:
    return tuple(
        Call(id=f"s{n}", at=at, thread=3 + n % 2, value=[n % 3, 10 * n, n])
        for n, at in enumerate(times)
    )


WRITTEN = Schedule(header=Header(length=20.0), acts=ACTS, calls=sends(1.0, 4.0, 6.0, 10.0))


def test_what_waited_for_an_act_that_is_gone_waits_for_what_that_waited_for() -> None:
    left = reductions.without_acts(WRITTEN, {"c.h1"})
    assert left[1] == Act(id="k", f="kill", when=When(after="c", at=3.5), who=Who(part="slave"))
    both = reductions.without_acts(WRITTEN, {"c.h1", "k"})
    assert [(a.id, a.when) for a in both] == [
        ("c", When(at=2.0)), ("e", ACTS[4].when), ("z", ACTS[5].when),
    ]  # fmt: skip
    first = reductions.without_families(WRITTEN, ["c"])
    assert (first.acts[0].id, first.acts[0].when) == ("k", When(at=5.5))
    event = reductions.without_acts(WRITTEN, {"e"})
    assert event[-1].when == When(after="new-epoch", at=1.25, within=4.0)


def test_a_heal_of_what_is_gone_takes_nobody_with_it() -> None:
    """The heal goes as well, since it concerns whom the fault struck; the kill waited for it."""
    left = reductions.without_acts(WRITTEN, {"c"})
    assert [(a.id, a.when) for a in left[:2]] == [
        ("k", When(at=5.5)), ("k.h", When(after="k", at=1.0)),
    ]  # fmt: skip
    cut = reductions.cut_off(WRITTEN, 1.5)
    assert decode(encode(cut)) == cut
    assert [c.id for c in cut.calls] == ["s0"]


def test_less_time_between_two_moments() -> None:
    less = reductions.squeezed(WRITTEN, 2.0, 8.0, 3.0)
    assert [c.at for c in less.calls] == [1.0, 3.0, 4.0, 7.0]
    assert less.header.length == 17.0
    assert less.acts == ACTS, "what waits for an act comes as long after it as before"


def test_sends_at_equal_distances() -> None:
    [made] = reductions.with_load(WRITTEN)
    [load] = made.loads
    assert (load.keys, load.size, made.calls) == ((0, 1, 2), 30, ())
    assert len(made.expanded()) == reductions.LOAD_CALLS
    assert made.expanded()[-1].at < WRITTEN.header.length
    polls = Call(id="p", at=1.0, thread=0, f="poll")
    [beside] = reductions.with_load(msgspec.structs.replace(WRITTEN, calls=(*WRITTEN.calls, polls)))
    assert beside.calls == (polls,)
    assert not list(reductions.with_load(made)), "it has a load"


def test_acts_wait_for_events_one_after_the_other() -> None:
    acts = (Act(id="a", f="kill", when=When(at=2.0)), Act(id="b", f="start", when=When(after="a")))
    forms = list(reductions.on_events(Schedule(acts=acts)))
    assert [form.acts[1].when.after for form in forms] == list(reductions.LIFTED)
    assert all(form.acts[0] == acts[0] for form in forms), "nothing comes before the first"
    again = list(reductions.on_events(forms[0]))
    assert not again, "what waits for an event already stays as it is"


def test_everything_that_lasts_lasts_longer() -> None:
    first = next(reductions.wider(WRITTEN))
    assert first.header.length == WRITTEN.header.length * 1.5
    assert [a.when.at for a in first.acts] == [round(a.when.at * 1.5, 3) for a in WRITTEN.acts]
    assert [c.at for c in first.calls] == [c.at * 1.5 for c in WRITTEN.calls]


def test_a_workload_goes_with_its_calls_and_loads() -> None:
    script = Schedule(
        header=Header(options={"workload": ["queue", "lock"]}),
        loads=(Load(id="l", until=3.0, rate=1.0, f="turn", workload="lock"),),
        calls=WRITTEN.calls,
    )
    without = [s for s in reductions.simpler_settings(script) if s.header.options["workload"] != [
        "queue", "lock"]]  # fmt: skip
    assert [(s.header.options["workload"], len(s.calls), len(s.loads)) for s in without] == [
        (["lock"], 0, 1), (["queue"], 4, 0),
    ]  # fmt: skip


def test_a_schedule_that_names_no_workloads_has_all_of_them() -> None:
    tried = [s.header.options.get("workload") for s in reductions.simpler_settings(WRITTEN)]
    for left in (["lock", "registration"], ["queue", "registration"], ["queue", "lock"]):
        assert left in tried


def test_settings_that_are_smallest_are_tried_no_more() -> None:
    script = reductions.with_options(
        Schedule(), constant_latency=True, namesrvs=1, controllers=1, broker_sets=1, replicas=2,
        workload=["queue"], keys={"broker:a": "1"}, pinned=2, ending="each-replica",
    )  # fmt: skip
    tried = [s.header.options for s in reductions.simpler_settings(script)]
    assert len(tried) == 3
    assert [set(script.header.options) - set(options) for options in tried] == [
        {"ending"}, {"pinned"}, {"keys"},
    ]  # fmt: skip
