"""What a report is made from. Everything in it but the options may be of hostile origin."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from maxq.checkers.availability.recovery import Recovery
from maxq.checkers.core.api import Anomaly, Context
from maxq.checkers.counterexample.of_anomaly import Counterexample
from maxq.checkers.judgement.digest import Row
from maxq.checkers.judgement.runner import Results
from maxq.checkers.power.power import Power
from maxq.harness.schedule.fixes import ToTry
from maxq.harness.schedule.options import Options
from maxq.histories.history import History

SHOWN_MAX = 50  # anomalies of one name


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of one node's log, `before` a moment (ns of the history) and `after` it. `path` is from
    the run's folder."""

    node: str
    path: str
    at_ns: int
    before: tuple[str, ...]
    after: tuple[str, ...]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A stored run and its verdict.

    `run` is the run's folder as people type it; `commit` what is known of the harness's source;
    `doubts` are what went wrong with the run or its history besides, and `explained` what trying
    said of the causes of findings, each in a line. `tried` is what it said of settings that would
    have kept what was lost, `to_try` how to find out. `power`: how much the verdict could have
    called. `rows` are its findings in plain words, `known` what is known of them. `recoveries` are
    those from each fault; `counterexamples` belong to some of the anomalies. `logs` are what nodes
    wrote around findings, by their numbers.
    """

    history: History
    results: Results
    rows: Sequence[Row] = ()
    known: Sequence[str] = ()
    context: Context
    options: Options
    config: dict[str, Any]
    run: str
    commit: str
    doubts: tuple[str, ...] = ()
    explained: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    to_try: ToTry | None = None
    power: tuple[Power, ...] = ()
    recoveries: Sequence[Recovery] = ()
    counterexamples: Sequence[Counterexample] = ()
    logs: Mapping[int, Sequence[Excerpt]] = {}


class Numbered(msgspec.Struct, frozen=True, kw_only=True):
    """An anomaly with its number in the report; `at_ns` is the time of the first operation of a
    client that proves it, -1 if unknown."""

    number: int
    anomaly: Anomaly
    at_ns: int


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Anomalies of one claim and name: those that the report shows, of so many found."""

    claim: str
    name: str
    numbered: tuple[Numbered, ...]
    found: int


def grouped(evidence: Evidence) -> list[Group]:
    """All anomalies, losses first."""
    by_name: dict[tuple[str, str], list[Anomaly]] = {}
    counts: dict[tuple[str, str], int] = {}
    for verdict in evidence.results.verdicts:
        for anomaly in verdict.anomalies:
            key = anomaly.claim, anomaly.name
            by_name.setdefault(key, []).append(anomaly)
            counts[key] = max(counts.get(key, 0), verdict.counts.get(anomaly.name, 0))
    number, groups = 0, []
    for key in sorted(by_name, key=lambda key: (not key[1].startswith("lost"), key[1], key[0])):
        found = by_name[key]
        numbered = []
        for anomaly in found[:SHOWN_MAX]:
            number += 1
            at_ns = _time_of(evidence.history, anomaly)
            numbered.append(Numbered(number=number, anomaly=anomaly, at_ns=at_ns))
        most = max(len(found), counts[key])
        groups.append(Group(claim=key[0], name=key[1], numbered=tuple(numbered), found=most))
    return groups


def _time_of(history: History, anomaly: Anomaly) -> int:
    known = []
    for index in anomaly.ops:
        try:
            known.append(history[index])
        except KeyError:
            continue
    by_client = next((op for op in known if op.is_client), None)
    first = by_client or (known[0] if known else None)
    return -1 if first is None else first.time
