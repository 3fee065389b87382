"""The list of all claims as a page: ``docs/claims.md``.

python -m maxq.checkers.judgement.claims_page > docs/claims.md
"""

from collections.abc import Iterable

from maxq.checkers.core.claim import Claim
from maxq.checkers.core.claims import CLAIMS
from maxq.checkers.core.promises import Need, keys
from maxq.histories.grounds import SAID

_HEAD = """\
# Claims

What Max-Q decides. Written by `python -m maxq.checkers.judgement.claims_page`; edit
`checkers/core/claims.py`.

Of each run a claim is one of five:

- **kept**: it could have been broken, and was not.
- **broken**: the history proves an anomaly of it.
- **not promised**: the run's settings do not make it. What was found is measured, and reported.
- **not covered**: nothing could have broken it, such as an election that never came. Files say
  `no occasion`.
- **not judged**: the history cannot decide, as an answer is missing or an event was not seen. The
  verdict says which, and what to change.

What each checker finds when a claim is broken is in [anomalies.md](anomalies.md). A mutant is a
reference that is wrong on purpose and must be caught by the claim's checker.

| Claim | Promise | Made by | Rests on | Checker | Mutants | Source |
|---|---|---|---|---|---|---|
"""

_MADE = """
## Which settings make a claim

Settings are the release's defaults, then the profile, then what `--set` says; where the brokers of
a set differ, the weakest counts. The name of a profile decides nothing. What counts only in a run
that lost power is marked ⚡. `minInSyncReplicas` (without `allAckInSyncStateSet` also
`inSyncReplicas`) says how many copies an acknowledged message has. `inSyncReplicas` by itself
promises nothing against loss: the elected broker need not have acknowledged the message. The
verdict names each key that was set by hand and is not in this table.

| Key | Default | Values, the weakest first |
|---|---|---|
"""

_OF_STORES = """
These claims are no longer promised after one of three accidents: {}. A broker ran on a copy of
another one's store, under its id, while that one was away. The last member of a SyncStateSet lost
its store. Or, with `enableElectUncleanMaster=true`, a broker without a store became master, and the
set has no topic left. The claim's line says which, and what was measured. That such a copy is
refused while the owner lives (S1), and that an epoch has one master (S5), is still promised.

Where a broker refused its damaged store and got no other one, its set stays a replica short.
These claims are not promised then: {}. As in the upgrade to 5.1.1, the stores of most controllers
may be removed at once, and ids and epochs start over. These claims are not promised then: {}.
"""
_IN_PAIRS = """
## Without controllers

Of brokers without controllers (`--mode pair`) only these claims are judged, under these settings;
the others mean nothing there, and a run names them as n/a. A pair's log has no epochs, so it counts
as one: S8 says that a slave's log is a piece of its master's. There S6 speaks of the master, which
is the only one that takes messages.

Their replication names nobody and compares nothing, so that some of what can happen is nobody's
to refuse. Brokers with logs of one length and other bytes do not see it (S8 does, at the end of a
run). Readers go to the end of a log, copied or not: a message that was answered
FLUSH_SLAVE_TIMEOUT can be read, and be lost. A slave whose log is longer than its master's stays
out and says so, as long as its process runs. Started again after its master's log has grown beyond
its own, it can no longer tell.

A master that comes back takes, of its own and its slaves' consumer offsets, the larger one of each
group and queue, whatever versions say. So an offset that was reset backwards while it was gone, or
not yet copied, may be back at the larger one. Repeat the reset then.

RocketMQ's own brokers do not say whether they act or are in their group. A slave of theirs acts
where its answer to 28 has `brokerActive=true`. A master is in its group if name servers list it;
its setting says that it is one. L6 is n/a there, as with controllers: they wait longer for a silent
member than clients do. A slave of theirs that is longer than its master, after a loss of power,
makes it acknowledge what is on one log. A8 goes by where logs end and does not see
that. S8 does, by what they hold.

| Claim | Made by |
|---|---|
"""

_GROUNDS = """
## What a verdict rests on

Each run declares this evidence when it begins (`histories/grounds.py`) and ticks it off. A claim
is kept only if all its evidence is there, and the run's last line says that it ended. A node that
ended by itself (S15) cannot answer; that is recorded, and counts instead.

| Kind | What |
|---|---|
"""


_UNDISTURBED = """
Some claims need undisturbed time. They are not judged in a history with an act of the nemesis that
is neither built in nor declared by the run (`histories/fault_facts.py`). Its effect is unknown:
{}.

These count time, or rest on an answer that comes in time. They are not judged where the harness
itself was late, except for facts such as an exit code (S15):
{}.
"""

_WHO_DECIDES = """
## Who decides, where RocketMQ and we differ

A claim is what RocketMQ's documents promise under settings that they name. Where they are silent,
its code decides. Where its code breaks what a document promises, the document decides and the run
is invalid. [track-record.md](track-record.md) has more of such bugs. What we
demand beyond both says so. Documents are those below `docs/en/controller` of apache/rocketmq, its
issues and pull requests have a #; edit `checkers/core/claim_sources.py`.

"""


def page() -> str:
    """The list as Markdown."""
    table = "".join(f"| {' | '.join(_row(claim))} |\n" for claim in CLAIMS)
    made = "".join(f"| {' | '.join(row)} |\n" for row in keys())
    grounds = "".join(f"| {kind} | {what} |\n" for kind, what in SAID.items())
    made += _OF_STORES.format(
        ", ".join(c.id for c in CLAIMS if c.of_stores),
        ", ".join(c.id for c in CLAIMS if c.of_replicas),
        ", ".join(c.id for c in CLAIMS if c.of_controllers),
    )
    pairs = "".join(
        f"| {c.id} | {_needs(c.in_pairs, c.after_power)} |\n"
        for c in CLAIMS
        if c.in_pairs is not None
    )
    made += _IN_PAIRS + pairs
    grounds += _UNDISTURBED.format(
        ", ".join(c.id for c in CLAIMS if c.undisturbed),
        ", ".join(c.id for c in CLAIMS if c.timed),
    )
    decided = "".join(f"* **{c.id}**, {c.decides}\n" for c in CLAIMS if c.decides)
    return _HEAD + table + _MADE + made + _GROUNDS + grounds + _WHO_DECIDES + decided


def _needs(needs: Iterable[Need], after_power: Iterable[Need]) -> str:
    found = [f"`{n}`" for n in needs] + [f"⚡ `{n}`" for n in after_power]
    return ", ".join(found) or "every run"


def _row(claim: Claim) -> tuple[str, ...]:
    mutants = ", ".join(f"`{m}`" for m in claim.mutants) or "none yet"
    return (
        claim.id,
        claim.promise,
        _needs(claim.needs, claim.after_power),
        ", ".join(claim.grounds),
        f"`{claim.checker}`",
        mutants,
        claim.source,
    )


if __name__ == "__main__":
    print(page(), end="")
