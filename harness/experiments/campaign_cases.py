"""The runs of a campaign: what each is, what came of it, and all as JUnit XML for CI servers.

A case has the same name before and after it was run, and from one night to the next, so that a
server can compare. Names are unique: a server takes two of one name for one case.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

import msgspec

from maxq.harness.contracts.terminal import printable
from maxq.harness.experiments.overview.power_sample import Called
from maxq.harness.targets.rocketmq.releases import REFERENCE

VALID = "valid"  # what is expected of a run that nothing else is expected of
# The options whose values name a run, in this order.
NAMING = ("--env", "--target", "--profile", "--workload", "--nemesis")


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One run: a name that is its own in the campaign, what to run, what to expect. If it is valid,
    and `asked`, wrong answers are planted in it."""

    name: str
    words: tuple[str, ...]
    seed: int
    expect: str
    asked: bool = False


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended: as expected or not, and why not; `said` is its verdict in words, `lost` what
    became of acknowledged messages, `repeat` the command that repeats it, which names the
    environment that it was in; `claims` is what became of each; `power` counts by claim the wrong
    answers that were called, and those that were tried."""

    name: str
    passed: bool
    exit_code: int
    seconds: float
    run: str = ""
    why: str = ""
    said: str = ""
    lost: str = ""
    found: str = ""
    repeat: str = ""
    claims: dict[str, str] = {}
    power: Called = {}


def case_names(jobs: Sequence[Job]) -> list[str]:
    """Each run by what it is: environment, target, profile, workload, faults and seed, then what
    else was asked for. Of runs that differ in nothing of that the number of the cell comes last."""
    names = [_case_name(job) for job in jobs]
    often = Counter(names)
    return [f"{name}, {job.name}" if often[name] > 1 else name
            for name, job in zip(names, jobs, strict=True)]  # fmt: skip


def _case_name(job: Job) -> str:
    given = {"--target": REFERENCE}
    more: list[str] = []
    words = iter(job.words)
    for word in words:
        option, joined, value = word.partition("=")
        if option in NAMING:
            given[option] = value if joined else next(words, "")
        else:
            more.append(word)
    first = [given[option] for option in NAMING if given.get(option)]
    expected = [] if job.expect == VALID else [f"expected: {job.expect}"]
    return ", ".join([*first, f"seed {job.seed}", *([" ".join(more)] if more else []), *expected])


def junit(name: str, jobs: Sequence[Job], done: Mapping[str, Done]) -> bytes:
    """The campaign as JUnit XML; what was not run is skipped."""
    found = [done[job.name] for job in jobs if job.name in done]
    suite = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(len(jobs)),
        failures=str(sum(not d.passed for d in found)),
        errors="0",
        skipped=str(len(jobs) - len(found)),
        time=f"{sum(d.seconds for d in found):.1f}",
    )
    for job, called in zip(jobs, case_names(jobs), strict=True):
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=called)
        result = done.get(job.name)
        if result is None:
            ElementTree.SubElement(case, "skipped", message="not run yet")
            continue
        case.set("time", f"{result.seconds:.1f}")
        if not result.passed:
            why = printable(result.why)  # XML has no control characters, escaped or not
            failure = ElementTree.SubElement(case, "failure", message=why[:200])
            lines = (why, printable(result.found), f"run: {result.run}")
            failure.text = "\n".join(line for line in lines if line)
        words = " ".join(["maxq test", *job.words, "--seed", str(job.seed)])
        printed = (words, printable(result.said), result.lost, result.run, result.repeat)
        ElementTree.SubElement(case, "system-out").text = "\n".join(t for t in printed if t)
    written: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return written
