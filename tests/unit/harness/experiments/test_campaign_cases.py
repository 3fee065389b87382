"""A campaign as JUnit XML."""

from pathlib import Path
from xml.etree import ElementTree

from maxq.harness.experiments.campaign import built_in, jobs_of, read_campaign
from maxq.harness.experiments.campaign_cases import Done, Job, case_names, junit


def test_junit_says_what_passed_failed_and_was_not_run() -> None:
    jobs = [Job(name=n, words=("--env", n), seed=1, expect="valid") for n in ("a", "b", "<c>")]
    done = {
        "a": Done(name="a", passed=True, exit_code=0, seconds=1.5, run="/r/a"),
        "b": Done(
            name="b",
            passed=False,
            exit_code=1,
            seconds=2,
            why='S6 <lost> & "gone"',
            found="2 lost; by b\x1b[2J",
            said="INVALID: \x07",
        ),
    }
    suite = ElementTree.fromstring(junit("camp", jobs, done))
    assert [suite.get(k) for k in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    cases = {case.get("name"): case for case in suite}
    assert [child.tag for child in cases["a, reference, seed 1"]] == ["system-out"]
    failure = cases["b, reference, seed 1"].find("failure")
    assert failure is not None
    assert failure.get("message") == 'S6 <lost> & "gone"'
    assert failure.text == 'S6 <lost> & "gone"\n2 lost; by b\\u001b[2J\nrun: '
    assert cases["<c>, reference, seed 1"].find("skipped") is not None


def test_cases_are_named_by_what_they_run() -> None:
    words = ("--env", "local", "--workload", "queue", "--nemesis", "kill,partition",
             "--profile", "safe", "--mutant", "x", "--target=rocketmq:5.5.0")  # fmt: skip
    twice = [
        Job(name=f"{n}. valid seed 7", words=words[:8], seed=7, expect="valid") for n in (1, 2)
    ]
    bad = Job(name="3.", words=words, seed=7, expect="invalid S6")
    assert case_names([*twice, bad]) == [
        "local, reference, safe, queue, kill,partition, seed 7, 1. valid seed 7",
        "local, reference, safe, queue, kill,partition, seed 7, 2. valid seed 7",
        "local, rocketmq:5.5.0, safe, queue, kill,partition, seed 7, --mutant x, "
        "expected: invalid S6",
    ]


def test_each_run_of_the_campaigns_that_come_with_it_has_a_name_of_its_own() -> None:
    for campaign, _ in built_in():
        names = case_names(jobs_of(read_campaign(Path(campaign))))
        assert len(set(names)) == len(names)
