"""Leases: who may rely on holding a lock from when to when, by one clock.

A grant is an acquire or a renewal that was answered. Its client may rely on it from the answer
until so long after the *request*, less what clocks may differ; or until it asks to release, or
learns from a renewal that failed that it does not hold it. Whatever has no answer is relied on by
nobody. Two grants of different clients must not overlap.

Grants are put in order of their answers. If any two of different clients overlap, then some grant
overlaps with the one that lasts longest of all before it, and that is another client's: take the
pair whose later grant comes first; were the longest-lasting one before it the same client's, then
it would overlap with the other one of the pair, and earlier. So one running maximum is enough.

Source: docs/spec/checkers.md 8.
"""

from typing import NamedTuple

import numpy as np

from maxq.checkers.linearizability.calls import FAILED, NEVER, OK, Calls, Ints
from maxq.checkers.linearizability.decided import LEGAL, Decided

ACQUIRE, RENEW, RELEASE = "acquire", "renew", "release"
MS = 1_000_000  # nanoseconds


class Grants(NamedTuple):
    """The calls that were granted, the one that ends each before its time (-1: none), and the
    nanoseconds between which it is relied on; shapes (n,). Those relied on at no time are left
    out."""

    at: Ints
    ended_by: Ints
    start: Ints
    stop: Ints


def decide(calls: Calls) -> Decided:
    """Decide the calls on one lease.

    Args:
        calls: `argument` is when a client asked and `result` when it had its answer, in
            nanoseconds; `other` how long it may rely on a grant, from when it asked.
    """
    grants = grants_of(calls)
    order = np.argsort(grants.start, kind="stable")
    start, stop = grants.start[order], grants.stop[order]
    if len(order) < 2:
        return LEGAL
    longest = np.maximum.accumulate(stop)[:-1]
    # Which one it is: the last at which the running maximum was reached.
    place = np.maximum.accumulate(np.where(stop[:-1] == longest, np.arange(len(longest)), 0))
    process = calls.process[grants.at[order]]
    bad = np.flatnonzero((longest > start[1:]) & (process[place] != process[1:]))
    if not len(bad):
        return LEGAL
    one, two = int(order[place[bad[0]]]), int(order[bad[0] + 1])
    ms = (min(grants.stop[one], grants.stop[two]) - grants.start[two]) / MS
    why = f"{_said(calls, grants, one)} and {_said(calls, grants, two)} overlap by {ms:,.3f} ms"
    shown = [int(n) for n in (grants.at[[one, two]], grants.ended_by[[one, two]]) for n in n]
    begins = tuple(int(calls.begun[n]) for n in shown if n >= 0)
    return Decided(False, "fast test", "lease-overlap", why, begins)


def grants_of(calls: Calls) -> Grants:
    """What clients may rely on."""
    order = calls.by_process()
    ok, failed = ((calls.outcome == kind)[order] for kind in (OK, FAILED))
    releases, renewals = calls.of(RELEASE)[order], calls.of(RENEW)[order]
    ends = np.flatnonzero(releases | (renewals & failed))
    granted = np.flatnonzero(~releases & ok)
    after = np.searchsorted(ends, granted)
    at = order[granted]
    ended_by = np.append(order[ends], -1)[after]
    ended_by[calls.process[ended_by] != calls.process[at]] = -1
    asked = calls.numbers(calls.argument[at])
    stop = asked + calls.numbers(calls.other[at])
    cut = np.flatnonzero(ended_by >= 0)
    stop[cut] = np.minimum(stop[cut], _moment(calls, ended_by[cut]))
    start = calls.numbers(calls.result[at])
    kept = start < stop
    return Grants(at[kept], ended_by[kept], start[kept], stop[kept])


def _moment(calls: Calls, at: Ints) -> Ints:
    """When a client knew that it no longer held the lock."""
    codes = np.where(calls.of(RELEASE)[at], calls.argument[at], calls.result[at])
    return np.where(codes < 0, NEVER, calls.numbers(np.maximum(codes, 0)))


def _said(calls: Calls, grants: Grants, one: int) -> str:
    call = calls.call(int(grants.at[one]))
    start, stop = grants.start[one] / 1e9, grants.stop[one] / 1e9
    return f"op {call.begun} ({call.kind} by process {call.process}, relied on from {start:.6f} " \
           f"to {stop:.6f} s)"  # fmt: skip
