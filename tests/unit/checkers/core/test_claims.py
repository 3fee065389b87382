"""The registry of claims is what checkers say they judge, and its page is up to date."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from history_recorder import Recorder
from msgspec.structs import replace
from profiles import settings, under

from maxq.checkers.availability import availability, processes, service
from maxq.checkers.core import claims, promises
from maxq.checkers.core.api import Checker, Verdict
from maxq.checkers.core.claim_sources import DECISIONS
from maxq.checkers.core.claims import BY_ID
from maxq.checkers.core.titles import TITLES
from maxq.checkers.evidence.verdicts import Case, Found, rule
from maxq.checkers.judgement import claims_page
from maxq.checkers.locks import lock_service, locks, ordered
from maxq.checkers.messages import (
    consumer_offsets,
    delayed,
    durability,
    half_messages,
    retention,
    shares,
)
from maxq.checkers.replication import broker_ids, epochs, idle_log_growth, replicas
from maxq.checkers.replication.pairs import (
    acting,
    acting_service,
    copies,
    delay_progress,
    pair_offsets,
    pre_online,
    rejoining,
    slave_topics,
)
from maxq.checkers.routing import (
    acting_routes,
    container_answers,
    listings,
    routes,
    shared_processes,
    silent_brokers,
)
from maxq.harness.contracts.target import Profile
from maxq.histories.history import History

DOCS = Path(__file__).parents[4] / "docs"
CHECKERS: tuple[Checker, ...] = (
    broker_ids.BrokerIds(),
    epochs.Epochs(),
    durability.Durability(),
    retention.Retention(),
    replicas.Replicas(),
    copies.Copies(),
    acting.Acting(),
    pre_online.PreOnline(),
    delay_progress.DelayProgress(),
    rejoining.Rejoining(),
    slave_topics.SlaveTopics(),
    acting_service.ActingService(),
    pair_offsets.PairOffsets(),
    availability.Availability(),
    locks.Locks(),
    lock_service.LockService(),
    ordered.Ordered(),
    consumer_offsets.Offsets(),
    shared_processes.SharedProcesses(),
    delayed.Delayed(),
    half_messages.HalfMessages(),
    routes.Routes(),
    acting_routes.ActingRoutes(),
    silent_brokers.SilentBrokers(),
    listings.Listings(),
    container_answers.Containers(),
    shares.Shares(),
    idle_log_growth.Idle(),
    service.Service(),
    processes.Processes(),
)
PROFILES: tuple[Profile, ...] = ("P-SAFE", "P-ALL", "P-NUM", "P-DEFAULT", "P-UNCLEAN")


def test_each_claim_is_decided_by_the_checker_that_says_so() -> None:
    registered = {(claim.id, claim.checker) for claim in claims.CLAIMS}
    assert registered == {(c, checker.name) for checker in CHECKERS for c in checker.claims}
    assert len(registered) == len(claims.CLAIMS)


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda c: c.name)
@pytest.mark.parametrize("profile", PROFILES)
def test_an_empty_history_is_evidence_for_nothing(checker: Checker, profile: Profile) -> None:
    verdict = checker.check(History(()), under(profile))
    assert isinstance(verdict, Verdict)
    assert verdict.of("kept", "broken") == ()
    made = {c.id for c in claims.CLAIMS
            if not claims.unmade(c.id, settings(profile), power_lost=False)}  # fmt: skip
    assert set(verdict.of("not judged", "no occasion")) == made & set(checker.claims)


@pytest.mark.parametrize("profile", PROFILES)
def test_settings_decide_what_is_promised_and_no_name(profile: Profile) -> None:
    """The documents' own conditions: all-ack and a clean election for what must not be lost, and
    brokers that sync where power is lost."""
    lossless = {"S6", "S9", "S10", "S11", "S12", "E1", "E4", "E5", "E6", "E7", "E9"}
    all_ack = {"S9b", "S10b", "S14b"}
    wanted = {
        "P-SAFE": set(),
        "P-ALL": set(),
        "P-NUM": lossless | all_ack,
        "P-DEFAULT": lossless | all_ack,
        "P-UNCLEAN": {*lossless, "S7"},
    }[profile]
    wanted |= {"A1", "A2", "A3", "A4", "A5", "A6", "A8", "A11", "N2", "N8", "N12"}  # of pairs
    wanted |= {"B12"}
    wanted |= {"P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8"}
    wanted |= {"E3", "L3", "L4"}  # of pairs, and of brokers that are not in strict mode
    effective = settings(profile)
    unpromised = {c.id for c in claims.CLAIMS
                  if claims.unmade(c.id, effective, power_lost=False)}  # fmt: skip
    assert unpromised == wanted
    by_hand = {**promises.DEFAULTS, **effective}
    assert {c.id for c in claims.CLAIMS if claims.unmade(c.id, by_hand, power_lost=False)} == wanted
    dark = {c.id for c in claims.CLAIMS if claims.unmade(c.id, effective, power_lost=True)}
    assert dark == wanted | lossless | {"S9b", "S10b", "S15"}
    synced = {**effective, promises.SYNCED.key: "SYNC_FLUSH"}
    assert {c.id for c in claims.CLAIMS if claims.unmade(c.id, synced, power_lost=True)} == wanted


def test_where_brokers_differ_the_weakest_decides() -> None:
    strong = {"broker:allAckInSyncStateSet": "true", "broker:minInSyncReplicas": "3"}
    weak = {"broker:allAckInSyncStateSet": "true", "broker:minInSyncReplicas": "2"}
    none = {"broker:allAckInSyncStateSet": "false"}
    assert promises.copies(promises.weakest([strong, weak])) == 2
    assert claims.unmade("S6", promises.weakest([strong, weak]), power_lost=False) == ()
    assert claims.unmade("S6", promises.weakest([strong, none]), power_lost=False) == (
        promises.ALL_ACK,
    )
    unclean = {"controller:enableElectUncleanMaster": "true"}
    assert claims.unmade("S7", promises.weakest([strong, unclean]), power_lost=False)


def test_the_page_is_up_to_date() -> None:
    assert (DOCS / "claims.md").read_text() == claims_page.page()


def test_it_is_said_who_decides_each_claim_that_rocketmq_breaks() -> None:
    text = (DOCS / "track-record.md").read_text()
    theirs = text.partition("# Apache RocketMQ\n")[2].partition("\n# Our reference\n")[0]
    ids = {claim.id for claim in claims.CLAIMS}
    broken = set(re.findall(r"\b[A-Z]\d+[a-z]?\b", theirs)) & ids
    assert {"S2", "S6", "S9", "S10", "S11", "S13", "S14"} <= broken
    assert broken <= DECISIONS.keys() <= ids
    for claim in claims.CLAIMS:
        assert (f"* **{claim.id}**, {claim.decides}" in claims_page.page()) == (
            claim.id in DECISIONS
        )


ANOMALIES: dict[str, tuple[str, ...]] = {
    "S1": ("duplicate-id",),
    "S2": ("id-changed", "ghost-replica"),
    "S2b": ("known-elsewhere",),
    "S3": ("epoch-went-back",),
    "S4": ("sync-state-set-went-back", "sync-state-set-forked"),
    "S5": ("two-masters",),
    "S7": ("master-outside-set",),
    "S8": ("log-diverged",),
    "S8b": ("epochs-differ",),
    "S8c": ("epoch-starts-differ",),
    "S9": ("missing-in-replica",),
    "S9b": ("member-behind-confirmed",),
    "S10b": ("slave-ahead-of-master",),
    "S11b": ("written-by-nobody",),
    "S17": ("learner-in-set",),
    "S18": ("healthy-master-replaced",),
    "A8": ("acknowledged-uncopied",),
    "A1": ("nobody-acts",),
    "A2": ("second-acts",),
    "A3": ("acts-beside-master",),
    "A4": ("slave-took-message",),
    "A5": ("acting-not-readable", "acting-lacks-message"),
    "A6": ("acting-refuses",),
    "A11": ("slave-stands-still", "slave-behind-trim"),
    "A12": ("topic-not-copied", "typed-topic-not-copied"),
    "P1": ("isolated-listed",),
    "P2": ("stays-isolated",),
    "P3": ("waits-for-unreachable",),
    "P4": ("acting-offset-lost",),
    "P5": ("written-offset-lost",),
    "P6": ("copied-offset-lost",),
    "P7": ("progress-beyond-queue",),
    "P8": ("uncopied-listed",),
    "E1": ("delayed-lost", "delayed-late"),
    "E2": ("delayed-early",),
    "E3": ("uncopied-lost",),
    "E4": ("half-lost",),
    "E5": ("delayed-again",),
    "E6": ("commit-lost",),
    "E7": ("half-unsettled", "half-late"),
    "E8": ("uncommitted-delivered",),
    "E9": ("committed-again",),
    "S13": ("not-writable",),
    "S13b": ("dead-master-stays",),
    "S15": ("node-ended", "node-does-not-start", "node-does-not-answer"),
    "S13d": ("not-writable-during-fault",),
    "S14": ("replica-not-in-set",),
    "S14b": ("silent-member-stays",),
    "N1": ("address-listed-twice",),
    "N2": ("masterless-writable",),
    "N3": ("shown-otherwise",),
    "N4": ("silent-broker-listed",),
    "N5": ("dead-broker-listed",),
    "N7": ("reset-broker-not-listed",),
    "N8": ("master-not-writable",),
    "N9": ("namesrvs-differ",),
    "N11": ("restarted-namesrv-differs",),
    "N12": ("other-slave-shown",),
    "N13": ("stale-master-listed",),
    "B13": ("deleted-early",),
    "L1": ("granted-too-soon",),
    "L2": ("lease-overlap",),
    "L3": ("granted-again-by-broker",),
    "L4": ("overlap-lasts",),
    "L10": ("read-beside-holder",),
    "L6": ("lock-not-granted",),
    "L7": ("granted-without-quorum",),
    "L8": ("expired-lock-kept",),
    "L9": ("released-lock-kept",),
}


def test_every_anomaly_is_explained() -> None:
    """A name that a checker can find stands in docs/anomalies.md, with its claim."""
    page = (DOCS / "anomalies.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for claim, of_claim in ANOMALIES.items():
        for name in of_claim:
            assert any(row.startswith(f"| `{name}`") and f"| {claim} |" in row for row in rows), (
                name
            )


COUNTS_TIME = re.compile(
    r"bound|\b\d[\d.]* s\b|period|time-out|limit|as long as|for longer|keeps running|within"
)
# A lease is bounded by what clients themselves sent and got: a late harness makes it longer, never
# shorter. The other counts no time: a store lasts as long as it is kept.
BOUNDED_BY_CLIENTS = {"L1", "L3", "S2"}


def test_each_claim_that_counts_time_asks_whether_the_harness_was_late() -> None:
    counting = {c.id for c in claims.CLAIMS if COUNTS_TIME.search(c.promise)}
    timed = {c.id for c in claims.CLAIMS if c.timed}
    assert counting - timed == BOUNDED_BY_CLIENTS
    assert all(c.timed for c in claims.CLAIMS if c.facts)


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim.id)
@pytest.mark.parametrize("late_ms", [None, 10, 7_600])
def test_a_late_harness_accuses_nobody_of_being_late(
    claim: claims.Claim, late_ms: int | None
) -> None:
    """There is one place that asks, so no checker can forget it."""
    r = Recorder()
    r.fault("await-recovery", cluster=True)
    if late_ms is not None:
        r.ops[-1] = replace(r.ops[-1], ext={"late-ms": {"p99": late_ms}})
    checker = SimpleNamespace(name="any", claims=(claim.id,))
    for anomaly in ("anything", *claim.facts):
        case = Case(found=[Found(claim.id, anomaly, (0,), "It is so.", {})], judged={claim.id: 1})
        [said] = rule(checker, r.history, under("P-SAFE"), case).claim_verdicts
        late = claim.timed and late_ms == 7_600 and anomaly not in claim.facts
        if said.status != "not promised":
            assert said.status == ("not judged" if late else "broken")
            assert ("woken more than" in said.why) is late


def test_every_claim_has_a_title_in_a_few_words() -> None:
    assert TITLES.keys() == BY_ID.keys()
    assert len(set(TITLES.values())) == len(TITLES)
    assert all(len(title) <= 48 and not title.endswith(".") for title in TITLES.values())
