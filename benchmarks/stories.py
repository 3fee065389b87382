"""What the checkers say to an operator: one anomaly of each name, from the seeded bugs.

Run as ``python -m benchmarks.stories > docs/stories.md``. Each mutant runs for a minute of virtual
time under the faults of the first command; of each anomaly's name the first is shown. A mutant with
which no cluster comes up has none.
"""

import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

from maxq.checkers.core.api import Anomaly
from maxq.harness.cluster.queries import SetupFailed
from maxq.harness.run.stored_run import Judged, run_test
from maxq.harness.schedule.options import Options
from maxq.reference import mutants

SEEDS = (1, 2)
SKIPPED = frozenset(("unseen",))  # no proof by itself


def stories() -> Iterator[tuple[str, Judged, Anomaly]]:
    """The mutant, the run, and the first anomaly of each name that it shows."""
    shown: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="maxq-stories-") as folder:
        for mutant in mutants.names():
            for seed in SEEDS:
                options = Options(environment="simulated", seed=seed, mutant=mutant)
                try:
                    judged = run_test(options, Path(folder), quiet=True)
                except SetupFailed:  # with this bug no cluster comes up, so there is no story
                    continue
                for anomaly in (a for v in judged.results.verdicts for a in v.anomalies):
                    if anomaly.name not in shown and anomaly.name not in SKIPPED:
                        shown.add(anomaly.name)
                        yield mutant, judged, anomaly


def main() -> None:
    print("# What a broken promise reads like\n")
    print("Written by `python -m benchmarks.stories`: brokers and controllers that are wrong on")
    print("purpose, a minute of faults each in the simulator, of each the first of every anomaly.")
    for mutant, judged, anomaly in stories():
        operations = ", ".join(map(str, anomaly.ops))
        print(f"\n## {anomaly.claim} {anomaly.name}\n")
        print(textwrap.fill(anomaly.story, 100))
        print(f"\nMutant `{mutant}`, operations {operations}. Again, by\n")
        print(f"```sh\n{judged.options.command()}\n```")


if __name__ == "__main__":
    main()
