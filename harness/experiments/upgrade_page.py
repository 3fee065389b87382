"""What upgrades came to, as a page: ``docs/upgrade.md`` is written by ``maxq upgrade --write``."""

from collections.abc import Callable, Iterator, Sequence

from harness.experiments.upgrade import Case, Seen

HEAD = """\
# Upgrades and mixed releases

Written by `maxq upgrade all --write docs/upgrade.md`, which goes on where it was cut off. A cell is
one cluster of three brokers, a controller and a name server, and what is done to it under load;
*seen* is what its runs came to, each with how often. `reference` is Max-Q's own implementation. A
cell without a run says so. The command of a cell is `maxq upgrade CASE`.
"""
TABLES = {
    "5.1.1": """\
## Before and after persistent broker ids

RocketMQ's documents (apache/rocketmq, persistent_unique_broker_id.md) list which brokers work under
which controllers, and how to upgrade: controllers anew and without their data, then brokers
stopped, slaves first, their epoch files deleted, the old master started first.
""",
    "rolling": """\
## Neighbouring releases, one node at a time

The name server, the controller, each broker: one after the other is stopped and started on its
store as the other release, while clients send. The documents say nothing of these.
""",
}
NO_RUN = "not run"


def page(cases: Sequence[Case], of: Callable[[Case], Sequence[Seen]]) -> str:
    """The page, as Markdown.

    Args:
        cases: in order.
        of: the runs of a case.
    """
    return "\n".join([HEAD, *(_table(name, cases, of) for name in TABLES)])


def _table(name: str, cases: Sequence[Case], of: Callable[[Case], Sequence[Seen]]) -> str:
    rows = [case for case in cases if case.table == name]
    lines = [TABLES[name], "| case | brokers | controllers | the documents say | seen | runs |",
             "|---|---|---|---|---|---|"]  # fmt: skip
    lines += ["| " + " | ".join(_cells(case, of(case))) + " |" for case in rows]
    return "\n".join([*lines, ""])


def _cells(case: Case, runs: Sequence[Seen]) -> Iterator[str]:
    yield f"`{case.name}`"
    yield case.brokers
    yield case.controllers
    yield case.said
    yield seen(runs)
    yield str(len(runs))


def seen(runs: Sequence[Seen]) -> str:
    """What runs came to; what several came to alike is said once, with how often."""
    counts: dict[str, int] = {}
    for run in runs:
        text = run.came.replace("|", "/")
        counts[text] = counts.get(text, 0) + 1
    several = len(runs) > 1
    texts = (f"{n} of {len(runs)}: {text}" if several else text for text, n in counts.items())
    return "<br>".join(texts) or NO_RUN
