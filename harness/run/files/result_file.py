"""What ``results.json`` of a run's folder holds, as types: what is written is of these, and
``maxq schema results`` prints them."""

from typing import Any

import msgspec

from maxq.checkers.availability.recovery import Recovery
from maxq.checkers.core.api import Harm, Status, Valid, Verdict
from maxq.checkers.judgement.digest import Row
from maxq.harness.run.explained import Explained
from maxq.histories.history import Breach

SCHEMA = "maxq:results:1"  # the last number goes up when a field goes or changes its meaning


class SpokenRow(Row, frozen=True, kw_only=True):
    """A row of the first screen, and the whole row in a line."""

    text: str  # type: ignore[assignment]  # in the file it is a field


class ResultFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A verdict as it is stored (docs/json.md says what each field means). Times are ns of the
    history's clock, `ops` and `acts` indices of operations."""

    schema: str = SCHEMA
    valid: Valid
    verdict: str
    repeat: str
    target: str
    verdicts: tuple[Verdict, ...]
    claims: dict[str, Status]
    findings: tuple[Harm, ...]
    first: tuple[SpokenRow, ...]
    faults: tuple[str, ...]
    recoveries: tuple[Recovery, ...] = ()  # older files lack them
    breaches: tuple[Breach, ...] = ()
    whys: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    explained: tuple[Explained, ...] = ()
    power: tuple[dict[str, Any], ...] = ()
    counterexamples: tuple[dict[str, Any], ...] = ()
