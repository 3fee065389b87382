"""Does a change of the source change what is drawn, what happens, or what is said of it?

Run as ``python -m benchmarks.baseline``: draws and runs the seeds 0..99 and every directed schedule
(with its mutant) in the simulator, and compares digests of schedules, histories and verdicts with
those in ``data/baseline.json``. A change that only moves or renames code leaves all of them equal;
one that means to change behaviour writes the file anew (``--write``) and says why in its commit.
Exit code 1: something differs, and the lines say what.
"""

import sys
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import click
import msgspec

from maxq.harness.experiments.simulate import drawn, simulated
from maxq.harness.run import provenance
from maxq.harness.run.process import workers
from maxq.harness.run.replay import options_for
from maxq.harness.schedule.format import Schedule, encode, read
from maxq.harness.schedule.reductions import with_options
from maxq.reference import mutants

ROOT = Path(__file__).parents[1]
FILE = ROOT / "data" / "baseline.json"
DIRECTED = ROOT / "maxq" / "harness" / "schedule" / "directed"
SEEDS = 100
DIGEST_BYTES = 8


class Digests(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run: its schedule as bytes, its history as bytes, what each claim came to."""

    schedule: str
    history: str
    claims: str
    valid: bool | str


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """Digests by run (``seed 7``, or a directed schedule's name); `commit`: of what source."""

    commit: str
    runs: dict[str, Digests]


def names(seeds: int) -> Iterator[str]:
    """What every run is called."""
    yield from (f"seed {seed}" for seed in range(seeds))
    yield from sorted(path.stem for path in DIRECTED.glob("*.jsonl"))


def script_of(name: str) -> Schedule:
    """The schedule of a run."""
    if name.startswith("seed "):
        return drawn(int(name.removeprefix("seed ")))
    script = read(DIRECTED / f"{name}.jsonl")
    return with_options(script, mutant=name) if name in mutants.names() else script


def digests(name: str) -> tuple[str, Digests]:
    """Run one in the simulator; a function by name, so that another process can.

    Raises:
        Exception: there was no run, as `maxq.harness.experiments.simulate.simulated`.
    """
    script = script_of(name)
    run = simulated(script, options_for(script, "simulated"))
    claims = {claim: verdict.status for claim, verdict in run.results.claims.items()}
    return name, Digests(
        schedule=_digest(encode(script)),
        history=run.digest,
        claims=_digest(msgspec.json.encode(sorted(claims.items()))),
        valid=run.results.valid,
    )


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=DIGEST_BYTES).hexdigest()


def differences(before: Baseline, now: dict[str, Digests]) -> Iterator[str]:
    """What is not as it was, a line a run."""
    for name, found in now.items():
        was = before.runs.get(name)
        if was is None:
            yield f"{name}: not in the baseline"
            continue
        fields = Digests.__struct_fields__
        parts = [f for f in fields if getattr(was, f) != getattr(found, f)]
        if parts:
            yield f"{name}: another {', '.join(parts)} ({was.valid} before, {found.valid} now)"


@click.command()
@click.option("--write", is_flag=True, help="write the file anew")
@click.option("--seeds", default=SEEDS, show_default=True, help="how many, from 0 on")
@click.option("--jobs", default=2, show_default=True, help="worker processes")
def main(write: bool, seeds: int, jobs: int) -> None:
    """Compare, or write."""
    with workers.processes(jobs) as pool:
        now = dict(pool.map(digests, names(seeds)))
    if write:
        made = Baseline(commit=provenance.identity()["commit"], runs=now)
        FILE.write_bytes(msgspec.json.format(msgspec.json.encode(made)) + b"\n")
        click.echo(f"{len(now)} runs written")
        return
    found = list(differences(msgspec.json.decode(FILE.read_bytes(), type=Baseline), now))
    for line in found:
        click.echo(line)
    click.echo(f"{len(now) - len(found)} of {len(now)} runs equal")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
