"""Do models say what trying every order says? Run as ``python -m benchmarks.differential``.

Each subject is a model with small histories that suit it, of which a third each has 0, 15 and 35 %
of its calls without an answer. Of every history the fast test, the dispatch (`decide`) and the
search are compared with all orders tried; of histories of two keys and of transactions the verdict
on the whole. Then faults are put into the tests, one at a time, and each has to be noticed.

Prints of each subject how many histories were legal, and how many the fast test decided; of each
fault by which history it was caught. Exit code 1 if a verdict was wrong or a fault was not caught.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count as numbers
from typing import NamedTuple

import click

from benchmarks.differential import transactions, two_keys
from benchmarks.differential.faults import FAULTS, Fault, put_in
from benchmarks.differential.subjects import FEATURES, SUBJECTS, compared, history
from maxq.checkers.models.registers import CasRegister

CHUNK = 1000
SHOWN_MAX = 3  # wrong verdicts of one subject that are told
TWO_KEYS, TWO_OPEN = "two keys, by one verdict", "client with two open calls of two keys"

EVERY = [*SUBJECTS, *transactions.KINDS, TWO_KEYS]


class Seen(NamedTuple):
    """What a stretch of histories had in it, by name, and the first wrong verdicts."""

    subject: str
    counts: Counter[str]
    wrong: list[str]


def seen(subject: str, first: int, last: int) -> Seen:
    """Compare the histories of a subject from one number to before another one."""
    counts, wrong = Counter[str](), list[str]()
    for number in range(first, last):
        counts["all"] += 1
        if subject == TWO_KEYS:
            said, two_open = two_keys.compared(CasRegister(), number)
            counts[TWO_OPEN] += two_open
        elif subject in transactions.KINDS:
            whole = transactions.compared(subject, number)
            counts.update(legal=whole.legal is True)
            said = whole.wrong
        else:
            one, calls = SUBJECTS[subject], history(subject, number)
            found = compared(one, calls)
            counts.update(legal=found.legal is True, fast=found.fast is not None)
            counts.update(name for name, has in FEATURES.items() if has(one.model, calls))
            said = found.wrong
        if said:
            counts["wrong"] += 1
            wrong.append(f"{subject} {number}: {said}")
    return Seen(subject, counts, wrong[:SHOWN_MAX])


def caught(fault: Fault, most: int) -> tuple[str, int] | None:
    """The subject and the number of the history that shows a fault first; None: none of so many."""
    with put_in(fault):
        for number in numbers():
            if number == most:
                return None
            for subject in fault.subjects:
                try:
                    if compared(SUBJECTS[subject], history(subject, number)).wrong:
                        return subject, number
                except (IndexError, ValueError, AssertionError):
                    return subject, number
    return None


def _of(name: str, count: int) -> int:
    """How many histories: a model of transactions has a dozen subjects or more."""
    return count // 10 if name in transactions.KINDS else count


def _compare_all(names: Sequence[str], count: int, jobs: int) -> int:
    print(f"{'subject':62} {'histories':>10} {'legal':>8} {'fast':>8} {'wrong':>6}")
    total, features = 0, Counter[str]()
    with ProcessPoolExecutor(jobs) as pool:
        asked = {
            name: [pool.submit(seen, name, first, min(first + CHUNK, _of(name, count)))
                   for first in range(0, _of(name, count), CHUNK)] for name in names
        }  # fmt: skip
        for name in names:
            found = [future.result() for future in asked[name]]
            counts = sum((one.counts for one in found), Counter[str]())
            features.update({f: n for f, n in counts.items() if f in (*FEATURES, TWO_OPEN)})
            total += counts["wrong"]
            print(f"{name:62} {counts['all']:10,} {counts['legal']:8,} {counts['fast']:8,} "
                  f"{counts['wrong']:6,}", flush=True)  # fmt: skip
            for text in [text for one in found for text in one.wrong][:SHOWN_MAX]:
                print(f"  WRONG {text}", flush=True)
    print("\namong them:")
    for name in (*FEATURES, TWO_OPEN):
        print(f"  {features[name]:10,} {name}")
    return total


@click.command()
@click.option(
    "--count",
    default=20_000,
    show_default=True,
    help="histories of each subject, and of each model of transactions",
)
@click.option("--jobs", default=2, show_default=True, help="processes")
@click.option("--tries", default=6_000, show_default=True, help="histories of which one must "
              "show a fault")  # fmt: skip
@click.option("--only", multiple=True, type=click.Choice(EVERY), help="a subject")
def main(count: int, jobs: int, tries: int, only: Sequence[str]) -> None:
    """Compare, put faults in, and say how it went."""
    begun = time.monotonic()
    wrong = _compare_all(only or EVERY, count, jobs)
    missed = 0
    print("\nfaults, and the history that shows them:")
    for fault in FAULTS:
        found = caught(fault, tries)
        missed += found is None
        where = "NOT CAUGHT" if found is None else f"{found[0]} {found[1]:,}"
        print(f"  {fault.module}.{fault.function}: {fault.about}: {where}", flush=True)
    print(f"\n{wrong} wrong verdicts; {len(FAULTS) - missed} of {len(FAULTS)} faults caught; "
          f"{time.monotonic() - begun:.0f} s")  # fmt: skip
    sys.exit(1 if wrong or missed else 0)


if __name__ == "__main__":
    main()
