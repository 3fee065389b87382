"""What the checkers say to an operator: one anomaly of each name, from the seeded bugs.

Run as ``python -m benchmarks.stories > docs/stories.md``. Each mutant runs under the schedule that
is known to show it, in the simulator; of each anomaly's name the first is shown.
"""

import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from maxq.checkers.core.api import Anomaly
from maxq.harness.run.replay import options_for
from maxq.harness.run.run_context import RunContext
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.format import read
from maxq.reference import mutants

ROOT = Path(__file__).parents[1]
SKIPPED = frozenset(("unseen",))  # no proof by itself


def runs(folder: Path) -> Iterator[tuple[str, str, Judged]]:
    """Of each mutant the runs, each with the command that repeats it."""
    for mutant in mutants.names():
        schedule = Path("harness/schedule/directed") / f"{mutant}.jsonl"
        script = read(ROOT / schedule)
        made, context = options_for(script, mutant=mutant), RunContext(script=script)
        judged = run_test(made, folder, quiet=True, context=context)
        yield mutant, f"maxq replay {schedule} --mutant {mutant}", judged


def stories() -> Iterator[tuple[str, str, Anomaly]]:
    """The mutant, the command, and the first anomaly of each name that it shows."""
    shown: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="maxq-stories-") as folder:
        for mutant, command, judged in runs(Path(folder)):
            for anomaly in (a for v in judged.results.verdicts for a in v.anomalies):
                if anomaly.name not in shown and anomaly.name not in SKIPPED:
                    shown.add(anomaly.name)
                    yield mutant, command, anomaly


def main() -> None:
    print("# What a broken promise reads like\n")
    print("Written by `python -m benchmarks.stories`. Brokers and controllers that are wrong on")
    print("purpose run in the simulator, each under the schedule that is known to show it. Of each")
    print("kind of anomaly the first is shown.")
    for mutant, command, anomaly in stories():
        operations = ", ".join(map(str, anomaly.ops))
        print(f"\n## {anomaly.claim} {anomaly.name}\n")
        print(textwrap.fill(anomaly.story, 100, break_on_hyphens=False))
        print(f"\nMutant `{mutant}`, operations {operations}. Again, by\n")
        print(f"```sh\n{command}\n```")


if __name__ == "__main__":
    main()
