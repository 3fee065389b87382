"""A verdict in words: what a terminal, a page, a pytest section and a campaign say first.

One place, so that all say the same. `headline` is one sentence or two that answer the operator's
question: is something broken that was promised, and what was lost?
"""

from collections.abc import Iterator, Mapping, Sequence

from maxq.checkers.core.api import ClaimVerdict, Context
from maxq.checkers.core.promises import DEFAULTS, unknown_keys
from maxq.checkers.core.titles import titled
from maxq.checkers.evidence.observations import listed
from maxq.checkers.judgement.phrases import said as phrase
from maxq.checkers.judgement.runner import Results
from maxq.checkers.judgement.stretches import ANSWERS
from maxq.checkers.replication.pairs import failovers
from maxq.checkers.routing import late_topics

# What `--fail-on` counts, by the names of anomalies: what was lost, and what was shown and gone, or
# shown twice or in another order.
LOSS = frozenset(("lost-write", "lost-tail", "missing-in-replica", "member-behind-confirmed"))
STALE = frozenset(
    (
        *("truncation", "slave-ahead-of-master", "inconsistent-offsets", "poll-skip"),
        *("int-poll-skip", "nonmonotonic-poll", "nonmonotonic-send", "consumer-offset-regressed"),
    )
)
FAIL_ON = ("loss", "stale", "any")
WRITES_LOST = frozenset(("lost-write", "lost-tail"))
SHIPPED = "P-SHIPPED"  # nothing but what was set one by one
LEAD_MAX = 2  # kinds of findings in the first sentence
MAIN = frozenset(("S6", "S13"))  # a run in which one of these is not judged is no answer


def loss(results: Results) -> str:
    """``443 of 1,839 acknowledged messages (24 %) were lost``; empty where none is known to be."""
    return results.lost.sentence if results.lost.lost else ""


def nothing_lost(results: Results) -> str:
    """``none of 1,624 acknowledged messages was lost``, or that it was not judged; empty where some
    were, or none was acknowledged."""
    return "" if results.lost.lost else results.lost.sentence


def acting(results: Results) -> str:
    """``1 time a slave acted for its master, 15.3 s in all; …``; empty where none did."""
    of = {name: results.counts.get(f"failovers:{name}", 0) for name in failovers.NAMES}
    times = of[failovers.ACTED]
    if not times:
        return ""
    seconds = of[failovers.ACTING_MS] / 1000
    plural = "" if times == 1 else "s"
    said = [f"{times} time{plural} a slave acted for its master, {seconds:.1f} s in all"]
    if back := of[failovers.RETURNED]:
        asked = of[failovers.ASKED]
        offsets = f", {asked} of them asked for offsets that its slave had taken" if asked else ""
        plural = "" if back == 1 else "s"
        said.append(f"{back} time{plural} a master came back into its group{offsets}")
    moved = [
        _moved(n, of[f"{name}{failovers.TWICE}"], what)
        for name, what in (
            (failovers.DELAYED_MOVED, "delayed message"),
            (failovers.HALF_MOVED, "transaction"),
        )
        if (n := of[name])
    ]
    if moved:
        said.append(f"{' and '.join(moved)} came from another broker set meanwhile")
    return "; ".join(said)


def topics(results: Results) -> str:
    """``4 topics were made during the run …``; empty where none was. A topic counts once for each
    broker set."""
    names = (late_topics.MADE, late_topics.FORGOTTEN)
    made, forgotten = (results.counts.get(f"late-topics:{name}", 0) for name in names)
    if not made:
        return ""
    text = f"{made} topic{' was' if made == 1 else 's were'} made during the run"
    if not forgotten:
        return f"{text}; no master is known to have forgotten {'it' if made == 1 else 'one'}"
    it = "it was" if forgotten == 1 else "they were"
    return (
        f"{text}; a later master did not know {forgotten} of them, and nobody could read there "
        f"until {it} made again. RocketMQ promises no more: slaves copy topics every 10 s"
    )


def _moved(n: int, twice: int, what: str) -> str:
    also = f" ({twice:,} from their own set as well)" if twice else ""
    return f"{n:,} {what}{'' if n == 1 else 's'}{also}"


def word(results: Results) -> str:
    """A verdict in one word."""
    return {True: "valid", False: "INVALID", "unknown": "unknown"}[results.valid]


def headline(results: Results, context: Context) -> str:
    """The verdict in a sentence or two, its word first; then what the run no longer promised, and
    how much of it there was."""
    part = [f"Only {context.part}."] if context.part else []
    return " ".join([_verdict(results, context), *_forfeited(results), *part])


def _verdict(results: Results, context: Context) -> str:
    if results.valid is False:
        return f"INVALID: {' '.join(_broken(results))}"
    if results.valid is True:
        return f"valid: {_kept(results, context)}"
    kept = results.of("kept")
    gone = set(context.purpose) & set(results.of("not judged", "no occasion"))
    stands = not gone & MAIN and len(gone) < len(set(context.purpose) - {"S13"})
    whys = "; ".join(results.whys)
    if kept and stands and not any(v.gate for v in results.verdicts):
        return f"unknown: {_kept(results, context)} {_begun(whys)}."
    return f"unknown: {whys}. {_begun(_measured(results, context))}".rstrip()


def _begun(text: str) -> str:
    """A text as a sentence begins."""
    return f"{text[:1].upper()}{text[1:]}"


def _broken(results: Results) -> list[str]:
    """What was done to users first, each with the claims that say so, then what else was lost."""
    lost = loss(results)
    said: dict[str, list[str]] = {}
    for text, claim in sorted(_kinds(results, lost), key=lambda kind: kind[0] != lost):
        said.setdefault(text, []).append(claim)
    lead = 1 if lost in said else LEAD_MAX
    texts = [f"{text} ({', '.join(dict.fromkeys(claims))})" for text, claims in said.items()]
    shown = {claim for claims in list(said.values())[: lead + LEAD_MAX] for claim in claims}
    left = [claim for claim in results.of("broken") if claim not in shown]
    parts = ["; ".join(texts[:lead]), "; ".join(texts[lead : lead + LEAD_MAX])]
    which = f"{'other ' if shown else ''}broken promise{'' if len(left) == 1 else 's'}"
    parts += [f"{which}: {titled(left)}"] if left else []
    parts += [lost] if lost and lost not in said else []
    return [f"{_begun(text)}." for text in parts if text]


def _kinds(results: Results, lost: str) -> Iterator[tuple[str, str]]:
    """Each kind of finding in words, with each claim that it breaks; every loss as `lost`."""
    answers = {a.name: f": {a.detail[ANSWERS]}" for a in results.broken if ANSWERS in a.detail}
    for claim, verdict in results.claims.items():
        for name, count in verdict.found.items() if verdict.status == "broken" else ():
            is_loss = bool(lost) and name in WRITES_LOST
            yield lost if is_loss else phrase(name, count) + answers.get(name, ""), claim


def _forfeited(results: Results) -> list[str]:
    """One sentence for each accident after which claims were no longer promised."""
    by_accident: dict[str, list[str]] = {}
    for claim, verdict in results.claims.items():
        if verdict.forfeited:
            by_accident.setdefault(verdict.why, []).append(claim)
    return [f"No longer promised: {titled(claims)}. The reason: {why}."
            for why, claims in by_accident.items()]  # fmt: skip


def _kept(results: Results, context: Context) -> str:
    measured = _measured(results, context)
    if measured:
        return f"{measured} Nothing that {_settings(context)} was broken."
    kept = len(results.of("kept"))
    what = f"all {kept} claims" if kept != 1 else "the one claim"
    said = [f"{what} that this run tested {'was' if kept == 1 else 'were'} kept"]
    if not kept:
        said = ["nothing was broken, and nothing was put to the test"]
    untested, unpromised = (len(results.of(s)) for s in ("no occasion", "not promised"))
    others = [f"{untested} {'was' if untested == 1 else 'were'} not covered"] if untested else []
    others += [f"{unpromised} {'is' if unpromised == 1 else 'are'} not promised"] * bool(unpromised)
    said += [" and ".join(others)] if others else []
    if results.lost.lost == 0 and (none := nothing_lost(results)):
        said = [none, _begun("; ".join(said))]
        return ". ".join(said) + "."
    return "; ".join(said) + "."


def besides(results: Results, context: Context) -> str:
    """That nothing was lost, or that it was not judged, where the headline does not say it."""
    said = nothing_lost(results)
    return "" if said.lower() in headline(results, context).lower() else said


def _settings(context: Context) -> str:
    """Who promises: a profile by its name, or with what was set beside it."""
    settings = context.settings or {}
    changed = [f"{key}={settings.get(key, DEFAULTS[key])}" for key in context.by_hand
               if key in DEFAULTS]  # fmt: skip
    if not context.profile:
        return "the run promises"
    if context.profile == SHIPPED:
        return "these settings promise"
    if changed:
        return f"these settings promise ({context.profile} with {listed(changed)})"
    return f"{context.profile} promises"


def _measured(results: Results, context: Context) -> str:
    """What was found of claims that are not promised; a loss without what it shows itself by."""
    found = measured_names(results.claims)
    if not found:
        return ""
    lost = loss(results)
    of_losses = {s.partition(" ")[2] for h in results.findings if h.lost for s in h.symptoms}
    seen_as = (LOSS | of_losses) if lost else frozenset[str]()
    others = {name: n for name, n in found.items() if name not in seen_as}
    text = "; ".join(dict.fromkeys(phrase(name, n) for name, n in others.items()))
    if lost and not WRITES_LOST & found.keys():
        lost = ""  # reported as broken already
    parts = [f"{lost}; the settings do not promise to keep them."] if lost else []
    if text:
        parts.append(f"{'also ' if lost else ''}measured, and not promised: {text}.")
    return " ".join([*parts[:1], *map(_begun, parts[1:])])


def measured_names(claims: Mapping[str, ClaimVerdict]) -> dict[str, int]:
    """Anomalies of claims that are not promised, by name."""
    return {
        name: count
        for verdict in claims.values()
        if verdict.measured
        for name, count in verdict.found.items()
    }


def fails_on(results: Results, which: str) -> dict[str, int]:
    """The measured anomalies for which `--fail-on` fails; empty: none."""
    names = {"loss": LOSS, "stale": STALE}.get(which)
    found = measured_names(results.claims)
    if which == "any" or names is None:
        return found if which else {}
    return {name: n for name, n in found.items() if name in names}


def notes(results: Results, context: Context) -> Sequence[str]:
    """What else a reader must know: keys that change nothing here or were left out, and keys with
    unknown promises."""
    said = []
    if context.ignored:
        said.append(
            f"set by hand, and used by RocketMQ only: {listed(context.ignored)}; {context.target} "
            "ignores them"
        )
    said += context.files
    strange = unknown_keys(_by_role([k for k in context.by_hand if k not in context.ignored]))
    if strange:
        said.append(
            f"set by hand, and not in the table of promises: {listed(strange)}; what they promise "
            "or take away is unknown"
        )
    return tuple(said)


def _by_role(keys: Sequence[str]) -> list[str]:
    """Keys that were set for one node, as those of its role."""
    roles = {"n": "namesrv", "c": "controller", "b": "broker"}
    found = []
    for key in keys:
        who, _, name = key.partition(":")
        role = who if who in roles.values() else roles.get(who[:1], who)
        found.append(f"{role}:{name}")
    return found


def table(results: Results) -> list[tuple[str, ClaimVerdict]]:
    """Every claim, those to be read first first: broken, not judged, measured, then the others."""
    order = {"broken": 0, "not judged": 1, "not promised": 2, "kept": 3, "no occasion": 4}
    ranked = enumerate(results.claims.items())
    return [
        pair
        for _, pair in sorted(
            ranked, key=lambda e: (order[e[1][1].status], not e[1][1].measured, e[0])
        )
    ]
